"""Adding packages from a repository or an address, with what they require (packages-and-forms.md A10).

The service fetches only what the operator allows: the addresses of `Sources`; an operator may name any
address. It follows no redirection, so an allowed address leads nowhere else.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from vetro.catalog.adding import UploadMetadata
from vetro.catalog.store import Catalog
from vetro.http import BadRequest, Fault, NotFound, Principal
from vetro.http.client import SyncClient, TransportError
from vetro.json_values import Json
from vetro.packages import (
    BundleEntry,
    DataError,
    Package,
    RepositoryFiles,
    SourceError,
    images_of,
    no_file,
    parse_bundle,
    requirement_closure,
    version_spec,
)

T = TypeVar("T")

AT_A_TIME = 4
"""Imports that a process works on; others wait."""
SECONDS = 300.0
"""One import with all that it requires."""
MOST_PACKAGES = 100
"""Of one import."""
SILENT_SECONDS = 30.0
"""How long a server may send nothing."""
BUILT_IN = frozenset({"io.murano", "io.murano.applications"})
"""Every engine has them."""
NO_BASE = "no repository of packages is set (api.repository_url): give a whole address, or upload the archive"


@dataclass(frozen=True)
class Sources:
    """Where packages may come from: a repository, and the beginnings of further addresses."""

    repository_url: str = ""
    import_from: tuple[str, ...] = ()

    def allows(self, address: str) -> bool:
        """Whether everybody may import from an address."""
        base = [f"{self.repository_url.rstrip('/')}/"] if self.repository_url else []
        known = [*base, *(one for one in self.import_from if one.endswith("/"))]
        # ``..`` would leave what is allowed, also as ``%2e%2e``.
        plain = ".." not in address.lower().replace("%2e", ".")
        return plain and any(address.startswith(one) for one in known)


class NewImport(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an import: ``name``, or ``url``, or both. ``version`` is a condition."""

    name: str = ""
    version: str | None = None
    url: str | None = None
    sha256: str | None = None
    is_public: bool = False
    enabled: bool = True
    categories: list[str] = []


class NewBundle(msgspec.Struct, forbid_unknown_fields=True):
    """A bundle: its ``text``, or its name or address (``source``)."""

    source: str = ""
    text: str = ""


class _Fetching:
    """Fetches files into a directory, until the time is over. Runs in a thread of its own."""

    def __init__(self, sources: Sources, directory: Path, *, anywhere: bool) -> None:
        self._sources = sources
        self._directory = directory
        self._anywhere = anywhere
        self._ends = time.monotonic() + SECONDS
        self._number = 0

    def fetch(self, address: str, most: int) -> Path:
        """`vetro.packages.repository_files.Fetch`."""
        if not self._anywhere and not self._sources.allows(address):
            raise SourceError(
                f"{address}: only an operator may import from there; download it, and upload it here"
            )
        self._number += 1
        target = self._directory / str(self._number)
        client = SyncClient(timeout_seconds=SILENT_SECONDS)
        try:
            client.download(address, target, headers={}, most=most, ends=self._ends)
        except Fault as fault:
            if fault.status in (408, 413):  # of the client: too slow, too large
                raise SourceError(fault.message) from fault
            raise no_file(address, fault.status) from fault
        except (TransportError, OSError) as error:
            raise SourceError(f"{address}: {error}") from error
        finally:
            client.close()
        return target


