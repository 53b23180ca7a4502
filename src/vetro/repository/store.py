"""The metadata repository: what clients fetch, and what administrators read (metadata-repository.md).

``Repository`` is asked by the HTTP face and by engines. Changes are in ``changes``.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from sqlalchemy import and_, delete, insert, select

from vetro.http import BadRequest, Forbidden, NotFound
from vetro.repository.archives import (
    client_archive,
    needed,
    pack,
    service_files,
    sha1_of,
    tree_files,
)
from vetro.repository.definitions import DefinitionSet, Files, ParsedFiles, Service, definition_set
from vetro.repository.incoming import ArchiveError, ArchiveLimits, sort_tree
from vetro.repository.paths import (
    MANIFESTS,
    NAMING_RULE,
    Layout,
    UnsafePath,
    is_service_name,
    safe_path,
)
from vetro.repository.sets import (
    CHANGES,
    Version,
    add_shipped,
    point_at,
    read_contents,
    read_files,
    version_of_project,
)
from vetro.repository.settings import RepositorySection
from vetro.repository.tables import archives, projects, sets
from vetro.storage import Database, Transaction

log = structlog.get_logger("vetro.repository")
T = TypeVar("T")
PROJECT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
SETS_IN_MEMORY = 64


class DefinitionsMissing(Exception):
    """The definitions that projects begin with cannot be read; the message is for the operator."""


@dataclass(frozen=True)
class ClientArchive:
    """An archive for a client. ``content`` is ``None`` when the caller has it (its hash is equal)."""

    sha1: str
    content: bytes | None


class Repository:
    """The definitions of all projects."""

    def __init__(
        self, database: Database, settings: RepositorySection, shipped: Path | None = None
    ) -> None:
        """``shipped``: the directory that every project begins with, unless a setting names one."""
        self.database = database
        self.settings = settings
        self.layout = Layout.of(settings.directories, settings.output)
        self.limits = ArchiveLimits(settings.archive_members, settings.archive_bytes)
        self.known = ParsedFiles()
        self._shipped = Path(settings.manifests) if settings.manifests else shipped
        self._shipped_set = ""
        self._sets: OrderedDict[Version, DefinitionSet] = OrderedDict()
        self._building: dict[Any, asyncio.Task[Any]] = {}

    # The set of a project

    async def prepare(self) -> None:
        """Store the definitions that projects begin with. Errors: ``DefinitionsMissing``."""
        files = await asyncio.to_thread(self._read_shipped)
        now = self.database.clock.now()
        async with self.database.transaction() as tx:
            self._shipped_set = await add_shipped(tx, files, now)

    def _read_shipped(self) -> dict[str, dict[str, bytes]]:
        if self._shipped is None:
            return {}
        try:
            return read_directory(self._shipped, self.layout)
        except (OSError, ArchiveError, UnsafePath) as error:
            raise DefinitionsMissing(
                f"The service definitions in {self._shipped} cannot be used: {error}"
            ) from error

    async def begin(self, project_id: str) -> Version:
        """Let a project begin with the shipped set, at its first access. Errors: 403."""
        if not PROJECT_ID.fullmatch(project_id):
            raise Forbidden("The token is for no project that can have definitions")
        if not self._shipped_set:
            await self.prepare()
        async with self.database.transaction() as tx:
            await tx.exclude(CHANGES)
            found = await version_of_project(tx, project_id)
            if found is None:
                await point_at(tx, project_id, self._shipped_set)
                found = await version_of_project(tx, project_id)
        assert found is not None
        return found

    async def definitions(self, project_id: str) -> DefinitionSet:
        """What a project has now."""
        async with self.database.read() as tx:
            version = await version_of_project(tx, project_id)
        if version is None:
            version = await self.begin(project_id)
        there = self._remembered(version)
        if there is not None:
            return there

        async def load() -> DefinitionSet:
            async with self.database.read() as tx:
                # It may have changed meanwhile: what is read now counts.
                now = await version_of_project(tx, project_id)
                return await self.read_set(tx, now or version)

        return await self._once(("set", project_id, version), load)

    def _remembered(self, version: Version) -> DefinitionSet | None:
        there = self._sets.get(version)
        if there is not None:
            self._sets.move_to_end(version)
        return there

    async def read_set(self, tx: Transaction, version: Version) -> DefinitionSet:
        """The definitions of a version, within a transaction that sees it."""
        there = self._remembered(version)
        if there is not None:
            return there
        found = await self.judge(tx, await read_files(tx, version.set_id))
        self._sets[version] = found
        while len(self._sets) > SETS_IN_MEMORY:
            self._sets.popitem(last=False)
        return found

    async def judge(self, tx: Transaction, files: Files) -> DefinitionSet:
        """The services that files make, all of which are stored."""
        unknown = self.known.unknown(files)
        bodies = await read_contents(tx, unknown)

        def read() -> DefinitionSet:
            for digest, places in unknown.items():
                for kind, path in places:
                    if digest in bodies:
                        self.known.learn(kind, path, digest, bodies[digest])
            return definition_set(files, self.known)

        return await asyncio.to_thread(read)

    async def _once(self, key: object, make: Callable[[], Awaitable[T]]) -> T:
        """The result of ``make``; callers that ask for the same meanwhile wait for that result."""
        running = self._building.get(key)
        if running is None:
            running = asyncio.create_task(_run(make), name=f"repository {key}")
            self._building[key] = running
            running.add_done_callback(lambda _done: self._building.pop(key, None))
        # A caller that goes away does not take the others' result with it.
        return await asyncio.shield(running)

    # For clients

    async def archive(self, project_id: str, client: str, known: str = "") -> ClientArchive:
        """The archive of a client (``ui`` or ``conductor``); without content when its hash is ``known``."""
        async with self.database.read() as tx:
            sha1 = await _sha1_of(tx, project_id, client)
            if sha1 is not None and sha1 == known.lower():
                return ClientArchive(sha1, None)
            stored = await _archive_of(tx, project_id, client) if sha1 else None
            version = await version_of_project(tx, project_id)
        if stored is not None:
            return stored
        if version is None:
            version = await self.begin(project_id)
        built = await self._once(
            ("archive", version, client), lambda: self._build(project_id, client)
        )
        return ClientArchive(built.sha1, None) if built.sha1 == known.lower() else built

    async def _build(self, project_id: str, client: str) -> ClientArchive:
        async with self.database.read() as tx:
            version = await version_of_project(tx, project_id)
            if version is None:
                raise NotFound("The project was deleted meanwhile")
            stored = await _archive_of(tx, project_id, client)
            if stored is not None:
                return stored  # another caller's build ended just before this one began
            definitions = await self.read_set(tx, version)
            bodies = await read_contents(tx, needed(definitions, client))
        content = await asyncio.to_thread(
            client_archive, definitions, client, bodies.__getitem__, self.layout
        )
        built = ClientArchive(sha1_of(content), content)
        async with self.database.transaction() as tx:
            await tx.exclude(CHANGES)
            here = and_(archives.c.set_id == version.set_id, archives.c.client == client)
            current = and_(sets.c.id == version.set_id, sets.c.revision == version.revision)
            if (await tx.execute(select(sets.c.id).where(current))).first() is not None:
                await tx.execute(delete(archives).where(here))
                await tx.execute(
                    insert(archives).values(
                        set_id=version.set_id,
                        client=client,
                        revision=version.revision,
                        sha1=built.sha1,
                        content=content,
                    )
                )
        log.info("archive_built", project=project_id, client=client, bytes=len(content))
        return built

    async def service_archive(self, project_id: str, name: str) -> bytes:
        """One service as an archive that can be uploaded again (§5.2). Errors: 404."""
        definitions = await self.definitions(project_id)
        files = service_files(definitions, service_named(definitions, name))
        bodies = await self._bodies(files.values())
        return await asyncio.to_thread(
            pack, {path: bodies[digest] for path, digest in files.items() if digest in bodies}
        )

    async def tree(self, project_id: str) -> bytes:
        """All definitions as the archive of an on-disk repository (§2)."""
        definitions = await self.definitions(project_id)
        files, directories = tree_files(definitions, self.layout)
        bodies = await self._bodies(files.values())
        return await asyncio.to_thread(
            pack,
            {path: bodies[digest] for path, digest in files.items() if digest in bodies},
            directories,
        )

    async def _bodies(self, digests: Any) -> dict[str, bytes]:
        async with self.database.read() as tx:
            return await read_contents(tx, digests)

    # For administrators

    async def content(self, project_id: str, kind: str, path: str) -> bytes:
        """A file's content. Errors: 404."""
        definitions = await self.definitions(project_id)
        digest = definitions.files[kind].get(path)
        if digest is None:
            raise NotFound(f"There is no file {path} among the {kind} of this project")
        found = await self._bodies([digest])
        if digest not in found:
            raise NotFound(f"{path} was removed meanwhile")
        return found[digest]

    async def listing(self, project_id: str, kind: str, directory: str = "") -> list[str]:
        """The files of a type, or those in a directory and relative to it, sorted. Errors: 404."""
        files = (await self.definitions(project_id)).files[kind]
        if directory:
            if files.get(directory, "") is not None:
                raise NotFound(f"There is no directory {directory} among the {kind}")
            begin = f"{directory}/"
            found = [one[len(begin) :] for one in files if one.startswith(begin) and files[one]]
            return sorted(found)
        found = [path for path, digest in files.items() if digest]
        if kind == MANIFESTS:
            found = [path for path in found if "-manifest" in path]
        return sorted(found)

    async def service(self, project_id: str, name: str) -> Service:
        """A service. Errors: 404."""
        return service_named(await self.definitions(project_id), name)

    async def service_types(self, project_id: str) -> frozenset[str]:
        """The names of a project's enabled services: the types that object models may have."""
        services = (await self.definitions(project_id)).services.values()
        return frozenset(one.name for one in services if one.manifest.enabled)

    async def service_form(self, project_id: str, name: str) -> tuple[str, str, str]:
        """Title, version and form of a service that clients get. Errors: 404, 400 without a form."""
        definitions = await self.definitions(project_id)
        service = service_named(definitions, name)
        if not service.valid or not service.manifest.enabled:
            why = "is not valid" if not service.valid else "is switched off"
            raise NotFound(f"The service {name} {why}: see /admin/services/{name}/info")
        forms = service.manifest.sections["ui"]
        if not forms:
            raise BadRequest(f"The service {name} has no form: its manifest lists none as ui")
        text = (await self.content(project_id, "ui", forms[0])).decode("utf-8", "replace")
        version = str(service.manifest.values.get("service_version", ""))
        return service.manifest.display_name, version, text

    async def reset_caches(self, project_id: str) -> None:
        """Forget archives and parsed files (§8.8): the next calls make them again."""
        self._sets.clear()
        self.known.clear()
        async with self.database.transaction() as tx:
            version = await version_of_project(tx, project_id)
            if version is not None:
                await tx.execute(delete(archives).where(archives.c.set_id == version.set_id))


