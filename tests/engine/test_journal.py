"""The journal of effects: written before, settled after, without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from vetro.engine import MIGRATIONS
from vetro.engine.journal import JournalEffects, begun, digest, forget, journaled
from vetro.engine.signing import PlanSigner
from vetro.engine.tables import journal
from vetro.muranopl import MuranoError, Runtime
from vetro.storage import Database, migrate


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """A database with the engine's tables."""
    opened = await Database.open(database_url, data_dir=tmp_path)
    try:
        await migrate(opened, [MIGRATIONS])
        yield opened
    finally:
        await opened.close()


async def rows(database: Database) -> list[Any]:
    """All rows, in order."""
    async with database.read() as tx:
        return list(await tx.execute(select(journal).order_by(journal.c.sequence)))


async def perform(effects: JournalEffects, kind: str, request: Any, execute: Any) -> Any:
    """An effect as a program causes it: in a green thread."""
    session = Runtime().session(effects=effects)
    try:
        return await session.in_green_thread_async(lambda: effects.perform(kind, request, execute))
    except MuranoError as error:
        raise error.native or error from None


async def test_an_effect_is_written_before_and_after(database: Database) -> None:
    """During the effect its row says that it began; afterwards the row has the result."""
    effects = JournalEffects(database, "t", 7)

    async def look() -> Any:
        (row,) = await rows(database)
        assert (row.state, row.result, row.finished) == ("started", None, None)
        return {"value": 1}

    assert await perform(effects, "stack.get", {"stack": "s"}, look) == {"value": 1}
    (row,) = await rows(database)
    assert (row.task_id, row.fence, row.sequence, row.kind) == ("t", 7, 1, "stack.get")
    assert (row.state, row.result) == ("done", {"value": 1})
    assert row.finished >= row.started


async def test_a_failed_effect_says_why(database: Database) -> None:
    """The exception reaches the program; the row has its text."""

    async def fail() -> Any:
        raise OSError("no such stack")

    with pytest.raises(OSError, match="no such stack"):
        await perform(JournalEffects(database, "t", 1), "stack.push", {}, fail)
    (row,) = await rows(database)
    assert (row.state, row.error) == ("failed", "no such stack")


async def test_requests_are_kept_as_digests(database: Database) -> None:
    """A request may hold a secret; equal requests are recognised all the same."""

    async def nothing() -> None:
        return None

    effects = JournalEffects(database, "t", 1)
    for request in ({"token": "hush", "a": 1}, {"a": 1, "token": "hush"}, {"a": 2}):
        await perform(effects, "k", request, nothing)
    first, second, third = await rows(database)
    assert first.request_digest == second.request_digest == digest({"token": "hush", "a": 1})
    assert third.request_digest != first.request_digest
    assert "hush" not in str([tuple(row) for row in (first, second, third)])


async def test_effects_of_two_runs_do_not_meet(database: Database) -> None:
    """A later claim of a task has its own rows and other ids."""

    async def nothing() -> None:
        return None

    first, second = JournalEffects(database, "t", 1), JournalEffects(database, "t", 2)
    await perform(first, "k", {}, nothing)
    await perform(second, "k", {}, nothing)
    assert [row.fence for row in await rows(database)] == [1, 2]
    ids = {effects.new_id() for effects in (first, second) for _ in range(3)}
    assert len(ids) == 6
    assert all(len(one) == 32 for one in ids)
    assert JournalEffects(database, "t", 1).new_id() in ids


async def test_what_a_task_has_begun_is_known_until_it_is_forgotten(database: Database) -> None:
    """A task's rows show that it has begun; forgetting one task keeps the others' rows."""

    async def nothing() -> None:
        return None

    for task in ("a", "b"):
        assert not await begun(database, task)
        await perform(JournalEffects(database, task, 1), "k", {}, nothing)
        assert await begun(database, task)
    assert await journaled(database) == {"a", "b"}
    await forget(database, "a")
    assert await journaled(database) == {"b"}
    assert not await begun(database, "a")


async def test_parallel_effects_have_an_order(database: Database) -> None:
    """Each effect gets a number when it begins; the effects may end in any order."""
    effects = JournalEffects(database, "t", 1)
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "slow"

    async def fast() -> str:
        gate.set()
        return "fast"

    found = await asyncio.gather(
        perform(effects, "first", {}, slow), perform(effects, "second", {}, fast)
    )
    assert found == ["slow", "fast"]
    assert [(row.sequence, row.kind, row.result) for row in await rows(database)] == [
        (1, "first", "slow"),
        (2, "second", "fast"),
    ]


def test_engines_that_start_at_once_sign_with_one_key(tmp_path: Path) -> None:
    """Eight processes that start at the same moment share one file and one key."""
    path = tmp_path / "key.pem"
    with ThreadPoolExecutor(8) as pool:
        signers = list(pool.map(lambda _: PlanSigner.load_or_create(path), range(8)))
    assert len({one.public_key() for one in signers}) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["key.pem"]