class Imports:
    """Imports of all projects."""

    def __init__(self, catalog: Catalog, sources: Sources, size_limit: int) -> None:
        self._catalog = catalog
        self._sources = sources
        self._size_limit = size_limit
        self._turns = asyncio.Semaphore(AT_A_TIME)

    def described(self, principal: Principal) -> Json:
        """``url`` of the repository, and whether the caller may import from ``any_address``."""
        url = self._sources.repository_url or None
        return {"url": url, "any_address": principal.is_admin}

    def _files(self, principal: Principal, directory: Path) -> RepositoryFiles:
        fetching = _Fetching(self._sources, directory, anywhere=principal.is_admin)
        return RepositoryFiles(
            self._sources.repository_url or None,
            fetching.fetch,
            no_base=NO_BASE,
            archive_bytes=self._size_limit,
        )

    async def bundle(self, principal: Principal, body: Json) -> Json:
        """The packages of a bundle, and what was skipped, in words. Errors: 400, 404."""
        given = _convert(body, NewBundle)
        if bool(given.source) == bool(given.text):
            raise BadRequest("Give either text or source (a name in the repository, or an address)")

        def read() -> tuple[list[BundleEntry], list[str]]:
            content = given.text.encode()
            if given.source:
                with tempfile.TemporaryDirectory(dir=self._catalog.blobs.directory) as directory:
                    content = self._files(principal, Path(directory)).bundle(given.source)
            return parse_bundle(content, given.source or "bundle")

        try:
            async with self._turns:
                entries, skipped = await asyncio.to_thread(read)
        except SourceError as error:
            raise NotFound(f"The bundle cannot be fetched: {error}") from error
        except DataError as error:
            raise BadRequest(f"The bundle cannot be read: {error}") from error
        listed = [
            {"name": one.name, "version": one.version, "url": one.url, "sha256": one.sha256}
            for one in entries
        ]
        return {"packages": listed, "skipped": skipped}

    async def run(self, principal: Principal, body: Json, *, may_publish: bool) -> Json:
        """Add a package and what it requires, what is required first; what came of each.

        Errors: 400 for a body that is wrong.
        """
        given = _convert(body, NewImport)
        if not (given.name or given.url):
            raise BadRequest("Give the name of a package, or the url of its archive")
        try:
            version_spec(given.version or None)
        except ValueError as error:
            raise BadRequest(f"version: {error}") from error
        entry = BundleEntry(given.name, given.version or None, given.url, given.sha256)
        outcomes: list[Json] = []
        async with self._turns:
            with tempfile.TemporaryDirectory(dir=self._catalog.blobs.directory) as directory:
                files = self._files(principal, Path(directory))
                gathering = _Gathering(self._catalog, principal, files, outcomes)
                found = await asyncio.to_thread(gathering.gather, entry)
                for package, path in found:
                    metadata = UploadMetadata(
                        is_public=given.is_public,
                        enabled=given.enabled,
                        categories=given.categories if package is gathering.root else [],
                    )
                    outcomes.append(
                        await self._add(principal, package, path, metadata, may_publish)
                    )
        return {"outcomes": outcomes}

    async def _add(
        self,
        principal: Principal,
        package: Package,
        path: Path,
        metadata: UploadMetadata,
        may_publish: bool,
    ) -> Json:
        needed = [one.name for one in (await asyncio.to_thread(images_of, package))[0]]
        try:
            added = await self._catalog.upload(principal, path, metadata, may_publish=may_publish)
        except Fault as fault:
            result = "known" if fault.status == 409 else "failed"
            return _outcome(package.full_name, package.version, result, fault.message)
        return _outcome(
            package.full_name, package.version, "imported", id_=added["id"], images=needed
        )


class _Gathering:
    """Finds a package and what it requires. Runs in a thread of its own."""

    def __init__(
        self,
        catalog: Catalog,
        principal: Principal,
        files: RepositoryFiles,
        outcomes: list[Json],
    ) -> None:
        self._catalog = catalog
        self._principal = principal
        self._files = files
        self._outcomes = outcomes
        self._loop = asyncio.get_running_loop()
        self._paths: dict[int, Path] = {}
        self.root: Package | None = None

    def gather(self, entry: BundleEntry) -> list[tuple[Package, Path]]:
        """The packages with their files, what is required first."""
        try:
            self.root = self._keep(*self._files.package(entry))
        except SourceError as error:
            called = entry.name or str(entry.url)
            self._outcomes.append(_outcome(called, entry.version, "failed", str(error)))
            return []
        order = requirement_closure([self.root], self._required).order
        return [(one, self._paths[id(one)]) for one in order]

    def _keep(self, package: Package, path: Path) -> Package:
        self._paths[id(package)] = path
        return package

    def _required(self, name: str, spec: str | None) -> Package | None:
        wanted = spec or "0"  # the condition of a requirement without one is 0.x (A2)
        if name in BUILT_IN or self._has(name, wanted):
            return None
        try:
            if len(self._paths) >= MOST_PACKAGES:
                raise SourceError(f"one import adds at most {MOST_PACKAGES} packages")
            return self._keep(*self._files.package(BundleEntry(name, wanted)))
        except SourceError as error:
            self._outcomes.append(_outcome(name, spec, "missing", str(error)))
            return None

    def _has(self, name: str, spec: str) -> bool:
        found = self._in_loop(self._catalog.find_package(name, spec, self._principal.project_id))
        return found is not None

    def _in_loop(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SILENT_SECONDS)


def _outcome(
    name: str,
    version: str | None,
    result: str,
    reason: str = "",
    *,
    id_: str | None = None,
    images: list[str] | None = None,
) -> Json:
    return {
        "name": name,
        "version": version,
        "result": result,
        "reason": reason,
        "id": id_,
        "images": images or [],
    }


def _convert(body: Json, kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"The body is wrong: {error}") from error
