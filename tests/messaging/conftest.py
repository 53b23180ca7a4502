"""Mailboxes on a fresh database, SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from vetro.messaging import MIGRATIONS, Mailboxes, MailboxSection, MailboxSettings
from vetro.storage import Database, ManualClock, migrate


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
    return Mailboxes(
        database,
        settings=MailboxSettings(sizes=MailboxSection(result_limit=10_000, plan_limit=10_000)),
    )
