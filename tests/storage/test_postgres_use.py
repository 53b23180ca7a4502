"""Connections to PostgreSQL: those that are lost are replaced, the others are not asked for each use."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from vetro.storage import Database, postgres_use

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]
MINE = text("select pg_backend_pid()")
END = text(
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
    " where datname = current_database() and pid <> pg_backend_pid()"
)


async def backend(database: Database) -> int:
    """The server's process behind the connection that a read gets."""
    async with database.read() as tx:
        return int((await tx.execute(MINE)).scalar_one())


async def test_a_connection_that_the_server_ended_is_replaced(
    database: Database, database_url: str
) -> None:
    """Nobody who reads or writes notices that the server dropped the idle connections of a process."""
    before = await backend(database)
    other = await Database.open(database_url)
    try:
        async with other.transaction() as tx:
            await tx.execute(END)
    finally:
        await other.close()
    assert await backend(database) != before
    async with database.transaction() as tx:
        await tx.execute(MINE)


async def test_a_connection_is_asked_for_only_after_a_pause(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ping before each use would be a fifth of what the server is asked under load."""
    asked: list[Any] = []
    ping = PGDialect_psycopg.do_ping

    def counted(dialect: Any, connection: Any) -> bool:
        asked.append(connection)
        return ping(dialect, connection)

    monkeypatch.setattr(PGDialect_psycopg, "do_ping", counted)
    first = await backend(database)
    assert [await backend(database) for _ in range(3)] == [first] * 3
    assert asked == []
    monkeypatch.setattr(postgres_use, "TRUSTED_SECONDS", -1.0)
    assert await backend(database) == first
    assert len(asked) == 1
