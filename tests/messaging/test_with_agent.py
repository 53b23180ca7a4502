"""The real guest agent against the real mailbox service, with service and agent being killed."""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.messaging.guests import agent_process
from tests.waiting import eventually

from vetro.guest.build import build_archive
from vetro.http import assemble, serve
from vetro.messaging import Mailboxes
from vetro.storage import Database, SystemClock

QUEUE = "e1-h1"


@asynccontextmanager
async def _served(mailboxes: Mailboxes, port: int = 0) -> AsyncIterator[int]:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(assemble([mailboxes.face()]), [listener], stop, drain_seconds=5, on_ready=ready.set)
    )
    await ready.wait()
    yield listener.getsockname()[1]
    stop.set()
    await serving
    listener.close()


@pytest.fixture
async def mailboxes(database: Database) -> Mailboxes:
    """Mailboxes in real time: the agent has no other."""
    database.clock = SystemClock()
    return Mailboxes(database)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's archive."""
    return build_archive(tmp_path_factory.mktemp("dist") / "vetro-guest.pyz")


def _agent(
    archive: Path, folder: Path, port: int, token: str, key: str = ""
) -> AbstractAsyncContextManager[Process]:
    config = (
        f"[DEFAULT]\nstorage = {folder}/storage\n{key}\n[mailbox]\n"
        f"url = http://127.0.0.1:{port}\ntoken = {token}\ninput_queue = {QUEUE}\n"
    )
    return agent_process(archive, folder, config)


def _plan(body: str, number: int, **more: object) -> tuple[str, bytes]:
    name = uuid.uuid4().hex
    plan = {
        "FormatVersion": "2.0.0",
        "ID": name,
        "Stamp": number,
        "Body": body,
        "Scripts": {},
        "Files": {},
        **more,
    }
    return name, json.dumps(plan).encode()


async def test_a_signed_plan_is_run_by_a_real_agent(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path
) -> None:
    """A signed plan is sent, run and answered; a forged one beside it is not answered."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.PKCS1
    )
    option = "engine_key = " + "\n\t".join(pem.decode().strip().splitlines())
    token = await mailboxes.issue_credential(QUEUE)
    forged, forged_body = _plan("return 'forged'", 1)
    genuine, body = _plan("return 'genuine'", 2)
    signature = key.sign(QUEUE.encode() + body, padding.PKCS1v15(), hashes.SHA256())
    await mailboxes.send(QUEUE, forged, forged_body, signature=signature)
    await mailboxes.send(QUEUE, genuine, body, signature=signature)
    async with _served(mailboxes) as port, _agent(archive, tmp_path, port, token, option):
        result = await mailboxes.wait_result(genuine, 60)
        assert result is not None
        assert json.loads(result)["Body"] == "genuine"
        assert await mailboxes.wait_result(forged, 0) is None
        assert await mailboxes.last_contact(QUEUE) is not None


async def test_service_and_agent_are_killed_and_nothing_is_lost(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path
) -> None:
    """A plan sent and a result made during the outage both arrive once."""
    token = await mailboxes.issue_credential(QUEUE)
    gate = tmp_path / "gate"
    started = tmp_path / "started"
    script = (
        f"import os, time\nopen({str(started)!r}, 'w').close()\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    )
    first, first_body = _plan(script + "\nreturn 1", 1)
    second, second_body = _plan("return 2", 2)
    async with _served(mailboxes) as port:
        await mailboxes.send(QUEUE, first, first_body)
        async with _agent(archive, tmp_path, port, token):
            # A plan that is marked and has no process yet would be reported as interrupted.
            await eventually(started.exists)
    gate.touch()
    await mailboxes.send(QUEUE, second, second_body)
    async with _served(mailboxes, port), _agent(archive, tmp_path, port, token):
        for name, value in ((first, 1), (second, 2)):
            result = await mailboxes.wait_result(name, 60)
            assert result is not None
            assert json.loads(result)["Body"] == value
    assert await mailboxes.dead_letters(QUEUE) == []
