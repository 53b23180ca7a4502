"""The check of an upload for people: every finding with the lines around it (packages-and-forms.md A8).

A catalog sees one package at a time. What a package names in others (their classes, members and
functions) is checked where these are at hand: by ``vetro check``, and when an engine loads it.
"""

from __future__ import annotations

from pathlib import Path

from vetro.packages.check import NotAPackage, check
from vetro.packages.check_codes import LOADS
from vetro.packages.check_yaml import Finding
from vetro.packages.errors import PackageError, PackageLimitError
from vetro.packages.members import ArchiveLimits, ArchiveMembers
from vetro.packages.package import open_package
from vetro.packages.uploads import check_bounds

#: What is known only with the packages that a package requires.
OF_OTHERS = frozenset(("E301", "E307", "E311", "E312", "E313", "W206", "W208", "W209", "W210"))
MAX_FINDINGS = 200
AROUND = 2
LINE_CHARACTERS = 200


def examine(archive: Path) -> list[dict[str, object]]:
    """The findings of an archive: level, code, message, place and ``excerpt`` (``[[line, text], …]``).

    Errors come first, at most 200 findings. Takes seconds for a large package: do not call it in an
    event loop.
    """
    found = sorted(_findings(archive), key=lambda one: one.level != "error")[:MAX_FINDINGS]
    lines = _Lines(archive)
    return [
        {
            "level": one.level,
            "code": one.code,
            "message": one.message,
            "file": one.file,
            "line": one.line,
            "column": one.column,
            "excerpt": lines.around(one.file, one.line),
        }
        for one in found
    ]


def other_errors(archive: Path, first: PackageError) -> list[str]:
    """What else is wrong with an archive that was refused for ``first``: a line for each error.

    Takes seconds for a large package: do not call it in an event loop.
    """
    lines: dict[str, None] = {}
    for one in _findings(archive):
        place = (one.file, one.line, one.column)
        if one.level != "error" or one.code in LOADS:
            continue
        # Another file may have the same mistake.
        if first.file in (None, one.file) and first.message.endswith(one.message):
            continue
        if place == (first.file, first.line, first.column) and one.line:
            continue
        where = ":".join(str(part) for part in place if part is not None)
        lines[f"{where}: {one.message}" if where else one.message] = None
    return list(lines)


def _findings(archive: Path) -> list[Finding]:
    try:
        # Beyond the limits of an upload nothing is read: it could take minutes.
        check_bounds(open_package(archive))
    except PackageLimitError as error:
        return [_finding(error)]
    except PackageError:
        pass  # the check finds this, and the rest
    try:
        return [one for one in check(archive) if one.code not in OF_OTHERS]
    except NotAPackage as error:
        return [_finding(error)]


def _finding(error: PackageError) -> Finding:
    code = "E001" if error.code == "E000" else error.code
    return Finding("error", code, error.message, error.file, error.line, error.column)


class _Lines:
    """The texts of an archive by line; each file is read once."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._known: dict[str, list[str]] = {}

    def around(self, file: str | None, line: int | None) -> list[list[object]]:
        """The lines around a place; empty where there is none."""
        if not file or not line:
            return []
        if file not in self._known:
            self._known[file] = self._read(file)
        start = max(1, line - AROUND)
        texts = self._known[file][start - 1 : line + AROUND]
        return [[start + i, text[:LINE_CHARACTERS]] for i, text in enumerate(texts)]

    def _read(self, file: str) -> list[str]:
        try:
            content = ArchiveMembers(self._archive, ArchiveLimits()).read(file)
        except PackageError:
            return []
        return content.decode("utf-8", "replace").splitlines()
