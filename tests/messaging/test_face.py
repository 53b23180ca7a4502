"""The guests' HTTP door: credentials, long polls, limits (guest-agent.md §2a)."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.waiting import PATIENCE_SECONDS, eventually

from vetro.http import assemble, serve
from vetro.http.client import HttpClient, Response
from vetro.messaging import Mailboxes, MailboxSection, MailboxSettings
from vetro.storage import Database

AGENT = b"an archive"


@dataclass
class Door:
    """A served face and how to call it."""

    url: str
    mailboxes: Mailboxes
    client: HttpClient
    stop: asyncio.Event

    async def call(self, method: str, path: str, token: str | None, **options: Any) -> Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers.update(options.pop("headers", {}))
        return await self.client.request(
            method, f"{self.url}/agents/v1{path}", headers=headers, **options
        )


@pytest.fixture
async def door(database: Database) -> AsyncIterator[Door]:
    """The face on a free port."""
    mailboxes = Mailboxes(
        database,
        settings=MailboxSettings(sizes=MailboxSection(result_limit=1000), request_burst=50),
    )
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(
            assemble([mailboxes.face(lambda: AGENT)]),
            [listener],
            stop,
            drain_seconds=5,
            on_ready=ready.set,
        )
    )
    await ready.wait()
    async with HttpClient() as client:
        yield Door(f"http://127.0.0.1:{listener.getsockname()[1]}", mailboxes, client, stop)
    stop.set()
    await serving
    listener.close()


async def test_anybody_may_fetch_the_agent(door: Door) -> None:
    """A machine without one has no credential yet; who has the file gets 304."""
    given = await door.call("GET", "/agent.pyz", None)
    assert (given.status, given.content) == (200, AGENT)
    marks = {"If-None-Match": given.headers["etag"]}
    assert (await door.call("GET", "/agent.pyz", None, headers=marks)).status == 304


async def test_a_plan_travels_and_its_result_returns(door: Door) -> None:
    """The guest receives exact bytes and headers, acknowledges, and its result arrives."""
    token = await door.mailboxes.issue_credential("q")
    await door.mailboxes.send("q", "m-1", b'{"exact":  1}', signature=b"\x01\xff")
    plan = await door.call("GET", "/plans?wait=0", token)
    assert plan.status == 200
    assert plan.content == b'{"exact":  1}'
    assert plan.headers["x-message-id"] == "m-1"
    assert base64.b64decode(plan.headers["x-signature"]) == b"\x01\xff"
    for _ in range(2):
        assert (await door.call("POST", "/plans/m-1/ack", token)).status == 204
    assert (await door.call("GET", "/plans?wait=0", token)).status == 204
    body = json.dumps({"SourceID": "m-1", "ErrorCode": 0}).encode()
    for _ in range(2):
        assert (await door.call("POST", "/results", token, content=body)).status == 202
    assert await door.mailboxes.wait_result("m-1", 0) == body


async def test_a_hanging_poll_ends_with_the_plan(door: Door) -> None:
    """A poll that hangs is answered when a plan is sent."""
    token = await door.mailboxes.issue_credential("q")
    poll = asyncio.create_task(door.call("GET", "/plans?wait=50", token, timeout_seconds=60))
    await eventually(lambda: door.mailboxes.last_contact("q"))
    await door.mailboxes.send("q", "m", b"{}")
    assert (await asyncio.wait_for(poll, PATIENCE_SECONDS)).content == b"{}"


async def test_the_newest_poll_gets_the_plan(door: Door) -> None:
    """A second poll of the same guest ends the first one without a plan."""
    token = await door.mailboxes.issue_credential("q")
    first = asyncio.create_task(door.call("GET", "/plans?wait=50", token, timeout_seconds=60))
    await eventually(lambda: door.mailboxes.last_contact("q"))
    second = asyncio.create_task(door.call("GET", "/plans?wait=50", token, timeout_seconds=60))
    assert (await asyncio.wait_for(first, PATIENCE_SECONDS)).status == 204
    await door.mailboxes.send("q", "m", b"{}")
    assert (await asyncio.wait_for(second, PATIENCE_SECONDS)).content == b"{}"


async def test_closing_ends_hanging_polls(door: Door) -> None:
    """A service that shuts down answers its hanging polls at once."""
    token = await door.mailboxes.issue_credential("q")
    poll = asyncio.create_task(door.call("GET", "/plans?wait=50", token, timeout_seconds=60))
    await eventually(lambda: door.mailboxes.last_contact("q"))
    door.stop.set()
    assert (await asyncio.wait_for(poll, PATIENCE_SECONDS)).status == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/plans?wait=0"),
        ("POST", "/plans/m/ack"),
        ("POST", "/results"),
        ("POST", "/alive"),
    ],
)
async def test_every_call_needs_a_valid_credential(door: Door, method: str, path: str) -> None:
    """A missing, a wrong and a revoked credential are all 401."""
    token = await door.mailboxes.issue_credential("q")
    assert (await door.call(method, path, None)).status == 401
    assert (await door.call(method, path, "wrong")).status == 401
    basic = {"Authorization": f"Basic {token}"}
    assert (await door.call(method, path, None, headers=basic)).status == 401
    await door.mailboxes.revoke("q")
    refused = await door.call(method, path, token)
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


async def test_a_guest_sees_only_its_own_mailbox(door: Door) -> None:
    """Another guest's plan is neither handed out nor acknowledged."""
    await door.mailboxes.issue_credential("mine")
    other = await door.mailboxes.issue_credential("other")
    await door.mailboxes.send("mine", "m", b"{}")
    assert (await door.call("GET", "/plans?wait=0", other)).status == 204
    assert (await door.call("POST", "/plans/m/ack", other)).status == 204
    plan = await door.mailboxes.next_plan(
        (await door.mailboxes.credentials.check(await door.mailboxes.issue_credential("mine")))
        or pytest.fail("no guest"),
        "s",
        0,
    )
    assert plan is not None


