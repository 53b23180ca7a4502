"""New settings of a broker reach the agents of machines that are there: the real agent, a real RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.messaging.guests import agent_process

from vetro.engine.telling import Place, at_broker, at_mailbox, note_made, tell
from vetro.guest.build import build_archive
from vetro.http import assemble, serve
from vetro.http.client import HttpClient
from vetro.messaging import MIGRATIONS, BrokerDoor, BrokerSettings, Mailboxes
from vetro.storage import Database, migrate

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.parametrize("database_url", ["sqlite"], indirect=True),  # the broker is the same
]


@pytest.fixture
async def mailboxes(database_url: str) -> AsyncIterator[Mailboxes]:
    """Mailboxes in a database."""
    if "VETRO_TEST_RABBITMQ_MANAGEMENT" not in os.environ:
        pytest.skip("there is no RabbitMQ; tools/with-rabbitmq.sh starts one")
    database = await Database.open(database_url)
    await migrate(database, [MIGRATIONS])
    yield Mailboxes(database)
    await database.close()


def _settings(**other: Any) -> BrokerSettings:
    address = urlsplit(os.environ["VETRO_TEST_RABBITMQ_URL"])
    given: dict[str, Any] = {"host": address.hostname, "port": address.port}
    return BrokerSettings(**{**given, **other})


async def _give(user: str, password: str) -> None:
    """Make a user of the broker, or give it another password."""
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    async with HttpClient() as client:
        for path, body in (
            (f"users/{user}", {"password": password, "tags": ""}),
            (f"permissions/%2F/{user}", rights),
        ):
            answer = await client.request(
                "PUT",
                f"{os.environ['VETRO_TEST_RABBITMQ_MANAGEMENT']}/api/{path}",
                headers={"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="},
                json=body,
            )
            assert answer.status < 300, answer.text


async def _runs(
    door: BrokerDoor, mailboxes: Mailboxes, queue: str, place: Place, number: int
) -> Any:
    await tell(door, mailboxes, None, queue, place)
    name = uuid.uuid4().hex
    plan: dict[str, Any] = {
        "FormatVersion": "2.0.0",
        "ID": name,
        "Stamp": number,
        "Body": f"return {number}",
        "Scripts": {},
        "Files": {},
    }
    await door.send(queue, name, json.dumps(plan).encode())
    result = await door.wait_result(name, 60)
    return None if result is None else json.loads(result)["Body"]


async def test_an_agent_follows_a_rotated_password_and_a_user_of_its_own(
    mailboxes: Mailboxes, tmp_path: Path
) -> None:
    """Over the connection that it has; it is started again with the configuration of its first start, whose
    login the broker refuses by then."""
    queue, user = f"e{secrets.token_hex(4)}-h1", f"service{secrets.token_hex(4)}"
    results = f"-execution-results-{queue}"
    archive = build_archive(tmp_path / "vetro-guest.pyz")
    doors: list[BrokerDoor] = []

    def door(**settings: Any) -> tuple[BrokerDoor, Place]:
        doors.append(BrokerDoor(mailboxes, _settings(**settings), results))
        made = doors[-1]
        own = made.broker_user(queue)
        return made, at_broker(made.settings, None, user=own, results=results)

    await _give(user, "first")
    made, place = door(login=user, password="first")
    await made.declare(queue)
    await note_made(made, queue, place)
    config = (
        f"[DEFAULT]\nstorage = {tmp_path}/storage\n[mailbox]\nurl =\n"
        f"[rabbitmq]\nhost = {made.settings.host}\nport = {made.settings.port}\nlogin = {user}\n"
        f"password = first\ninput_queue = {queue}\nresult_routing_key = {results}\n"
    )
    try:
        async with agent_process(archive, tmp_path, config):
            assert await _runs(made, mailboxes, queue, place, 1) == 1
            await _give(user, "second")
            made, place = door(login=user, password="second")
            assert await _runs(made, mailboxes, queue, place, 2) == 2
        async with agent_process(archive, tmp_path, config):
            assert await _runs(made, mailboxes, queue, place, 3) == 3
            management = os.environ["VETRO_TEST_RABBITMQ_MANAGEMENT"]
            made, place = door(management_url=management)
            assert await _runs(made, mailboxes, queue, place, 4) == 4
    finally:
        await doors[-1].delete(queue)
        await doors[-1].forget_results()
        for one in doors:
            await one.close()


async def test_an_agent_of_the_mailboxes_follows_to_a_broker(
    mailboxes: Mailboxes, tmp_path: Path
) -> None:
    """It fetches the order at its mailbox, and its plan at the broker."""
    queue = f"e{secrets.token_hex(4)}-h1"
    results = f"-execution-results-{queue}"
    archive = build_archive(tmp_path / "vetro-guest.pyz")
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    token = await mailboxes.issue_credential(queue)
    await note_made(mailboxes, queue, at_mailbox(url, None))
    config = (
        f"[DEFAULT]\nstorage = {tmp_path}/storage\n[mailbox]\nurl = {url}\ntoken = {token}\n"
        f"input_queue = {queue}\n"
    )
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(assemble([mailboxes.face()]), [listener], stop, drain_seconds=1, on_ready=ready.set)
    )
    await ready.wait()
    door = BrokerDoor(mailboxes, _settings(), results)
    try:
        async with agent_process(archive, tmp_path, config):
            place = at_broker(door.settings, None, user="", results=results)
            assert await _runs(door, mailboxes, queue, place, 1) == 1
            assert await mailboxes.doors() == {}
            assert (await mailboxes.told(queue)).door == door.settings.door
    finally:
        await door.delete(queue)
        await door.forget_results()
        await door.close()
        stop.set()
        await serving
        listener.close()
