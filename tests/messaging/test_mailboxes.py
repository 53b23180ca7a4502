"""Mailboxes: order, leases, results, credentials (guest-agent.md §2a)."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples
from tests.waiting import PATIENCE_SECONDS

from vetro.messaging import (
    DuplicateMessage,
    Guest,
    Mailboxes,
    MessageTooLarge,
    UnknownMailbox,
)
from vetro.messaging.results import MalformedResult
from vetro.storage import ManualClock

GUEST = Guest("e1-h1")


def _result(message_id: str, body: object = None) -> bytes:
    return json.dumps({"SourceID": message_id, "ErrorCode": 0, "Body": body}).encode()


async def test_plans_come_in_order_and_byte_for_byte(mailboxes: Mailboxes) -> None:
    """Bodies and signatures arrive as sent, first in first out, each after the last's ack."""
    await mailboxes.declare("e1-h1")
    for number in range(3):
        await mailboxes.send("e1-h1", f"m{number}", b'{"n":  %d}\n' % number, signature=b"\x00\xff")
    for number in range(3):
        plan = await mailboxes.next_plan(GUEST, "s", 0)
        assert plan is not None
        assert (plan.message_id, plan.body) == (f"m{number}", b'{"n":  %d}\n' % number)
        assert plan.signature == b"\x00\xff"
        await mailboxes.acknowledge(GUEST, plan.message_id)
        await mailboxes.acknowledge(GUEST, plan.message_id)
    assert await mailboxes.next_plan(GUEST, "s", 0) is None


async def test_a_waiting_poll_gets_a_plan_sent_elsewhere(
    mailboxes: Mailboxes, elsewhere: Mailboxes
) -> None:
    """A long poll in one process ends when another process sends."""
    await mailboxes.declare("e1-h1")
    poll = asyncio.ensure_future(mailboxes.next_plan(GUEST, "s", 2 * PATIENCE_SECONDS))
    await asyncio.sleep(0)
    await elsewhere.send("e1-h1", "m", b"{}")
    plan = await asyncio.wait_for(poll, PATIENCE_SECONDS)
    assert plan is not None
    assert plan.message_id == "m"


async def test_a_waiting_call_gets_its_result_from_elsewhere(
    mailboxes: Mailboxes, elsewhere: Mailboxes
) -> None:
    """Results find the right waiter, in any order, across processes."""
    for queue in ("a", "b"):
        await mailboxes.declare(queue)
        await mailboxes.send(queue, f"to-{queue}", b"{}")
    first = asyncio.ensure_future(mailboxes.wait_result("to-a", 2 * PATIENCE_SECONDS))
    second = asyncio.ensure_future(mailboxes.wait_result("to-b", 2 * PATIENCE_SECONDS))
    await asyncio.sleep(0)
    await elsewhere.accept_result(Guest("b"), _result("to-b", "B"))
    assert json.loads(await asyncio.wait_for(second, PATIENCE_SECONDS) or b"")["Body"] == "B"
    assert not first.done()
    await elsewhere.accept_result(Guest("a"), _result("to-a", "A"))
    assert json.loads(await asyncio.wait_for(first, PATIENCE_SECONDS) or b"")["Body"] == "A"


async def test_an_unacknowledged_plan_comes_again_after_its_lease(
    mailboxes: Mailboxes, clock: ManualClock
) -> None:
    """Within the lease no plan is handed out; after it, the same one is."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m1", b"{}")
    await mailboxes.send("e1-h1", "m2", b"{}")
    first = await mailboxes.next_plan(GUEST, "s", 0)
    assert first is not None
    assert await mailboxes.next_plan(GUEST, "s", 0) is None
    clock.advance(61)
    assert await mailboxes.next_plan(GUEST, "s", 0) == first


async def test_a_restarted_agent_gets_the_plan_at_once(mailboxes: Mailboxes) -> None:
    """A new session takes over the lease of the old one; without sessions the lease holds."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m1", b"{}")
    first = await mailboxes.next_plan(GUEST, "old", 0)
    assert await mailboxes.next_plan(GUEST, None, 0) is None
    assert await mailboxes.next_plan(GUEST, "new", 0) == first


