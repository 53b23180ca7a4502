"""Claims that are renewed while a block works."""

import asyncio

import pytest
from tests.interrupting import interruptions

from vetro.storage import DatabaseUnavailable, Renewal


class Lost(Exception):
    """Another owner has the claim."""


async def test_a_claim_that_cannot_be_renewed_before_it_expires_is_lost() -> None:
    """A database that stays away ends the block with the loss, and leaves no cancellation behind."""

    async def renew() -> None:
        raise DatabaseUnavailable("away")

    with pytest.raises(Lost):
        async with Renewal(renew, 0.03, lost=Lost(), name="c"):
            await asyncio.Event().wait()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_database_that_comes_back_in_time_loses_nothing() -> None:
    """A renewal that failed is repeated, and the block goes on."""
    answers: list[Exception | None] = [DatabaseUnavailable("away"), None]
    renewed = asyncio.Event()

    async def renew() -> None:
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        renewed.set()

    async with Renewal(renew, 3, lost=Lost(), name="c"):
        await renewed.wait()
    assert answers == []


async def test_an_error_of_the_block_is_kept() -> None:
    """What the block raises is not replaced, and the renewing ends."""

    async def renew() -> None:
        raise AssertionError("not within this time")

    with pytest.raises(KeyError):
        async with Renewal(renew, 600, lost=Lost(), name="c"):
            raise KeyError
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("renewal ")]


async def test_ending_stops_the_renewals() -> None:
    """After `end` the claim may be released: it is not renewed again."""
    renewals = 0

    async def renew() -> None:
        nonlocal renewals
        renewals += 1
        raise Lost

    async with Renewal(renew, 0, lost=Lost(), name="c") as renewal:
        await renewal.end()
        await renewal.end()
        await asyncio.sleep(0)
    assert renewals == 0


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_a_cancellation_while_renewing_ends_is_passed_on(again: bool) -> None:
    """Whoever is cancelled just as its block ends is cancelled, after the renewal has ended."""
    begun = asyncio.Event()

    async def renew() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # as a write that is completed all the same
                await asyncio.sleep(0)

    async def work() -> None:
        async with Renewal(renew, 0, lost=Lost(), name="c"):
            await begun.wait()

    cancelled: list[bool] = []
    async for ended in interruptions(work, again=again):
        begun.clear()
        cancelled.append(ended.cancelled())
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("renewal ")]
    assert cancelled == [True] * (len(cancelled) - 1) + [False]
    assert len(cancelled) > 2
