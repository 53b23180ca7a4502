"""The check of an upload: for a catalog to accept it (packages-and-forms.md A4, A5), and for people, who get
every finding with the lines around it (A8).

Opening a package checks its archive and its manifest. A catalog of other people's packages checks more:
every class file is YAML, the form is valid, and no list is so long that storing its rows delays other
requests. It sees one package at a time. What a package names in others (their classes, members and
functions) is checked where these are at hand: by ``vetro check``, and when an engine loads it.
"""

from __future__ import annotations

from pathlib import Path

from vetro.muranopl import YamlLimits
from vetro.packages.check import NotAPackage, check, form_findings
from vetro.packages.check_codes import LOADS
from vetro.packages.check_yaml import Finding
from vetro.packages.errors import PackageError, PackageLimitError, PackageLoadError
from vetro.packages.manifest import FILE
from vetro.packages.members import MEBIBYTE, ArchiveLimits, ArchiveMembers, safe_name
from vetro.packages.package import Package, open_package

MAX_TAGS = 100
MAX_CLASSES = 1000
MAX_REQUIREMENTS = 200
MAX_TEXT_BYTES = 64 * 1024
#: Bytes of one class file (the limit of the language), of all class files, of the form.
CLASS_BYTES = YamlLimits().bytes
CLASSES_BYTES = 16 * MEBIBYTE
FORM_BYTES = MEBIBYTE


def check_upload(package: Package) -> None:
    """Check a package as a whole. Errors: ``PackageError``, with the place of the first mistake.

    Takes seconds for a large package: do not call it in an event loop.
    """
    check_bounds(package)
    package.read_classes()
    package.check_classes()
    errors = [
        one
        for one in form_findings(
            package.members, package.manifest.ui, package.full_name, loads=False
        )
        if one.level == "error"
    ]
    if errors:
        first = errors[0]
        more = f" (and {len(errors) - 1} more: 'vetro check' lists them)" if errors[1:] else ""
        raise PackageLoadError(
            f"the form cannot be used: {first.message}{more}",
            file=first.file,
            line=first.line,
            column=first.column,
            code=first.code,
        )


def check_bounds(package: Package) -> None:
    """Check the sizes of a package. Errors: ``PackageLimitError``."""
    # Imported late: commands that open packages import this room and do not upload.
    import msgspec

    manifest = package.manifest
    for key, count, limit in (
        ("Tags", len(manifest.tags), MAX_TAGS),
        ("Classes", len(manifest.classes), MAX_CLASSES),
        ("Require", len(manifest.requirements), MAX_REQUIREMENTS),
    ):
        if count > limit:
            raise PackageLimitError(f"{key} has {count} entries; at most {limit}", file=FILE)
    for key, value in (
        ("Description", manifest.description),
        ("Supplier", manifest.supplier),
        ("Meta", manifest.meta),
    ):
        # Values of YAML without a JSON form count as text of about the same size.
        if len(msgspec.json.encode(value, enc_hook=str)) > MAX_TEXT_BYTES:
            raise PackageLimitError(f"{key} is larger than {MAX_TEXT_BYTES} bytes", file=FILE)
    total = 0
    for file in sorted(set(package.class_files.values())):
        path = f"Classes/{safe_name(file)}"
        size = len(package.members.read(path))
        total += size
        if size > CLASS_BYTES:
            raise PackageLimitError(f"larger than {CLASS_BYTES} bytes", file=path)
        if total > CLASSES_BYTES:
            raise PackageLimitError(
                f"the class files have more than {CLASSES_BYTES} bytes together"
            )
    form = f"UI/{safe_name(manifest.ui)}"
    if package.members.has(form) and len(package.members.read(form)) > FORM_BYTES:
        raise PackageLimitError(f"larger than {FORM_BYTES} bytes", file=form)


#: What is known only with the packages that a package requires.
OF_OTHERS = frozenset(
    ("E301", "E307", "E311", "E312", "E313", "W206", "W208", "W209", "W210", "W211")
)
MAX_FINDINGS = 200
AROUND = 2
LINE_CHARACTERS = 200


def examine(archive: Path | bytes) -> list[dict[str, object]]:
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


def other_errors(archive: Path | bytes, first: PackageError) -> list[str]:
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


def _findings(archive: Path | bytes) -> list[Finding]:
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

    def __init__(self, archive: Path | bytes) -> None:
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
