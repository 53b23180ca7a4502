"""How far sent plans have come, and plans nobody waits for any more (guest-agent.md, beyond upstream)."""

from __future__ import annotations

import json

import pytest

from vetro.messaging import Guest, Mailboxes
from vetro.messaging.tables import calls, plans
from vetro.storage import Database, ManualClock

QUEUE = "e1-h1"
GUEST = Guest(QUEUE)


def result(message_id: str) -> bytes:
    """A good result."""
    return json.dumps({"SourceID": message_id, "Body": None}).encode()


async def fetch(mailboxes: Mailboxes) -> str | None:
    """The guest fetches its next plan and acknowledges it; the message's id."""
    plan = await mailboxes.next_plan(GUEST, "s", 0)
    if plan is not None:
        await mailboxes.acknowledge(GUEST, plan.message_id)
    return plan and plan.message_id


async def rows(database: Database, table: object) -> int:
    """How many rows a table has."""
    async with database.read() as tx:
        return len((await tx.execute(table.select())).all())  # type: ignore[attr-defined]


async def test_a_plan_that_nobody_waits_for_is_not_handed_out(
    mailboxes: Mailboxes, database: Database, clock: ManualClock
) -> None:
    """After the call's time-out an unfetched plan is not handed out, and is then removed."""
    await mailboxes.declare(QUEUE)
    await mailboxes.send(QUEUE, "short", b"{}", lifetime=10)
    await mailboxes.send(QUEUE, "for-ever", b"{}")
    clock.advance(9)
    assert await mailboxes.ready_at(GUEST, "s") == 0.0
    clock.advance(2)
    assert await fetch(mailboxes) == "for-ever"
    await mailboxes.send(QUEUE, "short too", b"{}", lifetime=10)
    clock.advance(11)
    assert await mailboxes.ready_at(GUEST, "s") is None
    assert await fetch(mailboxes) is None
    await mailboxes.prune()
    assert await rows(database, plans) == 0


@pytest.mark.parametrize("jump", [3 * 86_400, -3 * 86_400], ids=["forward", "back"])
async def test_setting_the_clock_changes_no_deadline(
    mailboxes: Mailboxes, elsewhere: Mailboxes, database: Database, clock: ManualClock, jump: float
) -> None:
    """Plans, leases and results last as long as they should, however often the clock is set."""
    await mailboxes.declare(QUEUE)
    await mailboxes.send(QUEUE, "m", b"{}", lifetime=100)
    clock.jump(jump)
    assert await elsewhere.ready_at(GUEST, "s") == 0.0
    assert await elsewhere.next_plan(GUEST, "s", 0) is not None
    clock.jump(-2 * jump)
    clock.advance(50)
    assert await mailboxes.next_plan(GUEST, "s", 0) is None  # leased for 60 s
    assert await mailboxes.ready_at(GUEST, "s") == 10.0
    clock.advance(10)
    assert await mailboxes.next_plan(GUEST, "s", 0) is not None
    clock.advance(39)
    await mailboxes.prune()
    assert await rows(database, plans) == 1
    clock.advance(1)
    assert await elsewhere.ready_at(GUEST, "s") is None
    await elsewhere.prune()
    assert await rows(database, plans) == 0
    await mailboxes.send(QUEUE, "n", b"{}", lifetime=100)
    await mailboxes.accept_result(GUEST, result("n"))
    clock.jump(jump)
    await mailboxes.prune()
    assert await elsewhere.wait_result("n", 0) == result("n")


async def test_discarding_says_whether_a_guest_may_have_the_plan(mailboxes: Mailboxes) -> None:
    """Only a plan that was never handed out is certain not to run."""
    await mailboxes.declare(QUEUE)
    for number in range(3):
        await mailboxes.send(QUEUE, f"m{number}", b"{}")
    await mailboxes.next_plan(GUEST, "s", 0)
    assert await mailboxes.discard("m0") is False  # handed out, not acknowledged
    assert await fetch(mailboxes) == "m1"
    assert await mailboxes.discard("m1") is False
    assert await mailboxes.discard("m2") is True
    assert await fetch(mailboxes) is None
    assert await mailboxes.discard("nothing") is False


async def test_what_is_before_a_plan_is_named(mailboxes: Mailboxes, clock: ManualClock) -> None:
    """Fetched, unanswered plans are named in order, with whether their sender still waits."""
    await mailboxes.declare(QUEUE)
    sent = (("a", "Install"), ("b", ""), ("c", "withdrawn"), ("d", "mine"), ("e", "behind"))
    for name, title in sent:
        clock.advance(1)
        await mailboxes.send(QUEUE, name, b"{}", name=title, lifetime=60)
    assert await fetch(mailboxes) == "a"
    assert await mailboxes.discard("c") is True
    progress = await mailboxes.progress("d")
    assert progress.place == "mailbox"
    assert [(one.message_id, one.name, one.awaited) for one in progress.before] == [
        ("a", "Install", True), ("b", "b", True),
    ]  # fmt: skip
    assert await fetch(mailboxes) == "b"
    assert await fetch(mailboxes) == "d"
    await mailboxes.discard("a")
    progress = await mailboxes.progress("d")
    assert progress.place == "guest"
    assert [(one.name, one.awaited) for one in progress.before] == [("Install", False), ("b", True)]
    await mailboxes.accept_result(GUEST, result("a"))
    await mailboxes.accept_result(GUEST, result("b"))
    assert (await mailboxes.progress("d")).before == ()
    assert [one.message_id for one in await mailboxes.unfinished(QUEUE)] == ["d", "e"]
    assert [one.reason for one in await mailboxes.dead_letters(QUEUE)] == ["late"]
    assert (await mailboxes.progress("unheard of")).before == ()


@pytest.mark.parametrize("seconds", [600.0, -600.0])
async def test_what_another_engine_sent_before_is_before(
    mailboxes: Mailboxes, database_url: str, clock: ManualClock, seconds: float
) -> None:
    """In the order in which they were sent, however far apart the clocks of the engines are."""
    await mailboxes.declare(QUEUE)
    other = await Database.open(database_url, clock=clock.apart(seconds))
    try:
        engines = (mailboxes, Mailboxes(other), mailboxes, Mailboxes(other))
        for engine, name in zip(engines, "abcd", strict=True):
            clock.advance(1)
            await engine.send(QUEUE, name, b"{}", lifetime=60)
        for number, name in enumerate("abcd"):
            before = (await mailboxes.progress(name)).before
            assert [one.message_id for one in before] == list("abcd"[:number])
    finally:
        await other.close()


async def test_other_guests_are_before_nothing(mailboxes: Mailboxes, clock: ManualClock) -> None:
    """Plans of other guests are not listed."""
    for queue in ("one", "two"):
        await mailboxes.declare(queue)
        await mailboxes.send(queue, f"to {queue}", b"{}")
        clock.advance(1)
    assert (await mailboxes.progress("to two")).before == ()


async def test_orders_to_the_agent_are_not_waited_for(
    mailboxes: Mailboxes, database: Database, clock: ManualClock
) -> None:
    """They are handed out like plans, delay nothing, and are removed after a time."""
    await mailboxes.declare(QUEUE)
    await mailboxes.send(QUEUE, "stop", b"{}", order=True, lifetime=3600)
    clock.advance(1)
    await mailboxes.send(QUEUE, "m", b"{}")
    assert await fetch(mailboxes) == "stop"
    assert (await mailboxes.progress("m")).before == ()
    assert await mailboxes.wait_result("stop", 0) is None
    clock.advance(3 * 86_400)
    await mailboxes.prune()
    assert await rows(database, calls) == 1
