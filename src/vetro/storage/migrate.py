"""Migrating a database to this version: Alembic, with one branch per room.

A room keeps its migrations in ``<room>/migrations/NNNN_subject.py`` with revision ids
``<room>_NNNN`` (``0001`` starts the branch: ``branch_labels = ("<room>",)``). The revisions are
read from the file names, so an up-to-date database is recognised without importing Alembic.

Processes that serve different rooms share one database: each migrates the rooms it was given and
leaves the revisions of the others alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, inspect, text

from vetro.storage.database import Database
from vetro.storage.errors import DatabaseTooNew, MigrationError
from vetro.storage.tables import metadata

VERSION_TABLE = "vetro_migrations"
_FILE = re.compile(r"(\d{4})_\w+\.py$")


@dataclass(frozen=True)
class MigrationSet:
    """The migrations of one room, and their tables (for operations on all sealed columns).

    ``derived`` names tables and columns (``table.column``) that are filled from others: a copy of the
    database leaves them out.
    """

    room: str
    directory: Path
    tables: MetaData | None = None
    derived: frozenset[str] = frozenset()

    def revisions(self) -> list[str]:
        """All revision ids, oldest first."""
        names = sorted(path.name for path in self.directory.iterdir())
        return [f"{self.room}_{match[1]}" for name in names if (match := _FILE.match(name))]


STORAGE_MIGRATIONS = MigrationSet("storage", Path(__file__).parent / "migrations", metadata)


async def migrate(database: Database, sets: Sequence[MigrationSet]) -> bool:
    """Migrate the database to this version; ``True`` when a migration ran.

    All migrations run in one transaction: a failing one leaves the database as it was. Errors:
    ``DatabaseTooNew``, ``MigrationError``.
    """
    every = [STORAGE_MIGRATIONS, *(one for one in sets if one.room != "storage")]
    known = {one.room: one.revisions() for one in every}
    async with database.transaction() as tx:
        if not database.is_sqlite:
            # Two processes may start together: one migrates, the other waits and finds it done.
            await tx.connection.execute(text("SELECT pg_advisory_xact_lock(7239152310)"))
        current = await tx.connection.run_sync(current_revisions)
        for revision in _unknown(current, known):
            raise DatabaseTooNew(revision.rsplit("_", 1)[0], revision)
        if all(not revisions or revisions[-1] in current for revisions in known.values()):
            await database.steady.agree(tx, database.clock)
            return False
        await tx.connection.run_sync(_upgrade, every)
        await database.steady.agree(tx, database.clock)
        return True


async def pending_migrations(
    database: Database, sets: Sequence[MigrationSet]
) -> tuple[list[str], list[str]]:
    """Revisions that the database has and this version does not know, and those it lacks."""
    known = {one.room: one.revisions() for one in [STORAGE_MIGRATIONS, *sets]}
    async with database.read() as tx:
        current = await tx.connection.run_sync(current_revisions)
    newer, older = sorted(_unknown(current, known)), list[str]()
    for revisions in known.values():
        reached = [place for place, one in enumerate(revisions) if one in current]
        older += revisions[reached[-1] + 1 if reached else 0 :]
    return newer, older


def _unknown(current: set[str], known: dict[str, list[str]]) -> list[str]:
    rooms = {one: one.rsplit("_", 1)[0] for one in current}
    return [one for one, room in rooms.items() if room in known and one not in known[room]]


def current_revisions(connection: Connection) -> set[str]:
    """The newest revision of each room that the database has; none where nothing was migrated."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return set()
    rows = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - our constant
    return {str(row.version_num) for row in rows}


def _upgrade(connection: Connection, sets: Sequence[MigrationSet]) -> None:
    # Imported here: not needed for a database that is up to date.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    script: Any = ScriptDirectory(
        str(Path(__file__).parent), version_locations=[str(one.directory) for one in sets]
    )
    rooms = {one.room for one in sets}

    def steps(revisions: tuple[str, ...], _context: object) -> object:
        # Alembic would also look for the files of rooms that this process does not serve.
        ours = tuple(one for one in revisions if one.rsplit("_", 1)[0] in rooms)
        return script._upgrade_revs("heads", ours)  # what `alembic upgrade heads` itself calls

    with EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(connection=connection, version_table=VERSION_TABLE)
        try:
            with environment.begin_transaction():
                environment.run_migrations()
        except CommandError as error:
            raise MigrationError(f"the database cannot be migrated: {error}") from error
