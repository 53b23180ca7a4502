"""New settings reach the agents of machines that are there: the real agent, and mailboxes in a database."""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.messaging.guests import agent_process
from tests.waiting import eventually

from vetro.engine.signing import PlanSigner
from vetro.engine.telling import Place, at_mailbox, note_made, tell
from vetro.guest.build import build_archive
from vetro.http import assemble, serve
from vetro.messaging import MIGRATIONS, Mailboxes
from vetro.storage import Database, migrate

QUEUE = "e1-h1"


@pytest.fixture
async def mailboxes(database_url: str) -> AsyncIterator[Mailboxes]:
    """Mailboxes in a database."""
    database = await Database.open(database_url)
    await migrate(database, [MIGRATIONS])
    yield Mailboxes(database)
    await database.close()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's archive."""
    return build_archive(tmp_path_factory.mktemp("dist") / "vetro-guest.pyz")


def _listener(port: int = 0) -> socket.socket:
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def _url(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@asynccontextmanager
async def _served(mailboxes: Mailboxes, *listeners: socket.socket) -> AsyncGenerator[None]:
    """The service at these doors; they are closed at the end."""
    stop, ready = asyncio.Event(), asyncio.Event()
    served = assemble([mailboxes.face()])
    serving = asyncio.create_task(
        serve(served, [*listeners], stop, drain_seconds=1, on_ready=ready.set)
    )
    await ready.wait()
    yield
    stop.set()
    await serving
    for one in listeners:
        one.close()


async def _config(
    mailboxes: Mailboxes, folder: Path, url: str, signer: PlanSigner | None = None
) -> str:
    """The configuration of a machine that is made now."""
    token = await mailboxes.issue_credential(QUEUE)
    await note_made(mailboxes, QUEUE, at_mailbox(url, signer))
    key = "" if signer is None else signer.public_key("\t").strip()
    return (
        f"[DEFAULT]\nstorage = {folder}/storage\nengine_key = {key}\n[mailbox]\n"
        f"url = {url}\ntoken = {token}\ninput_queue = {QUEUE}\n"
    )


async def _runs(
    mailboxes: Mailboxes, place: Place, number: int, signer: PlanSigner | None = None
) -> Any:
    """What a plan returns that is sent as an engine with these settings sends it."""
    await tell(mailboxes, mailboxes, signer, QUEUE, place)
    name = uuid.uuid4().hex
    plan: dict[str, Any] = {
        "FormatVersion": "2.0.0",
        "ID": name,
        "Stamp": number,
        "Body": f"return {number}",
        "Scripts": {},
        "Files": {},
    }
    body = json.dumps(plan).encode()
    signature = None if signer is None else signer.sign(QUEUE, body)
    await mailboxes.send(QUEUE, name, body, signature=signature)
    result = await mailboxes.wait_result(name, 60)
    return None if result is None else json.loads(result)["Body"]


async def test_an_agent_follows_a_service_that_moves(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path
) -> None:
    """While its former door is still open it is told of the new one, with the next plan; it stays there, also
    when it is started again with the configuration of its first start."""
    former, new = _listener(), _listener()
    places = [at_mailbox(_url(one), None) for one in (former, new)]
    config = await _config(mailboxes, tmp_path, _url(former))
    async with agent_process(archive, tmp_path, config), _served(mailboxes, former, new):
        assert await _runs(mailboxes, places[0], 1) == 1
        assert await mailboxes.doors() == {places[0].door: 1}
        assert await _runs(mailboxes, places[1], 2) == 2

        async def moved() -> bool:
            return await mailboxes.doors() == {places[1].door: 1}

        await eventually(moved)
    again = _listener(int(places[1].door.rpartition(":")[2]))
    async with _served(mailboxes, again), agent_process(archive, tmp_path, config):
        assert await _runs(mailboxes, places[1], 3) == 3


async def test_an_agent_keeps_its_door_until_the_new_one_has_answered(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path
) -> None:
    """A door where nobody answers, and one where another service does, cost no plan."""
    former, other, nobody = _listener(), _listener(), _listener()
    closed = _url(nobody)
    nobody.close()
    config = await _config(mailboxes, tmp_path, _url(former))
    foreign = await asyncio.start_server(_refuse, sock=other)
    async with foreign, _served(mailboxes, former), agent_process(archive, tmp_path, config):
        for number, url in enumerate((closed, _url(other)), 1):
            assert await _runs(mailboxes, at_mailbox(url, None), number) == number
        assert await mailboxes.doors() == {at_mailbox(_url(former), None).door: 1}


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    writer.close()


def _new_key() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


async def test_a_new_signing_key_is_told_in_the_name_of_the_former_one(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path
) -> None:
    """The file has the new key first and the former one behind it; without the former one nothing is run."""
    file = tmp_path / "keys.pem"
    first, second = _new_key(), _new_key()
    file.write_bytes(first)
    signer = PlanSigner.load_or_create(file)
    door = _listener()
    config = await _config(mailboxes, tmp_path, _url(door), signer)
    async with _served(mailboxes, door), agent_process(archive, tmp_path, config):
        assert await _runs(mailboxes, at_mailbox(_url(door), signer), 1, signer) == 1
        file.write_bytes(second + first)
        signer = PlanSigner.load_or_create(file)
        assert await _runs(mailboxes, at_mailbox(_url(door), signer), 2, signer) == 2
        file.write_bytes(second)
        signer = PlanSigner.load_or_create(file)
        assert await _runs(mailboxes, at_mailbox(_url(door), signer), 3, signer) == 3


@pytest.mark.parametrize(
    "said", [None, {}, {"mailbox": {"url": "ftp://x"}}, {"DEFAULT": {"storage": "/"}}]
)
async def test_settings_that_cannot_be_used_change_nothing(
    mailboxes: Mailboxes, archive: Path, tmp_path: Path, said: Any
) -> None:
    """Nor do those that are not about doors: the agent goes on as before."""
    door = _listener()
    config = await _config(mailboxes, tmp_path, _url(door))
    order: dict[str, Any] = {
        "ID": "order",
        "Action": "Configure",
        "Settings": said,
        "FormatVersion": "2.0.0",
        "Body": "return",
        "Scripts": {},
        "Files": {},
    }
    async with _served(mailboxes, door), agent_process(archive, tmp_path, config):
        await mailboxes.send(QUEUE, "order", json.dumps(order).encode(), order=True)
        assert await _runs(mailboxes, at_mailbox(_url(door), None), 1) == 1
    assert not (tmp_path / "storage" / "doors.json").exists()


async def test_a_guest_is_told_once_and_only_what_it_does_not_know(mailboxes: Mailboxes) -> None:
    """A machine made with the settings of today gets no order; another setting is one order; so is a machine
    of an earlier version, of which nothing is known."""
    here, there = (at_mailbox(f"http://vetro.example:{port}", None) for port in (1, 2))
    token = await mailboxes.issue_credential(QUEUE)
    guest = await mailboxes.credentials.check(token)
    assert guest is not None

    async def orders() -> list[str]:
        found: list[str] = []
        while (plan := await mailboxes.next_plan(guest, "s", 0)) is not None:
            document = json.loads(plan.body)
            assert (document["Action"], document["Settings"]["mailbox"]["token"]) == (
                "Configure",
                token,
            )
            found.append(document["Settings"]["mailbox"]["url"])
            await mailboxes.acknowledge(guest, plan.message_id)
        return found

    await note_made(mailboxes, QUEUE, here)
    await note_made(mailboxes, QUEUE, there)  # it is made already: it keeps what it has
    await tell(mailboxes, mailboxes, None, QUEUE, here)
    assert await orders() == []
    assert await mailboxes.doors() == {here.door: 1}
    for _ in range(2):
        await tell(mailboxes, mailboxes, None, QUEUE, there)
    assert await orders() == ["http://vetro.example:2"]
    await tell(mailboxes, mailboxes, None, QUEUE, here)
    assert await orders() == ["http://vetro.example:1"]
    await mailboxes.delete(QUEUE)
    await mailboxes.issue_credential(QUEUE)
    await mailboxes.note_door(
        QUEUE, here.door, known=True
    )  # heard, by a version that recorded nothing
    await note_made(mailboxes, QUEUE, here)
    assert (await mailboxes.told(QUEUE)).digest is None
    await tell(mailboxes, mailboxes, None, QUEUE, here)
    assert (await mailboxes.told(QUEUE)).digest == here.digest


async def test_a_guest_cannot_say_where_the_service_is_to_listen(mailboxes: Mailboxes) -> None:
    """It is heard under whatever name; only the door that it was told counts, and the service's own."""
    await mailboxes.issue_credential(QUEUE)
    own, told = "vetro.example:1", at_mailbox("http://vetro.example:2", None)
    await mailboxes.note_door(QUEUE, "0.0.0.0:5432")
    assert await mailboxes.doors() == {}
    assert (await mailboxes.told(QUEUE)).heard
    await mailboxes.note_door(QUEUE, own, known=True)
    await mailboxes.note_told(QUEUE, told.digest, told.door)
    await mailboxes.note_door(QUEUE, "0.0.0.0:5432")
    assert await mailboxes.doors() == {own: 1}
    await mailboxes.note_door(QUEUE, told.door)
    assert await mailboxes.doors() == {told.door: 1}
