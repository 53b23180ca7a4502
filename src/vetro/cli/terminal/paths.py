"""Files and directories that commands are given: what is wrong with one, where, and what to do."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO, Any, NoReturn

import click

from vetro.cli.terminal.output import CommandError, UsageMistake, fail

PACKAGE = "A package is a directory with a manifest.yaml, or the zip that 'vetro package build' makes of it."
_PROBLEMS = {
    errno.ENOENT: ("there is no such {kind}", "Name a {kind} that is there{begins}."),
    errno.ENOTDIR: (
        "there is no such {kind}: a part of the path is a file",
        "Name a {kind} that is there{begins}.",
    ),
    errno.EISDIR: ("it is a directory, not a file", "Name a file; 'ls {name}' shows those in it."),
    errno.EACCES: (
        "your account may not use it",
        "'ls -ld {name}' shows who may; its owner can give you the right.",
    ),
    errno.ENOSPC: ("there is no space left on its disk", "'df -h' shows which disks are full."),
    errno.EROFS: ("its disk can only be read", "Name a file on another disk."),
}


class PathGiven(click.Path):
    """A path that there is, of the wanted kind and readable, as a `Path`; ``kind`` for messages."""

    def __init__(self, kind: str, *, files: bool = True, directories: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=files, dir_okay=directories)
        self.kind = kind

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """The path. Errors: ``UsageMistake``."""
        name = os.fspath(value)
        try:
            is_directory = stat.S_ISDIR(os.stat(name).st_mode)
        except OSError as error:
            _refuse(name, error.errno or errno.ENOENT, self.kind)
        except ValueError:  # a NUL
            _refuse(repr(name), errno.ENOENT, self.kind)
        if is_directory and not self.dir_okay:
            _refuse(name, errno.EISDIR, self.kind)
        if not is_directory and not self.file_okay:
            raise UsageMistake(f"{name}: it is a file, not a directory", "Name the directory.")
        if not os.access(name, os.R_OK):
            _refuse(name, errno.EACCES, self.kind)
        return super().convert(value, param, ctx)


class TextGiven(click.File):
    """A text file to read, opened; ``-`` is standard input."""

    def __init__(self) -> None:
        super().__init__(encoding="utf-8")

    def convert(
        self,
        value: str | os.PathLike[str] | IO[Any],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[Any]:
        """The file. Errors: ``UsageMistake``."""
        if isinstance(value, (str, os.PathLike)) and value != "-":
            FILE.convert(value, param, ctx)
        return super().convert(value, param, ctx)


FILE = PathGiven("file", directories=False)
DIRECTORY = PathGiven("directory", files=False)
EITHER = PathGiven("file or directory")
TEXT = TextGiven()


def explained(error: OSError) -> CommandError:
    """What the machine said of a file, with what to do; for an error that names its file."""
    name = os.fsdecode(error.filename)
    directory = os.path.dirname(name)
    if error.errno == errno.ENOENT and directory and not os.path.isdir(directory):
        hint = f"Make it ('mkdir -p {directory}'), or name a file in a directory that is there."
        return CommandError(f"{name}: there is no directory {directory}", hint)
    message, hint = _said(name, error.errno or 0, "file")
    return CommandError(message or f"{name}: {error.strerror}", hint)


def text_in(path: Path, what: str, *, may_be_empty: bool = False) -> str:
    """The text of a file. One that is empty or none ends the command; ``what``: what it has to be."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fail(
            f"{path}: not UTF-8 text: {error.reason} at byte {error.start}",
            f"Name {what}.",
        )
    if not text.strip() and not may_be_empty:
        fail(f"{path}: it is empty", f"Name {what}.")
    return text


def package_there(path: Path, exit_code: int = 1) -> None:
    """End the command when no package can be there."""
    if not path.exists():
        fail(f"{path}: there is no such file or directory", PACKAGE, exit_code)
    if path.is_dir() and not (path / "manifest.yaml").is_file():
        fail(f"{path}: there is no manifest.yaml", PACKAGE, exit_code)


def package_hint(error: Exception) -> str:
    """What to do about a package that cannot be read."""
    if "not a zip archive" in str(error):
        return PACKAGE
    return "'vetro check' lists everything that is wrong."


def _said(name: str, code: int, kind: str) -> tuple[str, str | None]:
    text, hint = _PROBLEMS.get(code, ("", ""))
    if not text:
        return "", None
    begins = "" if os.path.isabs(name) else f"; names begin in {Path.cwd()}"
    said = {"kind": kind, "name": name, "begins": begins}
    return f"{name}: {text.format(**said)}", hint.format(**said)


def _refuse(name: str, code: int, kind: str) -> NoReturn:
    message, hint = _said(name, code, kind)
    raise UsageMistake(message or f"{name}: {os.strerror(code)}", hint)
