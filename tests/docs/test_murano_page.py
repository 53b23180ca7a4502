"""The page for those who come from Murano: the commands and settings that it names exist."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import click
from tests.cli.test_verbs import OURS, found_command

from vetro.server.settings import load_settings

PAGE = (Path(__file__).parents[2] / "docs" / "murano.md").read_text(encoding="utf-8")


def test_it_names_every_verb_and_its_command() -> None:
    """The table is that of the tests of verbs."""
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| `([a-z -]+)` \|$", PAGE, re.M))
    ours = {
        verb: command
        for verb, command in OURS.items()
        if verb not in ("environment-export", "environment-import")  # Murano had none
    }
    assert ours.items() <= rows.items()


def test_commands_that_it_names_exist() -> None:
    """Each `vetro …` of the text is a command, with the options that stand there."""
    for words in re.findall(r"`vetro ([a-z -]+?)(?: [A-Z<\[-].*?)?`", PAGE):
        command = found_command(words.strip())
        assert isinstance(command, click.Command), words


def test_settings_that_it_names_exist() -> None:
    """Each name in the right column of the options is a setting."""
    table = PAGE.split("## Options of murano.conf")[1]
    named = [
        name
        for row in re.findall(r"^\| `.*? \| (.*) \|$", table, re.M)
        for name in re.findall(r"`([a-z]+\.[a-z_]+)`", row)
    ]
    assert len(named) > 30
    settings = load_settings(environ={})
    sections = {one.name: getattr(settings, one.name) for one in fields(settings)}
    known = {
        f"{name}.{one.name}"
        for name, section in sections.items()
        if is_dataclass(section)
        for one in fields(section)
    }
    assert set(named) - known == set()
