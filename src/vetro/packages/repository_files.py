"""Packages and bundles of a repository: which file has them, and whether it is what was wanted (A10).

`RepositoryFiles` gets files through a function of its caller: a command fetches what its user says, the
service only what its operator allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from vetro.muranopl import Version, version_spec
from vetro.packages.errors import DataError, PackageError, SourceAbsentError, SourceError
from vetro.packages.members import MEBIBYTE
from vetro.packages.package import Package, open_package
from vetro.packages.repositories import (
    INDEX,
    BundleEntry,
    IndexEntry,
    archive_names,
    best_entry,
    check_name,
    hash_mismatch,
    parse_index,
)
from vetro.packages.signatures import SIGNATURE_SUFFIX

BUNDLE_BYTES = 4 * MEBIBYTE
ARCHIVE_BYTES = 64 * MEBIBYTE

Fetch = Callable[[str, int], Path]
"""The file at an address, of at most so many bytes. Errors: ``SourceError``, ``SourceAbsentError``."""

#: Answers of a server that has no such file. Stores of objects say 403 to who may not list them.
_ABSENT = frozenset((403, 404, 410))


def no_file(address: str, status: int) -> SourceError:
    """The error for a server's answer that is not the file."""
    kind = SourceAbsentError if status in _ABSENT else SourceError
    return kind(f"{address}: the server answers {status}")


def is_address(text: str) -> bool:
    """Whether a text is the whole address of a file."""
    return text.startswith(("http://", "https://"))


class RepositoryFiles:
    """The files of one repository, and of the directories ``beside`` a bundle.

    ``base``: its address; none: only whole addresses can be fetched. ``no_base`` says what to do then.
    """

    def __init__(
        self,
        base: str | None,
        fetch: Fetch,
        *,
        beside: Iterable[Path] = (),
        no_base: str = "No base_url for repository supplied",
        archive_bytes: int = ARCHIVE_BYTES,
    ) -> None:
        self.base = base.rstrip("/") if base else None
        self.beside = list(beside)
        self._fetch = fetch
        self._no_base = no_base
        self._archive_bytes = archive_bytes
        self._index: list[IndexEntry] | None = None
        self._has_index = True

    def below(self, path: str, most: int) -> Path:
        """A file of the repository. Errors: ``SourceError``."""
        if self.base is None:
            raise SourceError(self._no_base)
        return self._fetch(f"{self.base}/{path}", most)

    def index(self) -> list[IndexEntry]:
        """What the repository's index lists; nothing for a repository without one.

        Errors: ``SourceError`` for an index that cannot be read or fetched now.
        """
        if self._index is None:
            try:
                content = self.below(INDEX, BUNDLE_BYTES).read_bytes()
                self._index = parse_index(content, f"{self.base}/{INDEX}")
            except DataError as error:
                raise SourceError(str(error)) from error
            except SourceAbsentError:
                self._index = []
                self._has_index = False
        return self._index

    def bundle(self, source: str) -> bytes:
        """The text of a bundle, by address or name. Errors: ``SourceError``."""
        if is_address(source):
            return self._fetch(source, BUNDLE_BYTES).read_bytes()
        try:
            check_name(source)
        except DataError as error:
            raise SourceError(str(error)) from error
        name = f"bundles/{source.removesuffix('.bundle')}.bundle"
        return self.below(name, BUNDLE_BYTES).read_bytes()

    def package(self, entry: BundleEntry) -> tuple[Package, Path]:
        """A package and where it lies: beside the bundle, at its address, else in the repository.

        An entry with an address and an empty name takes any package. Errors: ``SourceError`` for what
        is not there, has another name, a version that does not satisfy ``entry.version``, or another
        hash.
        """
        called = entry.name or entry.url
        path, wanted = self._locate(entry)
        problem = hash_mismatch(path, wanted) if path.is_file() else None
        if problem is not None:
            raise SourceError(f"{called}: the archive differs from what the index says: {problem}")
        try:
            opened = open_package(path)
        except PackageError as error:
            raise SourceError(f"{called}: {error}") from error
        if opened.full_name != (entry.name or opened.full_name):
            raise SourceError(f"{called}: the archive has the package {opened.full_name}")
        if entry.version is not None and Version.parse(opened.version) not in version_spec(
            entry.version
        ):
            raise SourceError(f"{called}: there is version {opened.version}, not {entry.version}")
        return opened, path

    def _locate(self, entry: BundleEntry) -> tuple[Path, str | None]:
        """The archive or directory of a package, and the hash that it should have."""
        for directory in self.beside:
            for path in (directory / entry.name, directory / f"{entry.name}.zip"):
                if path.is_file() or (path / "manifest.yaml").is_file():
                    return path, entry.sha256
        if entry.url is not None:
            if not is_address(entry.url):
                raise SourceError(f"{entry.name}: {entry.url!r} is not an http address")
            return self._fetch(entry.url, self._archive_bytes), entry.sha256
        if self.base is None:
            raise SourceError(f"{entry.name}: {self._no_base}")
        found = best_entry(self.index(), entry.name, entry.version)
        if found is not None:
            path = self.below(found.file, self._archive_bytes)
            if found.signature is not None:
                signature = path.with_name(path.name + SIGNATURE_SUFFIX)
                signature.write_text(found.signature, encoding="utf-8")
            return path, entry.sha256 or found.sha256
        if self._has_index:
            there = [one.version for one in self.index() if one.name == entry.name]
            versions = f"; it has {', '.join(there)}" if there else ""
            wanted = f" {entry.version}" if entry.version else ""
            raise SourceError(
                f"{entry.name}: the repository has no version{wanted} of it{versions}"
            )
        try:
            names = archive_names(entry.name, entry.version)
        except DataError as error:
            raise SourceError(str(error)) from error
        for name in names[:-1]:
            try:
                return self.below(name, self._archive_bytes), entry.sha256
            except SourceAbsentError:
                continue
        return self.below(names[-1], self._archive_bytes), entry.sha256
