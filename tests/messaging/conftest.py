"""Mailboxes on a fresh database, SQLite and PostgreSQL."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from vetro.messaging import MIGRATIONS, Mailboxes, MailboxSettings
from vetro.storage import Database, ManualClock, migrate

POSTGRES_URL = os.environ.get("VETRO_TEST_POSTGRES_URL")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/test.db"
        return
    if POSTGRES_URL is None:
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set")
    name = f"m{secrets.token_hex(8)}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
    yield POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    """A migrated database."""
    opened = await Database.open(database_url, clock=clock)
    await migrate(opened, [MIGRATIONS])
    yield opened
    await opened.close()


@pytest.fixture
async def elsewhere(
    database: Database, database_url: str, clock: ManualClock
) -> AsyncIterator[Mailboxes]:
    """The same mailboxes through a second connection pool, as another process has them."""
    opened = await Database.open(database_url, clock=clock)
    yield Mailboxes(opened)
    await opened.close()


@pytest.fixture
def mailboxes(database: Database) -> Mailboxes:
    """The mailboxes under test."""
    return Mailboxes(database, settings=MailboxSettings(result_limit=10_000, plan_limit=10_000))
