"""The examples in ``--help``: each is a command that is understood, and most are run as they are written."""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cli.serving import Service

from vetro.cli import cli

SAMPLES = Path(__file__).resolve().parents[3] / "library"
# Where a stranger would not find out from the options alone.
WITH_EXAMPLES = {
    *(
        "env add",
        "env edit",
        "env patch",
        "env import",
        "action call",
        "package import",
        "quota set",
    ),
    *("vm create", "vm exec", "network create", "group rule add", "cnapi", "run", "eval"),
}
# These need machines, an application with that action, or a package of that name.
NOT_RUN = {"action call", "vm create", "vm exec", "quota set", "package import", "run"}


def helped(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """A command's path and the text of its help, of all below it."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield " ".join(path), command.help or ""
        return
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from helped(below, (*path, name))


EXAMPLES = {
    path: found
    for path, text in helped(cli)
    if (found := re.findall("^ *((?:echo .*[|] )?vetro .*)$", text, re.MULTILINE))
}


@pytest.mark.parametrize("path", sorted(WITH_EXAMPLES))
def test_an_example_is_a_command_of_its_verb(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options, their values and its arguments are those that the verb takes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Web").mkdir()
    for name in ("web.json", "org.acme.Web.zip"):
        (tmp_path / name).write_text("{}")
    assert any(path in example for example in EXAMPLES[path])
    for example in EXAMPLES[path]:
        words = shlex.split(example[example.index("vetro ") :])[1:]
        command: click.Command = cli
        while isinstance(command, click.Group):
            name = words.pop(0)
            found = command.get_command(click.Context(command), name)
            assert found is not None, example
            command = found
        command.make_context(command.name, words).close()


def test_examples_run_as_they_are_written(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, on a service with the samples and an image, as the texts say."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("x" * 2000)
    with tarfile.open("a.tar", "w") as tar:
        tar.add("text", "etc/hostname")
    service.ok("image", "import", "debian-12-apache", "a.tar")
    service.ok("package", "import", SAMPLES / "ApacheHttpServer", "--exists-action", "skip")
    service.ok("env", "create", "web")
    service.ok("group", "create", "web")
    in_order = dict.fromkeys(
        ["env add", "env edit", "env patch", "env import", *sorted(WITH_EXAMPLES)]
    )
    for path in in_order:
        for example in [] if path in NOT_RUN else EXAMPLES[path]:
            before, _, line = example.rpartition("vetro ")
            given = shlex.split(before.removesuffix("| "))[1] if before else None
            code, text = service.run(*shlex.split(line), input=given)
            assert code == 0, f"{example}: {text}"
    names = {one["name"] for one in service.json("env", "list")}
    assert names == {"web", "copy"}
    (site,) = service.json("env", "show", "copy", "--only-apps")
    assert (site["port"], site["instance"]["flavor"]) == (8082, "m1.small")
    service.ok("env", "destroy", "--yes", "web", "copy")
