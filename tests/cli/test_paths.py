"""Files that commands are given: what is wrong with one is said in a line, with what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from vetro.cli import COMMANDS, cli
from vetro.cli.terminal.output import UsageMistake
from vetro.cli.terminal.paths import PathGiven, TextGiven, explained


def _parameters(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    for parameter in command.params:
        yield path, parameter
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _parameters(below, (*path, name))


def _all_parameters() -> list[tuple[str, click.Parameter]]:
    context = click.Context(cli)
    found: list[tuple[str, click.Parameter]] = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found += [(" ".join(path), parameter) for path, parameter in _parameters(command, (name,))]
    return found


def test_every_file_that_has_to_be_there_is_refused_in_the_same_words() -> None:
    """No parameter of any command has click's own types for that: their hint would be --help."""
    given = 0
    for command, parameter in _all_parameters():
        type_ = parameter.type
        if isinstance(type_, (PathGiven, TextGiven)):
            given += 1
            with pytest.raises(UsageMistake) as caught:
                type_.convert("/no/such", parameter, None)
            assert caught.value.message.startswith("/no/such: there is no such "), command
            assert str(caught.value.hint).startswith("Name a "), command
            continue
        assert not isinstance(type_, click.File), (command, parameter.name)
        assert not (isinstance(type_, click.Path) and type_.exists), (command, parameter.name)
    assert given > 20


def _refusal(*arguments: str) -> tuple[str, str, int]:
    """The error, the hint and the exit code of a command."""
    done = CliRunner().invoke(cli, list(arguments), prog_name="vetro")
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 2, done.output
    return lines[0].removeprefix("Error: "), lines[1].removeprefix("Hint: "), done.exit_code


COMMANDS_WITH_PACKAGES = [
    ("check", 2), ("package build", 1), ("doc", 1), ("test", 1), ("repl", 1),
    ("run --class A --method m", 1),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code"), COMMANDS_WITH_PACKAGES)
def test_what_is_no_package_is_named_once(
    command: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, a directory, empty or something else: the path once, the reason, and what a package is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xeb\x00\xff" * 100)
    for name, reason in [
        ("missing", "there is no such file or directory"),
        ("directory", "there is no manifest.yaml"),
        ("empty", "Incorrect package format: the file is not a zip archive"),
        ("binary", "Incorrect package format: the file is not a zip archive"),
    ]:
        error, hint, ended = _refusal(*command.split(), name)
        assert (error, ended) == (f"{name}: {reason}", code)
        assert hint.startswith("A package is a directory with a manifest.yaml, or the zip")
    assert not (tmp_path / "dist").exists()


COMMANDS_WITH_TEXTS = [
    "workflow-case", "form-case", "allocate --case", "workflow explain", "package create --template",
    "env patch web", "env import", "run . --class A --method m --model",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_WITH_TEXTS)
def test_what_is_no_text_is_named_once(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing, a directory, empty, or bytes that are no text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xeb\x00\xff" * 100)
    if command.startswith("run "):
        (tmp_path / "manifest.yaml").write_text("Format: 1.0\nType: Application\nFullName: a.b\n")
    for name, reason, todo in [
        ("missing", "there is no such file", f"names begin in {tmp_path}"),
        ("directory", "it is a directory, not a file", "'ls directory' shows"),
        ("empty", "it is empty", ""),
        ("binary", "not UTF-8 text: invalid continuation byte at byte 0", "Name a"),
    ]:
        error, hint, ended = _refusal(*command.split(), name)
        assert error == f"{name}: {reason}"
        assert todo in hint
        assert ended in (1, 2)


@pytest.mark.parametrize("command", ["up", "doctor"])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda file: None, "the settings file does not exist"),
        (Path.mkdir, "it is a directory, not a settings file"),
        (lambda file: file.write_bytes(b"\xeb\x00"), "not a settings file: invalid continuation"),
    ],
    ids=["missing", "directory", "binary"],
)
def test_settings_that_cannot_be_read_are_named(
    command: str, make: object, reason: str, tmp_path: Path
) -> None:
    """Before, bytes that are no text were a traceback, and a directory was said not to exist."""
    file = tmp_path / "vetro.toml"
    assert callable(make)
    make(file)
    done = CliRunner().invoke(cli, [command, "--config", str(file)], prog_name="vetro")
    assert done.exit_code in (1, 2)
    assert done.stderr.startswith(f"Error: {file}: {reason}")


def test_a_class_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Of a directory of classes, from which a package is made."""
    (tmp_path / "A.yaml").write_bytes(b"\xeb\x00")
    error, _, _ = _refusal("package", "create", "--classes-dir", str(tmp_path))
    assert error.startswith(f"{tmp_path}/A.yaml: not UTF-8 text")


def test_a_file_as_a_directory_and_one_that_may_not_be_read_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to do; the hint of the second says how to see whose it is."""
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(UsageMistake, match="it is a file, not a directory"):
        PathGiven("directory", files=False).convert(str(file), None, None)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageMistake, match="your account may not use it") as caught:
        PathGiven("file").convert(str(file), None, None)
    assert str(caught.value.hint).startswith(f"'ls -ld {file}' shows who may")


def test_what_the_machine_says_of_a_file_has_a_hint() -> None:
    """Errors that a command meets later, such as when it writes."""
    error = explained(PermissionError(13, "Permission denied", "/etc/x"))
    assert error.message == "/etc/x: your account may not use it"
    error = explained(OSError(28, "No space left on device", "/etc/x"))
    assert (error.message, error.hint) == (
        "/etc/x: there is no space left on its disk",
        "'df -h' shows which disks are full.",
    )
    error = explained(OSError(5, "Input/output error", "/etc/x"))
    assert (error.message, error.hint) == ("/etc/x: Input/output error", None)