async def _run(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def _of(project_id: str, client: str) -> Any:
    """The archive of a project's set, if it is of the set's present revision."""
    return and_(
        projects.c.project_id == project_id,
        sets.c.id == projects.c.set_id,
        archives.c.set_id == sets.c.id,
        archives.c.client == client,
        archives.c.revision == sets.c.revision,
    )


async def _sha1_of(tx: Transaction, project_id: str, client: str) -> str | None:
    """The hash of the archive that is stored; ``None``: it must be built."""
    row = (await tx.execute(select(archives.c.sha1).where(_of(project_id, client)))).first()
    return None if row is None else str(row.sha1)


async def _archive_of(tx: Transaction, project_id: str, client: str) -> ClientArchive | None:
    """The archive that is stored; one that is damaged counts as absent."""
    query = select(archives.c.sha1, archives.c.content).where(_of(project_id, client))
    row = (await tx.execute(query)).first()
    if row is None or sha1_of(bytes(row.content)) != row.sha1:
        return None
    return ClientArchive(row.sha1, bytes(row.content))


def service_named(definitions: DefinitionSet, name: str) -> Service:
    """A service of a set. Errors: 404."""
    if not is_service_name(name):
        raise NotFound(f"{name!r:.120} cannot be a service: {NAMING_RULE}")
    found = definitions.services.get(name)
    if found is None:
        why = definitions.invisible.get(f"{name}-manifest.yaml")
        raise NotFound(f"There is no service {name}" + (f": {why}" if why else ""))
    return found


def read_directory(root: Path, layout: Layout) -> dict[str, dict[str, bytes]]:
    """The files of an on-disk repository by type. Errors: ``OSError``, ``ArchiveError``."""
    members: dict[str, bytes | None] = {}
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory")
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if any(part.startswith(".") or part == "__pycache__" for part in relative.parts):
            continue
        if path.is_file() and not path.is_symlink():
            members[safe_path(relative.as_posix())] = path.read_bytes()
    incoming = sort_tree(members, layout)
    for path in incoming.ignored:
        log.debug("definition_ignored", file=str(root / path))
    return incoming.files
