"""Packages, bundles and images of a repository: fetched by name, address or from beside a file (A10)."""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vetro.cli.terminal.output import say
from vetro.http import Fault
from vetro.http.client import SyncClient, TransportError

if TYPE_CHECKING:
    from vetro.packages import BundleEntry, Package, RepositoryFiles

IMAGE_BYTES = 64 * 2**30
NO_REPOSITORY = "No base_url for repository supplied: say --repo-url, or set MURANO_REPO_URL"


class Repository:
    """A place that packages come from; what is fetched is kept in a directory until the end."""

    def __init__(self, base: str | None) -> None:
        self._base = base
        self._client = SyncClient(follow_redirects=True)
        self._directory = tempfile.TemporaryDirectory(prefix="vetro-import-")
        self._number = 0

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()
        self._directory.cleanup()

    @cached_property
    def files(self) -> RepositoryFiles:
        """Its contents."""
        # Imported late: most commands open no package.
        from vetro.packages import RepositoryFiles

        return RepositoryFiles(self._base, self.fetch, no_base=NO_REPOSITORY)

    def fetch(self, address: str, most: int) -> Path:
        """A file by its address. Errors: ``SourceError``."""
        from vetro.packages import SourceError, no_file

        self._number += 1
        target = Path(self._directory.name) / str(self._number)
        try:
            self._client.download(address, target, headers={}, most=most)
        except Fault as fault:
            if fault.status == 413:  # of the client: too large
                raise SourceError(fault.message) from fault
            raise no_file(address, fault.status) from fault
        except (TransportError, OSError) as error:
            raise SourceError(f"{address}: {error}") from error
        return target

    def bundle(self, source: str) -> bytes:
        """A bundle by file, address or name; its packages may lie beside its file."""
        from vetro.packages import DataError, SourceError, check_name, is_address

        path = Path(source)
        if not is_address(source) and path.is_file():
            self.files.beside = [path.resolve().parent]
            return path.read_bytes()
        self.files.beside = []
        if not is_address(source):
            try:
                check_name(source)
            except DataError as error:
                raise SourceError(f"{error}; there is no such file, either") from error
        return self.files.bundle(source)

    def package(self, entry: BundleEntry) -> tuple[Package, Path]:
        """A package and where it lies. Errors: ``SourceError``."""
        return self.files.package(entry)

    def image(self, name: str, address: str | None) -> Path:
        """The file of an image: beside the bundle, at its address, else in the repository."""
        from vetro.packages import SourceError, is_address

        for directory in self.files.beside:
            if (directory / name).is_file():
                return directory / name
        say(f"Fetching the image {name} …")
        if address is not None:
            if not is_address(address):
                raise SourceError(f"{address!r} is not an http address")
            return self.fetch(address, IMAGE_BYTES)
        return self.files.below(f"images/{name}", IMAGE_BYTES)
