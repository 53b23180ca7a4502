"""Readings of the database for the metrics: shared, not often, and honest when there is none."""

import asyncio

from prometheus_client import REGISTRY

from vetro.http import Readings, show_counts
from vetro.http.metrics import DATABASE_UP, OTHER
from vetro.stacks.metrics import STACKS


def shown(name: str, **labels: str) -> float | None:
    """What would be scraped."""
    return REGISTRY.get_sample_value(name, labels)


async def test_scrapes_that_come_together_read_once() -> None:
    """Concurrent scrapes read once, and one soon after does not read at all."""
    read = 0

    async def reading() -> None:
        nonlocal read
        read += 1
        await asyncio.sleep(0)

    readings = Readings(reading, fresh_seconds=3600)
    await asyncio.gather(*(readings.refresh() for _ in range(5)))
    await readings.refresh()
    assert read == 1
    assert shown("vetro_database_up") == 1


async def test_without_a_database_nothing_old_is_shown() -> None:
    """The page says that the database is down, and does not show former values."""
    show_counts(STACKS, {"CREATE_COMPLETE": 3}, ["CREATE_COMPLETE"])
    assert shown("vetro_stacks", status="CREATE_COMPLETE") == 3

    async def fails() -> None:
        raise OSError("no database")

    await Readings(fails).refresh()
    assert shown("vetro_database_up") == 0
    assert shown("vetro_stacks", status="CREATE_COMPLETE") is None
    DATABASE_UP.set(1)


def test_states_that_nobody_knows_are_counted_together() -> None:
    """A label has the documented values, and one for all others."""
    show_counts(STACKS, {"CREATE_COMPLETE": 1, "NEW": 2, "ODD": 3}, ["CREATE_COMPLETE"])
    assert shown("vetro_stacks", status=OTHER) == 5
    assert shown("vetro_stacks", status="NEW") is None
