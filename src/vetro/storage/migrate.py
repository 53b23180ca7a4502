"""Bringing a database to this version: Alembic, with one branch per room.

A room keeps its migrations in ``<room>/migrations/NNNN_subject.py`` with revision ids
``<room>_NNNN`` (``0001`` starts the branch: ``branch_labels = ("<room>",)``). The file names say
which revisions exist, so an up-to-date database is recognised without importing Alembic at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from vetro.storage.database import Database
from vetro.storage.errors import DatabaseTooNew, MigrationError

VERSION_TABLE = "vetro_migrations"
_FILE = re.compile(r"(\d{4})_\w+\.py$")


@dataclass(frozen=True)
class MigrationSet:
    """The migrations of one room."""

    room: str
    directory: Path

    def revisions(self) -> list[str]:
        """All revision ids, oldest first."""
        names = sorted(path.name for path in self.directory.iterdir())
        return [f"{self.room}_{match[1]}" for name in names if (match := _FILE.match(name))]


STORAGE_MIGRATIONS = MigrationSet("storage", Path(__file__).parent / "migrations")


async def migrate(database: Database, sets: Sequence[MigrationSet]) -> bool:
    """Bring the database up to date; ``True`` when something was done.

    All migrations run in one transaction: a failing one leaves the database as it was. Errors:
    ``DatabaseTooNew``, ``MigrationError``.
    """
    every = [STORAGE_MIGRATIONS, *(one for one in sets if one.room != "storage")]
    known = {one.room: one.revisions() for one in every}
    async with database.transaction() as tx:
        if not database.is_sqlite:
            # Two processes may start together: one migrates, the other waits and finds it done.
            await tx.connection.execute(text("SELECT pg_advisory_xact_lock(7239152310)"))
        current = await tx.connection.run_sync(_current)
        for revision in current:
            room = revision.rsplit("_", 1)[0]
            if room in known and revision not in known[room]:
                raise DatabaseTooNew(room, revision)
        if all(not revisions or revisions[-1] in current for revisions in known.values()):
            return False
        await tx.connection.run_sync(_upgrade, every)
        return True


def _current(connection: Connection) -> set[str]:
    if not inspect(connection).has_table(VERSION_TABLE):
        return set()
    rows = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - our constant
    return {str(row.version_num) for row in rows}


def _upgrade(connection: Connection, sets: Sequence[MigrationSet]) -> None:
    # Imported here: a database that is up to date does not pay for it.
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "alembic_environment").replace("%", "%%")
    )
    config.set_main_option("path_separator", "newline")
    config.set_main_option(
        "version_locations", "\n".join(str(one.directory).replace("%", "%%") for one in sets)
    )
    config.attributes["connection"] = connection
    config.attributes["version_table"] = VERSION_TABLE
    try:
        command.upgrade(config, "heads")
    except CommandError as error:
        raise MigrationError(f"the database cannot be migrated: {error}") from error
