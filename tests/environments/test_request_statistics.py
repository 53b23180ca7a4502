"""Statistics of requests, of every process (catalog-api.md §5.7)."""

import json
from datetime import timedelta
from typing import Any

import pytest

from vetro.environments import MIGRATIONS
from vetro.environments.request_statistics import RequestStatistics
from vetro.http import RequestCounts
from vetro.storage import Database, ManualClock, migrate

Api = Any  # the fixture of conftest.py


async def test_administrators_read_a_row_of_each_process(api: Api) -> None:
    """The row is there from the start; others get 403, and the face's other calls are counted."""
    await api.environment()
    assert (await api.call("GET", "/stats")).status == 403
    rows = (await api.call("GET", "/stats", user="root")).json()
    assert len(rows) == 1
    assert rows[0]["cpu_count"] > 0
    assert json.loads(rows[0]["requests_per_tenant"]) == {}


async def test_rows_have_what_was_counted_and_end_with_their_process(database_url: str) -> None:
    """Rates are of the last period; what a process that ended has left is removed by another."""
    clock = ManualClock()
    database = await Database.open(database_url, clock=clock)
    try:
        await migrate(database, [MIGRATIONS])
        first = RequestStatistics(database, RequestCounts())
        await first.store()
        second = RequestStatistics(database, RequestCounts())
        await second.store()
        for status in (200, 404, 500, 200):
            first.counts.count("p", status, 0.5)
        first.counts.count("", 401, 0.5)
        clock.advance(timedelta(minutes=10).total_seconds())
        await first.store()
        rows = await first.listing()
        assert len(rows) == 2
        row = next(one for one in rows if one["request_count"])
        assert (row["request_count"], row["error_count"]) == (5, 1)
        assert row["average_response_time"] == 0.5
        assert json.loads(row["requests_per_tenant"]) == {"p": 4}
        assert row["requests_per_second"] == 5 / 600
        assert row["errors_per_second"] == 1 / 600
        assert 0 <= row["cpu_percent"] <= 100
        clock.advance(timedelta(minutes=6).total_seconds())
        await first.store()
        assert [one["id"] for one in await first.listing()] == [row["id"]]
    finally:
        await database.close()


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
async def test_clocks_that_differ_or_are_set_change_nothing(
    database_url: str, seconds: float
) -> None:
    """A process keeps the rows of living ones, and its rates are of the time that went by."""
    clock = ManualClock()
    database = await Database.open(database_url, clock=clock)
    elsewhere = await Database.open(database_url, clock=clock.apart(seconds))
    try:
        await migrate(database, [MIGRATIONS])
        await migrate(elsewhere, [MIGRATIONS])
        ours = RequestStatistics(database, RequestCounts())
        theirs = RequestStatistics(elsewhere, RequestCounts())
        for one in (ours, theirs, ours):
            await one.store()
        before = {one["id"]: one["created"] for one in await ours.listing()}
        assert len(before) == 2
        clock.advance(300)
        clock.jump(seconds)
        ours.counts.count("p", 200, 0.5)
        for one in (ours, theirs, ours):
            await one.store()
        assert {one["id"]: one["created"] for one in await ours.listing()} == before
        clock.advance(300)
        ours.counts.count("p", 200, 0.5)
        await ours.store()
        assert max(one["requests_per_second"] for one in await ours.listing()) == 1 / 300
    finally:
        await elsewhere.close()
        await database.close()
