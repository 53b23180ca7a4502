"""The errors of packages (packages-and-forms.md A4).

::

    PackageError                  cannot be used; the message names the place and the reason
    ├── PackageLoadError          a file is missing or unreadable, a logo is wrong
    │   ├── PackageFormatError    the archive or the manifest breaks the format
    │   └── DataError             a resource is not the YAML or JSON that it is read as
    ├── PackageClassError         a class is not declared, or its file is missing or broken
    └── PackageLimitError         beyond a limit: bytes, depth or number of members
    SourceError                   a package cannot be fetched, or is not the requested one
    └── SourceAbsentError         the place was asked, and has no such file
"""

from __future__ import annotations

from typing import TypedDict, Unpack


class Where(TypedDict, total=False):
    """The place of an error in a package, and the code of the finding that a check makes of it."""

    file: str | None
    line: int | None
    column: int | None
    code: str


class PackageError(Exception):
    """A package cannot be used. ``file``, ``line`` and ``column`` name the place, if known.

    ``problem``: the message without the words that say what kind of error it is.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        code: str = "E000",
    ) -> None:
        place = file or ""
        if file and line:
            place = f"{file}:{line}:{column or 1}"
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.problem = message
        self.file = file
        self.line = line
        self.column = column
        self.code = code


class PackageLoadError(PackageError):
    """A part of the package is missing or cannot be read."""


class DataError(PackageLoadError, ValueError):
    """A resource cannot be read as YAML, JSON or text."""


class PackageFormatError(PackageLoadError):
    """The archive or its manifest breaks the format."""

    def __init__(self, message: str, **where: Unpack[Where]) -> None:
        super().__init__(f"Incorrect package format: {message}", **where)
        self.problem = message


class PackageClassError(PackageError):
    """A class cannot be read from the package."""

    def __init__(self, package: str, class_name: str, reason: str, **where: Unpack[Where]) -> None:
        text = f'Unable to load class "{class_name}" from package {package}: {reason}'
        where.setdefault("code", "E050")
        super().__init__(text, **where)


class PackageLimitError(PackageFormatError):
    """The package is larger than a limit."""


class SourceError(Exception):
    """A package, a bundle or an image cannot be fetched, or is not what was requested."""


class SourceAbsentError(SourceError):
    """There is no such file: another name may be tried. Any other error says nothing of that."""
