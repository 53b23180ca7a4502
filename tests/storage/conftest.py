"""A fresh, migrated database on each supported engine."""

from collections.abc import AsyncIterator

import pytest

from vetro.storage import Database, ManualClock, migrate


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    """An open database with storage's own tables."""
    opened = await Database.open(database_url, clock=clock)
    await migrate(opened, [])
    yield opened
    await opened.close()