async def test_the_same_result_twice_counts_once(mailboxes: Mailboxes) -> None:
    """The first delivery is the result; it stays readable, also for a second waiter."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.accept_result(GUEST, _result("m", 1))
    await mailboxes.accept_result(GUEST, _result("m", 2))
    for _ in range(2):
        assert await mailboxes.wait_result("m", 0) == _result("m", 1)
    assert await mailboxes.dead_letters("e1-h1") == []


async def test_a_result_withdraws_a_plan_whose_acknowledgement_was_lost(
    mailboxes: Mailboxes, clock: ManualClock
) -> None:
    """A plan that was answered is not handed out again."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.next_plan(GUEST, "s", 0)
    await mailboxes.accept_result(GUEST, _result("m"))
    clock.advance(61)
    assert await mailboxes.next_plan(GUEST, "s", 0) is None


async def test_late_unknown_and_foreign_results_are_kept_aside(mailboxes: Mailboxes) -> None:
    """An unusable result changes nothing and is kept with the reason."""
    await mailboxes.declare("e1-h1")
    await mailboxes.declare("other")
    await mailboxes.send("e1-h1", "late", b"{}")
    await mailboxes.send("other", "theirs", b"{}")
    await mailboxes.discard("late")
    for message in ("late", "never-sent", "theirs"):
        await mailboxes.accept_result(GUEST, _result(message))
    letters = await mailboxes.dead_letters("e1-h1")
    assert [(letter.message_id, letter.reason) for letter in letters] == [
        ("late", "late"),
        ("never-sent", "unknown"),
        ("theirs", "foreign"),
    ]
    assert await mailboxes.wait_result("theirs", 0) is None
    assert await mailboxes.next_plan(GUEST, "s", 0) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"\xff", b'{"SourceID": 5}', b"{}"])
async def test_malformed_results_are_refused_and_kept(mailboxes: Mailboxes, body: bytes) -> None:
    """A result that cannot be read is a dead letter, and the waiter keeps waiting."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    with pytest.raises(MalformedResult):
        await mailboxes.accept_result(GUEST, body)
    letters = await mailboxes.dead_letters("e1-h1")
    assert [(letter.reason, letter.body) for letter in letters] == [("malformed", body)]
    await mailboxes.accept_result(GUEST, _result("m"))
    assert await mailboxes.wait_result("m", 0) is not None


async def test_a_v1_result_is_found_by_its_message_id(mailboxes: Mailboxes) -> None:
    """Results without SourceID are correlated by the message id beside them."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.accept_result(GUEST, b'{"IsException": false, "Result": []}', "m")
    assert await mailboxes.wait_result("m", 0) == b'{"IsException": false, "Result": []}'


