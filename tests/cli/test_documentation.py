"""The command and its page say the same; every command explains itself."""

import re
from pathlib import Path

import click
import pytest

from vetro.cli import cli

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(command, path):
    """Every command below one, as (words, command)."""
    context = click.Context(command, info_name=path[-1])
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), [*path, name])


ALL = dict(commands(cli, ["vetro"]))


def documented():
    """The commands in the page's tables; `a b`, `c` in one cell means `a b` and `a c`."""
    found = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| `vetro "):
            continue
        names = re.findall(r"`([^`]+)`", line.split("|")[1])
        found.add(names[0])
        group = names[0].rpartition(" ")[0]
        found.update(f"{group} {name}" for name in names[1:])
    return found


def test_the_page_names_every_command_and_no_other():
    """docs/cli.md has each command in one of its tables."""
    assert documented() == set(ALL)


@pytest.mark.parametrize("name", sorted(ALL))
def test_commands_explain_themselves(name):
    """A sentence for the command, none cut off in its group's list, and one for each option."""
    command = ALL[name]
    assert command.help
    if name.count(" ") > 1:  # the top level has lines of its own, in `COMMANDS`
        assert not command.get_short_help_str(limit=64).endswith("...")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.help.endswith((".", "]", ")")), parameter.help


@pytest.mark.parametrize("name", sorted(ALL))
def test_commands_that_print_tables_print_json(name):
    """`--json` is an option of each, but of those whose output is a document, a page or a script."""
    without = {
        "up",
        "node",
        "allocate",
        "repl",
        "completion",
        "cnapi",
        "workflow-case",
        "form-case",
        "repository serve",
        "api",
        "engine",
        "compute",
        "broker",
        "env export",
    }
    screens = {"vm console", "vm screenshot", "vm vnc", "repository show"}
    names = {parameter.name for parameter in ALL[name].params}
    short = name.removeprefix("vetro ")
    if short not in without | screens:
        assert "json" in names
