"""Sets of definitions in the database: reading one at a moment, and changing one.

Changes of all projects come one after another (they are short and rare): contents are shared by
their digest, and a content that nothing refers to any more is removed by the change that drops it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from vetro.repository.definitions import Files
from vetro.repository.paths import FILE_KINDS, MANIFESTS, parents
from vetro.repository.tables import archives, contents, entries, projects, sets
from vetro.storage import Transaction

CHANGES = "repository/changes"
SOME = 500


def digest_of(content: bytes) -> str:
    """The name of a content: its SHA-256."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Version:
    """A set at one moment: the same version always has the same entries."""

    set_id: str
    revision: int


async def version_of_project(tx: Transaction, project_id: str) -> Version | None:
    """What a project has now; ``None`` before its first access."""
    query = (
        select(sets.c.id, sets.c.revision)
        .join(projects, projects.c.set_id == sets.c.id)
        .where(projects.c.project_id == project_id)
    )
    row = (await tx.execute(query)).first()
    return None if row is None else Version(row.id, row.revision)


async def read_files(tx: Transaction, set_id: str) -> Files:
    """The entries of a set, sorted."""
    found: dict[str, dict[str, str | None]] = {kind: {} for kind in (MANIFESTS, *FILE_KINDS)}
    query = select(entries.c.kind, entries.c.path, entries.c.digest)
    for row in await tx.execute(query.where(entries.c.set_id == set_id)):
        found[row.kind][row.path] = row.digest
    # Sorted here: databases order letters differently.
    return {kind: dict(sorted(files.items())) for kind, files in found.items()}


async def read_contents(tx: Transaction, digests: Iterable[str]) -> dict[str, bytes]:
    """Contents by digest."""
    found: dict[str, bytes] = {}
    wanted = sorted(set(digests))
    for start in range(0, len(wanted), SOME):
        query = select(contents.c.digest, contents.c.content)
        query = query.where(contents.c.digest.in_(wanted[start : start + SOME]))
        for row in await tx.execute(query):
            found[row.digest] = bytes(row.content)
    return found


async def point_at(tx: Transaction, project_id: str, set_id: str) -> None:
    """Let a project that has none begin with a set."""
    await tx.execute(insert(projects).values(project_id=project_id, set_id=set_id))


class Editor:
    """Changes to a set inside one transaction: collected, then written by ``save``."""

    def __init__(self, tx: Transaction, version: Version, files: Files) -> None:
        self.tx = tx
        self.version = version
        self.files: dict[str, dict[str, str | None]] = {
            kind: dict(there) for kind, there in files.items()
        }
        self._before = files
        self._new: dict[str, bytes] = {}

    @classmethod
    async def open(cls, tx: Transaction, project_id: str) -> Editor | None:
        """What the project has, to change it; ``None`` before its first access."""
        await tx.exclude(CHANGES)
        version = await version_of_project(tx, project_id)
        return None if version is None else cls(tx, version, await read_files(tx, version.set_id))

    def exists(self, kind: str, path: str) -> bool:
        """Whether there is a file or a directory."""
        return path in self.files[kind]

    def is_directory(self, kind: str, path: str) -> bool:
        """Whether there is this directory; the root of a type always is."""
        return not path or (path in self.files[kind] and self.files[kind][path] is None)

    def is_file(self, kind: str, path: str) -> bool:
        """Whether there is this file."""
        return self.files[kind].get(path) is not None

    def below(self, kind: str, path: str) -> list[str]:
        """The paths below a directory."""
        return [one for one in self.files[kind] if one.startswith(f"{path}/")]

    def clash(self, kind: str, path: str) -> str | None:
        """A file that stands where ``path`` needs a directory."""
        return next((one for one in parents(path) if self.is_file(kind, one)), None)

    def put(self, kind: str, path: str, content: bytes) -> None:
        """Store a file, with the directories above it."""
        digest = digest_of(content)
        self._new[digest] = content
        for folder in parents(path):
            self.files[kind].setdefault(folder, None)
        self.files[kind][path] = digest

    def make_directory(self, kind: str, path: str) -> None:
        """Make a directory and those above it."""
        for folder in [*parents(path), path]:
            self.files[kind].setdefault(folder, None)

    def remove(self, kind: str, path: str) -> None:
        """Remove one entry."""
        self.files[kind].pop(path, None)

    def clear(self) -> None:
        """Remove everything."""
        for there in self.files.values():
            there.clear()

    async def content(self, kind: str, path: str) -> bytes:
        """A file's content, as it is stored or will be."""
        digest = self.files[kind][path]
        assert digest is not None
        if digest in self._new:
            return self._new[digest]
        return (await read_contents(self.tx, [digest]))[digest]

    async def save(self, project_id: str, now: datetime) -> bool:
        """Write the changes; whether there were any. The archives of the set are gone after it."""
        gone = _rows(self._before) - _rows(self.files)
        added = _rows(self.files) - _rows(self._before)
        if not gone and not added:
            return False
        wanted = {digest for _, _, digest in added if digest is not None}
        await add_contents(self.tx, {d: self._new[d] for d in wanted if d in self._new})
        own = await self._own_set(project_id, now)
        if own == self.version.set_id:
            for kind, path, _ in sorted(gone, key=lambda row: row[:2]):
                here = (entries.c.set_id == own) & (entries.c.kind == kind)
                await self.tx.execute(delete(entries).where(here, entries.c.path == path))
            await insert_entries(self.tx, own, added)
        else:
            await insert_entries(self.tx, own, _rows(self.files))
        await self.tx.execute(delete(archives).where(archives.c.set_id == own))
        await drop_contents(self.tx, {digest for _, _, digest in gone if digest is not None})
        return True

    async def _own_set(self, project_id: str, now: datetime) -> str:
        """The set to change, with its next revision; a new one instead of the shipped one."""
        if not is_shipped(self.version.set_id):
            await self.tx.execute(
                update(sets)
                .where(sets.c.id == self.version.set_id)
                .values(revision=sets.c.revision + 1, updated=now)
            )
            return self.version.set_id
        # A random id: a project that is deleted and comes back must not meet its old revisions.
        own = f"project-{uuid.uuid4().hex}"
        await self.tx.execute(insert(sets).values(id=own, revision=1, created=now, updated=now))
        await self.tx.execute(
            update(projects).where(projects.c.project_id == project_id).values(set_id=own)
        )
        return own