async def test_sending_again_is_safe_and_ids_are_unique(mailboxes: Mailboxes) -> None:
    """The same message again is one message; another body under its id is an error."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.send("e1-h1", "m", b"{}")
    with pytest.raises(DuplicateMessage):
        await mailboxes.send("e1-h1", "m", b"{ }")
    await mailboxes.acknowledge(GUEST, "m")
    await mailboxes.send("e1-h1", "m", b"{}")
    assert await mailboxes.next_plan(GUEST, "s", 0) is None


async def test_limits_and_unknown_queues_are_errors(mailboxes: Mailboxes) -> None:
    """Too large messages and undeclared queues are refused with their names."""
    with pytest.raises(UnknownMailbox, match="nowhere"):
        await mailboxes.send("nowhere", "m", b"{}")
    await mailboxes.declare("e1-h1")
    with pytest.raises(MessageTooLarge, match="downloadable"):
        await mailboxes.send("e1-h1", "m", b"x" * 10_001)
    with pytest.raises(MessageTooLarge):
        await mailboxes.accept_result(GUEST, b"x" * 10_001)


async def test_credentials_are_stable_rotated_and_revoked(
    mailboxes: Mailboxes, elsewhere: Mailboxes
) -> None:
    """One token per queue until rotated; a revoked one is refused everywhere at once."""
    token = await mailboxes.issue_credential("e1-h1")
    assert await elsewhere.issue_credential("e1-h1") == token
    assert await mailboxes.issue_credential("e1-h2") != token
    assert await elsewhere.credentials.check(token) == GUEST
    assert await elsewhere.credentials.check(token + "x") is None
    rotated = await mailboxes.rotate_credential("e1-h1")
    assert await elsewhere.credentials.check(token) is None
    assert await elsewhere.credentials.check(rotated) == GUEST
    await mailboxes.revoke("e1-h1")
    await mailboxes.revoke("e1-h1")
    assert await elsewhere.credentials.check(rotated) is None
    assert await mailboxes.issue_credential("e1-h1") not in (token, rotated)


async def test_a_shared_secret_gives_the_same_tokens_anywhere(mailboxes: Mailboxes) -> None:
    """With a configured secret nothing about the key is in the database."""
    one = Mailboxes(mailboxes.db, secret=b"k" * 32)
    other = Mailboxes(mailboxes.db, secret=b"k" * 32)
    assert await one.issue_credential("q") == await other.issue_credential("q")
    assert await mailboxes.issue_credential("q") != await one.issue_credential("q")


async def test_a_deleted_mailbox_leaves_nothing(mailboxes: Mailboxes) -> None:
    """Messages, credential and dead letters are removed too; deleting again does nothing."""
    token = await mailboxes.issue_credential("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.accept_result(GUEST, _result("unknown"))
    await mailboxes.delete("e1-h1")
    await mailboxes.delete("e1-h1")
    assert await mailboxes.credentials.check(token) is None
    assert await mailboxes.dead_letters("e1-h1") == []
    with pytest.raises(UnknownMailbox):
        await mailboxes.send("e1-h1", "m2", b"{}")
    await mailboxes.declare("e1-h1")
    assert await mailboxes.next_plan(GUEST, "s", 0) is None


async def test_old_results_and_letters_are_pruned(mailboxes: Mailboxes, clock: ManualClock) -> None:
    """Plans and results expire after a day, dead letters after a week."""
    await mailboxes.declare("e1-h1")
    await mailboxes.send("e1-h1", "m", b"{}")
    await mailboxes.accept_result(GUEST, _result("m"))
    await mailboxes.accept_result(GUEST, _result("unknown"))
    clock.advance(86_401)
    await mailboxes.prune()
    assert await mailboxes.wait_result("m", 0) is None
    assert len(await mailboxes.dead_letters("e1-h1")) == 1
    clock.advance(7 * 86_400)
    await mailboxes.prune()
    assert await mailboxes.dead_letters("e1-h1") == []


async def test_contacts_are_remembered(mailboxes: Mailboxes, clock: ManualClock) -> None:
    """The last contact is none before the first one, then its time."""
    await mailboxes.declare("e1-h1")
    assert await mailboxes.last_contact("e1-h1") is None
    await mailboxes.record_contacts({"e1-h1": clock.now(), "gone": clock.now()})
    assert await mailboxes.last_contact("e1-h1") == clock.now()
    clock.advance(5)
    await mailboxes.record_alive(GUEST, "1.0.0", 12.5)
    assert await mailboxes.last_contact("e1-h1") == clock.now()


STEPS = st.lists(st.sampled_from(["send", "poll", "ack", "crash", "result", "expire"]), max_size=25)


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
async def test_any_interleaving_delivers_each_plan_in_order(
    mailboxes: Mailboxes, clock: ManualClock, steps: list[str]
) -> None:
    """After any crashes and expiries each plan arrives at least once, in sending order."""
    await mailboxes.delete("e1-h1")
    await mailboxes.declare("e1-h1")
    sent: list[str] = []
    kept: list[str] = []
    session = 0
    held: str | None = None
    for step in [*steps, "crash", *["poll", "ack"] * 30]:
        if step == "send":
            name = f"{id(steps)}-{clock.monotonic()}-{len(sent)}"
            await mailboxes.send("e1-h1", name, b"{}")
            sent.append(name)
        elif step == "poll":
            plan = await mailboxes.next_plan(GUEST, str(session), 0)
            held = plan.message_id if plan else held
        elif step == "ack" and held is not None:
            if held not in kept:
                kept.append(held)
            await mailboxes.acknowledge(GUEST, held)
            held = None
        elif step == "crash":
            session, held = session + 1, None
        elif step == "result" and kept:
            await mailboxes.accept_result(GUEST, _result(kept[-1]))
        elif step == "expire":
            clock.advance(61)
    assert kept == sent


@pytest.mark.parametrize("hours", [-48, -1, 0, 1, 48])
async def test_the_last_stamp_is_the_highest(
    mailboxes: Mailboxes, elsewhere: Mailboxes, clock: ManualClock, hours: int
) -> None:
    """Every engine gets it, whatever its clock; a mailbox that is created again has none."""
    await mailboxes.declare("q")
    assert await mailboxes.last_stamp("q") == await mailboxes.last_stamp("nobody") == 0
    for number, stamp in enumerate((70, 1 << 62, 80, None)):
        await mailboxes.send("q", f"m{number}", b"{}", stamp=stamp)
        clock.jump(hours * 3600)
    assert await elsewhere.last_stamp("q") == 1 << 62
    await mailboxes.delete("q")
    await mailboxes.declare("q")
    assert await mailboxes.last_stamp("q") == 0
