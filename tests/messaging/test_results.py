"""Results that are refused: who waits is told at once (guest-agent.md §2a, §6.1)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from vetro.messaging import Guest, Mailboxes
from vetro.messaging.results import MalformedResult

QUEUE = "e1-h1"
GUEST = Guest(QUEUE)
LARGE = "x" * 20_000


@pytest.fixture
async def called(mailboxes: Mailboxes) -> Mailboxes:
    """Mailboxes (results: 10,000 bytes) in which a guest has the plan `m`."""
    await mailboxes.declare(QUEUE)
    await mailboxes.send(QUEUE, "m", b"{}")
    await mailboxes.next_plan(GUEST, "s", 0)
    await mailboxes.acknowledge(GUEST, "m")
    return mailboxes


async def answer(mailboxes: Mailboxes) -> dict[str, Any]:
    """What who waits for `m` gets without waiting."""
    body = await mailboxes.wait_result("m", 0)
    assert body is not None, "nobody was told"
    document = json.loads(body)
    assert document["SourceID"] == "m"
    return document


async def test_a_brokers_result_that_is_too_large_is_answered_at_once(called: Mailboxes) -> None:
    """The error keeps code, message, exit code and ends of the outputs, and names the limit."""
    info = {"exitCode": 7, "stdout": LARGE + "last line", "stderr": "short"}
    given = {"SourceID": "m", "ErrorCode": 100, "Body": {"Message": "s", "AdditionalInfo": info}}
    await called.accept_brokered("results", json.dumps(given).encode(), None)
    error = await answer(called)
    assert error["ErrorCode"] == 100
    assert error["Body"]["Message"].startswith("s (The result has 20")
    assert "limit of 10000" in error["Body"]["Message"]
    told = error["Body"]["AdditionalInfo"]
    assert (told["exitCode"], told["stderr"]) == (7, "short")
    assert told["stdout"].endswith("last line")
    assert len(json.dumps(error)) < 10_000
    assert [one.reason for one in await called.dead_letters(QUEUE)] == ["too large"]


@pytest.mark.parametrize(
    ("document", "message_id"),
    [
        ({"SourceID": "m", "Body": {"exitCode": 0, "stdout": LARGE, "stderr": None}}, None),
        ({"SourceID": "m", "Body": LARGE}, "another"),
        ({"IsException": False, "Result": [{"IsException": False, "Result": [LARGE]}]}, "m"),
        ([LARGE], "m"),
    ],
)
async def test_a_good_result_that_is_too_large_is_an_error(
    called: Mailboxes, document: Any, message_id: str | None
) -> None:
    """In either format the waiter gets an error before the time-out."""
    await called.accept_brokered("results", json.dumps(document).encode(), message_id)
    error = await answer(called)
    assert error["ErrorCode"] == 1
    assert "mailbox.result_limit" in error["Body"]["Message"]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"\xff", b'{"SourceID": 5}', b"[" * 9000],
    ids=["syntax", "list", "encoding", "number", "nesting"],
)
async def test_a_result_that_cannot_be_read_is_answered_at_once(
    called: Mailboxes, body: bytes
) -> None:
    """The message's id identifies the waiter; the guest gets an error over HTTP as well."""
    await called.accept_brokered("results", body, "m")
    assert "cannot be read" in (await answer(called))["Body"]["Message"]
    await called.send(QUEUE, "n", b"{}")
    with pytest.raises(MalformedResult):
        await called.accept_result(GUEST, body, "n")
    assert await called.wait_result("n", 0) is not None


async def test_a_result_that_is_too_deep_is_malformed(called: Mailboxes) -> None:
    """Nesting that exhausts the stack does not fail in the service."""
    former = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        await called.accept_brokered("results", b'{"a":' * 1500 + b"1" + b"}" * 1500, "m")
    finally:
        sys.setrecursionlimit(former)
    assert "cannot be read" in (await answer(called))["Body"]["Message"]


async def test_a_guest_cannot_refuse_for_another(called: Mailboxes) -> None:
    """A malformed result that names another guest's plan does not end that plan."""
    with pytest.raises(MalformedResult):
        await called.accept_result(Guest("e1-h2"), b"{", "m")
    assert await called.wait_result("m", 0) is None