async def test_large_and_malformed_results_are_refused(door: Door) -> None:
    """413 over the limit, 400 for an invalid result; the malformed one is kept aside."""
    token = await door.mailboxes.issue_credential("q")
    assert (await door.call("POST", "/results", token, content=b"x" * 1001)).status == 413
    assert (await door.call("POST", "/results", token, content=b"{")).status == 400
    assert [one.reason for one in await door.mailboxes.dead_letters("q")] == ["malformed"]


@pytest.mark.parametrize("wait", ["-1", "nan", "inf", "soon"])
async def test_bad_waits_are_400(door: Door, wait: str) -> None:
    """A wait that is not a valid number of seconds is refused."""
    token = await door.mailboxes.issue_credential("q")
    assert (await door.call("GET", f"/plans?wait={wait}", token)).status == 400


async def test_alive_tells_version_and_time(door: Door) -> None:
    """The agent's message counts as contact; an invalid one is 400."""
    token = await door.mailboxes.issue_credential("q")
    said = await door.call("POST", "/alive", token, json={"version": "1.0", "uptime": 3.5})
    assert said.status == 204
    assert await door.mailboxes.last_contact("q") is not None
    assert (await door.call("POST", "/alive", token, json={"uptime": "x"})).status == 400


async def test_a_guest_that_asks_too_often_is_told_to_wait(door: Door) -> None:
    """Beyond the burst comes 429 with Retry-After; another guest is not affected."""
    token = await door.mailboxes.issue_credential("greedy")
    other = await door.mailboxes.issue_credential("modest")
    refused = None
    for _ in range(200):
        answer = await door.call("POST", "/plans/x/ack", token)
        if answer.status == 429:
            refused = answer
            break
    assert refused is not None
    assert int(refused.headers["retry-after"]) >= 1
    assert (await door.call("POST", "/plans/x/ack", other)).status == 204


