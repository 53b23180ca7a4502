"""A fresh, migrated database on each supported engine."""

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from vetro.storage import Database, ManualClock, migrate

POSTGRES_URL = os.environ.get("VETRO_TEST_POSTGRES_URL")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    if POSTGRES_URL is None:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    name = f"t{secrets.token_hex(8)}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
    yield POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    """An open database with storage's own tables."""
    opened = await Database.open(database_url, clock=clock)
    await migrate(opened, [])
    yield opened
    await opened.close()