Row = tuple[str, str, str | None]


def is_shipped(set_id: str) -> bool:
    """Whether a set is shared by projects and never changes."""
    return set_id.startswith("shipped-")


def _rows(files: Files) -> set[Row]:
    return {(kind, path, digest) for kind, there in files.items() for path, digest in there.items()}


async def insert_entries(tx: Transaction, set_id: str, rows: Collection[Row]) -> None:
    """Add entries to a set."""
    values = [
        {"set_id": set_id, "kind": kind, "path": path, "digest": digest}
        for kind, path, digest in sorted(rows, key=lambda row: row[:2])
    ]
    if values:
        await tx.execute(insert(entries), values)


async def add_contents(tx: Transaction, new: Mapping[str, bytes]) -> None:
    """Store contents that are not there yet."""
    missing = sorted(new)
    for start in range(0, len(missing), SOME):
        some = missing[start : start + SOME]
        query = select(contents.c.digest).where(contents.c.digest.in_(some))
        there = {row.digest for row in await tx.execute(query)}
        rows = [
            {"digest": digest, "size": len(new[digest]), "content": new[digest]}
            for digest in some
            if digest not in there
        ]
        if rows:
            await tx.execute(insert(contents), rows)


async def drop_contents(tx: Transaction, digests: Collection[str]) -> None:
    """Remove those of these contents that no set has any more."""
    wanted = sorted(digests)
    for start in range(0, len(wanted), SOME):
        some = wanted[start : start + SOME]
        used = select(entries.c.digest).where(entries.c.digest.in_(some))
        there = {row.digest for row in await tx.execute(used.distinct())}
        gone = [digest for digest in some if digest not in there]
        if gone:
            await tx.execute(delete(contents).where(contents.c.digest.in_(gone)))


async def add_shipped(
    tx: Transaction, files: Mapping[str, Mapping[str, bytes]], now: datetime
) -> str:
    """The set with these files, which is made when it is not there yet; its id."""
    rows: set[Row] = set()
    bodies: dict[str, bytes] = {}
    for kind, there in files.items():
        for path, content in there.items():
            digest = digest_of(content)
            bodies[digest] = content
            rows.add((kind, path, digest))
            rows.update((kind, folder, None) for folder in parents(path))
    said = "\n".join(f"{kind} {path} {digest}" for kind, path, digest in sorted(rows, key=str))
    set_id = f"shipped-{digest_of(said.encode())[:40]}"
    await tx.exclude(CHANGES)
    if (await tx.execute(select(sets.c.id).where(sets.c.id == set_id))).first() is None:
        await add_contents(tx, bodies)
        await tx.execute(insert(sets).values(id=set_id, revision=1, created=now, updated=now))
        await insert_entries(tx, set_id, rows)
    return set_id


async def forget_project(tx: Transaction, project_id: str) -> None:
    """Remove the definitions of a project."""
    await tx.exclude(CHANGES)
    version = await version_of_project(tx, project_id)
    if version is None:
        return
    await tx.execute(delete(projects).where(projects.c.project_id == project_id))
    if is_shipped(version.set_id):
        return
    files = await read_files(tx, version.set_id)
    await tx.execute(delete(archives).where(archives.c.set_id == version.set_id))
    await tx.execute(delete(entries).where(entries.c.set_id == version.set_id))
    await tx.execute(delete(sets).where(sets.c.id == version.set_id))
    await drop_contents(tx, {digest for _, _, digest in _rows(files) if digest is not None})