async def test_contacts_are_stored_when_the_face_ends(database: Database) -> None:
    """Contacts that are not stored yet are stored at shutdown."""
    mailboxes = Mailboxes(database)
    token = await mailboxes.issue_credential("q")
    assembly = assemble([mailboxes.face()])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://t") as client:
        headers = {"Authorization": f"Bearer {token}"}
        await client.request("GET", "/agents/v1/plans?wait=0", headers=headers)
        first = await mailboxes.last_contact("q")
        database.clock.advance(60)  # type: ignore[attr-defined]
        await client.request("GET", "/agents/v1/plans?wait=0", headers=headers)
        assert await mailboxes.last_contact("q") == first
    assert await mailboxes.last_contact("q") == database.clock.now()


async def test_guests_are_told_how_large_a_result_may_be(door: Door) -> None:
    """The limit comes with every plan and with a 413, whether the length was announced or not."""
    token = await door.mailboxes.issue_credential("q")
    await door.mailboxes.send("q", "m", b"{}")
    assert (await door.call("GET", "/plans?wait=0", token)).headers["x-result-limit"] == "1000"

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 1000

    for content in (b"x" * 1001, pieces()):
        refused = await door.call("POST", "/results", token, content=content)
        assert (refused.status, refused.headers["x-result-limit"]) == (413, "1000")


async def test_signals_need_their_signature(door: Door) -> None:
    """An address is the credential of its handle alone, and only as long as the handle is there."""
    signals = door.mailboxes.signals
    mine, other = await signals.open("mine", "p"), await signals.open("other", "p")
    assert mine == await signals.open("mine", "p")

    async def send(address: str, method: str = "POST", body: bytes = b"") -> int:
        return (await door.client.request(method, door.url + address, content=body)).status

    assert await send(mine.replace("/mine?", "/other?")) == 401
    assert await send(mine.partition("?")[0]) == 401
    assert await send(mine, "PUT", b'{"Status": "FAILURE", "Reason": "r", "UniqueId": "a"}') == 204
    assert await send(mine, body=b'{"status": "SUCCESS", "id": "a", "data": {"x": [1]}}') == 204
    assert await send(mine) == 204
    found = {one.id: (one.status, one.data) for one in await signals.received("mine")}
    assert found == {"a": ("SUCCESS", {"x": [1]}), "2": ("SUCCESS", "")}
    assert await signals.received("other") == []
    await signals.close("mine")
    assert (await send(mine), await send(other)) == (401, 204)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"status": "MAYBE"}', 400),
        (b'{"status": {"a": 1}}', 400),
        (b'{"id": "' + b"x" * 256 + b'"}', 400),
        (b"\xff\xfe", 400),
        (b"[" * 60_000, 400),
        (b'{"reason": 1, "data": null, "id": 7}', 204),
        (b" " * 70_000, 413),
    ],
)
async def test_hostile_signals_are_refused(door: Door, body: bytes, status: int) -> None:
    """A body that is not a signal is refused with a reason, and nothing is stored."""
    address = await door.mailboxes.signals.open("h", "p")
    answer = await door.client.request("POST", door.url + address, content=body)
    assert answer.status == status, answer.text
    assert len(await door.mailboxes.signals.received("h")) == (1 if status == 204 else 0)


async def test_a_handle_keeps_a_limited_number_of_signals(door: Door, monkeypatch: Any) -> None:
    """Further ones are refused; those with a known id replace it."""
    monkeypatch.setattr("vetro.messaging.signals.MOST_SIGNALS", 1)
    address = await door.mailboxes.signals.open("h", "p")
    for body, status in ((b'{"id": "a"}', 204), (b'{"id": "b"}', 409), (b'{"id": "a"}', 204)):
        answer = await door.client.request("POST", door.url + address, content=body)
        assert answer.status == status
