"""The AMQP door against a real RabbitMQ (guest-agent.md §2)."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import pytest
from aio_pika.exceptions import ChannelNotFoundEntity
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.messaging.guests import running_agent
from tests.waiting import eventually

from vetro.messaging import BrokerDoor, BrokerSettings, BrokerUnreachable, DuplicateMessage
from vetro.messaging.mailboxes import Mailboxes

URL = os.environ.get("VETRO_TEST_RABBITMQ_URL")
pytestmark = pytest.mark.rabbitmq


class Pipe:
    """A port in front of the broker that can break off and be closed."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Take connections (again, at the same port)."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Take no more, and break off what there is."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)  # a connection that was just accepted starts, and is closed too
        await self.cut()

    async def cut(self) -> None:
        """Break off every connection."""
        running = list(self._running)
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        ends = [writer]
        try:
            if self._server is not None:  # else it was accepted while the pipe was closed
                there_reader, there_writer = await asyncio.open_connection(*self.target)
                ends.append(there_writer)
                async with asyncio.TaskGroup() as group:
                    group.create_task(_copy(reader, there_writer))
                    group.create_task(_copy(there_reader, writer))
        except* OSError:
            pass
        finally:
            self._running.discard(task)
            for one in ends:
                one.transport.abort()
            for one in ends:
                with suppress(OSError):
                    await one.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@pytest.fixture
async def pipe() -> AsyncIterator[Pipe]:
    """A pipe to the broker."""
    if URL is None:
        pytest.skip("VETRO_TEST_RABBITMQ_URL is not set; tools/with-rabbitmq.sh sets it")
    parts = urlsplit(URL)
    made = Pipe(parts.hostname or "", parts.port or 5672)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def channel(pipe: Pipe) -> AsyncIterator[Any]:
    """The broker without the door and the pipe: as a guest and an operator see it."""
    async with await aio_pika.connect(host=pipe.target[0], port=pipe.target[1]) as connection:
        yield await connection.channel()


@pytest.fixture
async def make(pipe: Pipe, mailboxes: Mailboxes) -> AsyncIterator[Callable[..., BrokerDoor]]:
    """Makes doors, all to one result queue; they are closed at the end."""
    made: list[BrokerDoor] = []
    name = f"-execution-results-{secrets.token_hex(4)}"

    def door(boxes: Mailboxes = mailboxes, **settings: Any) -> BrokerDoor:
        given = BrokerSettings(**{"host": "127.0.0.1", "port": pipe.port, **settings})
        made.append(BrokerDoor(boxes, given, name))
        return made[-1]

    yield door
    for one in made:
        await one.forget_results()
        await one.close()


@pytest.fixture
def queue() -> str:
    """A guest's queue that no other test has."""
    return f"e{secrets.token_hex(4)}-h1"


async def answer(channel: Any, door: BrokerDoor, document: Any, message_id: str = "") -> None:
    """Publish a result as a guest does."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    message = aio_pika.Message(body, message_id=message_id or None)
    await channel.default_exchange.publish(message, routing_key=door.results)


async def test_a_plan_there_and_its_result_back(
    make: Callable[..., BrokerDoor], channel: Any, queue: str
) -> None:
    """The plan is persistent, with id, signature and reply queue; its queue is durable."""
    door = make()
    await door.declare(queue)
    await door.send(queue, "m1", b'{"ID": "m1"}', signature=b"\x00\xffsigned")
    (arrived,) = [await (await channel.get_queue(queue)).get()]
    await arrived.ack()
    assert arrived.body == b'{"ID": "m1"}'
    assert arrived.message_id == "m1"
    assert arrived.headers["signature"] == b"\x00\xffsigned"
    assert arrived.reply_to == door.results
    assert arrived.delivery_mode == aio_pika.DeliveryMode.PERSISTENT
    assert await door.last_contact(queue) is None
    await answer(channel, door, {"SourceID": "m1", "Body": 7})
    assert json.loads(await door.wait_result("m1", 60) or b"")["Body"] == 7
    assert await door.last_contact(queue) is not None


async def test_the_same_plan_is_published_once(
    make: Callable[..., BrokerDoor], channel: Any, queue: str
) -> None:
    """A repeated effect changes nothing; another plan under the same id is refused."""
    door = make()
    await door.declare(queue)
    for _ in range(3):
        await door.send(queue, "m2", b"{}")
    with pytest.raises(DuplicateMessage):
        await door.send(queue, "m2", b"[]")
    assert (await channel.declare_queue(queue, passive=True)).declaration_result.message_count == 1


async def test_a_plan_of_an_engine_that_died_is_published(
    make: Callable[..., BrokerDoor], mailboxes: Mailboxes, channel: Any, queue: str
) -> None:
    """A stored but unpublished plan is published by the engine that repeats the effect."""
    await mailboxes.declare(queue)
    await mailboxes.send(queue, "m3", b"{}", signature=b"s")
    await make().send(queue, "m3", b"{}", signature=b"s")
    assert (await (await channel.get_queue(queue)).get(no_ack=True)).message_id == "m3"
    assert not await mailboxes.is_unsent("m3")


async def test_a_result_wakes_whoever_waits_for_it(
    make: Callable[..., BrokerDoor], elsewhere: Mailboxes, channel: Any, queue: str
) -> None:
    """Either of two engines on one result queue may receive a result."""
    one, other = make(), make(elsewhere)
    await one.declare(queue)
    await other.declare(queue)
    for number in range(4):
        await one.send(queue, f"n{number}", b"{}")
    waiting = [
        asyncio.create_task((one, other)[number % 2].wait_result(f"n{number}", 60))
        for number in range(4)
    ]
    for number in (2, 0, 3, 1):
        await answer(channel, one, {"SourceID": f"n{number}", "Body": number})
    got = await asyncio.gather(*waiting)
    assert [json.loads(body or b"")["Body"] for body in got] == [0, 1, 2, 3]


async def test_a_lost_connection_is_made_again(
    make: Callable[..., BrokerDoor], pipe: Pipe, channel: Any, queue: str
) -> None:
    """A waiter gets its result although the connection was lost twice meanwhile."""
    door = make()
    await door.declare(queue)
    for number in range(3):
        await door.send(queue, f"m{number}", b"{}")
        waiting = asyncio.create_task(door.wait_result(f"m{number}", 60))
        await pipe.cut()
        await answer(channel, door, {"SourceID": f"m{number}"})
        assert json.loads(await waiting or b"") == {"SourceID": f"m{number}"}
    assert pipe.connections >= 3


async def test_a_broker_that_comes_back_is_waited_for(
    make: Callable[..., BrokerDoor], pipe: Pipe, channel: Any, queue: str
) -> None:
    """Sending does not fail while the broker is unreachable for a short time."""
    door = make()
    await door.declare(queue)
    await pipe.close()
    sending = asyncio.create_task(door.send(queue, "m4", b"{}"))
    await eventually(lambda: door.mailboxes.is_unsent("m4"))
    await pipe.open()
    await sending
    assert (await (await channel.get_queue(queue)).get(no_ack=True)).message_id == "m4"


async def _true(value: Any) -> bool:
    return bool(await value)


async def test_a_broker_that_is_not_there_is_named(
    make: Callable[..., BrokerDoor], pipe: Pipe, mailboxes: Mailboxes, queue: str
) -> None:
    """The error names the broker, the cause and the settings, without the password."""
    await pipe.close()
    door = make(patience=0.5, password="geheim")
    await mailboxes.declare(queue)
    with pytest.raises(BrokerUnreachable) as caught:
        await door.send(queue, "m5", b"{}")
    assert f"amqp://guest@127.0.0.1:{pipe.port}/" in str(caught.value)
    assert "agentRabbitMq" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert await mailboxes.is_unsent("m5")
    await door.delete(queue)  # a broker that is away does not hold a removal up
    assert await mailboxes.last_contact(queue) is None


async def test_a_refused_login_is_said(make: Callable[..., BrokerDoor], queue: str) -> None:
    """The error has the broker's words."""
    door = make(password="wrong")
    with pytest.raises(BrokerUnreachable, match="ACCESS_REFUSED"):
        await door.declare(queue)


async def test_results_that_nobody_can_use(
    make: Callable[..., BrokerDoor], mailboxes: Mailboxes, channel: Any, queue: str
) -> None:
    """They are kept with the reason, under the guest if it is known; later results arrive."""
    door = make()
    await door.declare(queue)
    for id_ in ("late", "big", "good"):
        await door.send(queue, id_, b"{}")
    await door.discard("late")
    await answer(channel, door, b"no JSON", message_id="odd")
    await answer(channel, door, {"SourceID": "nobody's"})
    await answer(channel, door, {"SourceID": "late"})
    await answer(channel, door, {"SourceID": "big", "Body": "x" * 20_000})
    await answer(channel, door, {"Result": [], "IsException": False}, message_id="good")
    assert json.loads(await door.wait_result("good", 60) or b"")["Result"] == []
    foreign = {(one.message_id, one.reason) for one in await mailboxes.dead_letters(door.results)}
    assert foreign == {("odd", "malformed"), ("nobody's", "unknown")}
    own = {(one.message_id, one.reason) for one in await mailboxes.dead_letters(queue)}
    assert own == {("late", "late"), ("big", "too large")}


async def test_queues_that_exist_otherwise_will_do(
    make: Callable[..., BrokerDoor], channel: Any, queue: str
) -> None:
    """Existing queues of an earlier release or an operator are used with other arguments."""
    door = make()
    await channel.declare_queue(queue, durable=True, arguments={"x-expires": 1_000_000})
    await channel.declare_queue(door.results, durable=True)
    await door.declare(queue)
    await door.send(queue, "m6", b"{}")
    await answer(channel, door, {"SourceID": "m6"})
    assert await door.wait_result("m6", 60)


async def test_what_is_removed_is_gone(
    make: Callable[..., BrokerDoor], pipe: Pipe, queue: str
) -> None:
    """A guest's queue with its plans and the region's result queue are removed."""
    door = make()
    await door.declare(queue)
    await door.send(queue, "m7", b"{}")
    await door.delete(queue)
    await door.forget_results()
    async with await aio_pika.connect(host=pipe.target[0], port=pipe.target[1]) as connection:
        for name in (queue, door.results):
            with pytest.raises(ChannelNotFoundEntity):
                await (await connection.channel()).declare_queue(name, passive=True)


async def test_a_queue_that_expired_is_declared_again(
    make: Callable[..., BrokerDoor], channel: Any, queue: str
) -> None:
    """The next plan declares the expired queue of a guest that was off for long."""
    door = make()
    await door.declare(queue)
    await channel.queue_delete(queue)
    await door.send(queue, "m8", b"{}")
    assert (await (await channel.get_queue(queue)).get(no_ack=True)).message_id == "m8"


async def test_the_real_guest_agent(
    make: Callable[..., BrokerDoor], pipe: Pipe, tmp_path: Path, queue: str
) -> None:
    """Signed plans run in order and return results, also when the engine's connection is lost."""
    door = make()
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.PKCS1
    )
    await door.declare(queue)
    text = public.decode().strip().replace("\n", "\n\t")
    async with running_agent(tmp_path, queue, door, text):
        for number in range(3):
            plan = {
                "FormatVersion": "2.0.0", "ID": f"p{number}", "Stamp": number + 1,
                "Body": f"return [{number}, 'é']", "Files": {}, "Scripts": {},
            }  # fmt: skip
            body = json.dumps(plan).encode()
            signature = key.sign(queue.encode() + body, padding.PKCS1v15(), hashes.SHA256())
            await door.send(queue, f"p{number}", body, signature=signature)
            if number == 1:
                await pipe.cut()
            result = json.loads(await door.wait_result(f"p{number}", 120) or b"{}")
            assert result["Body"] == [number, "é"]


def test_tls_settings(tmp_path: Path) -> None:
    """The certificate is checked unless disabled; the error names an unusable file."""
    plain = BrokerSettings(host="b")
    assert plain.tls() is None
    checked = replace(plain, ssl=True).tls()
    assert checked is not None
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    careless = replace(plain, ssl=True, insecure=True).tls()
    assert careless is not None
    assert careless.verify_mode == ssl.CERT_NONE
    newest = replace(plain, ssl=True, ssl_version="PROTOCOL_TLSv1_3").tls()
    assert newest is not None
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ValueError, match="SSLv3"):
        replace(plain, ssl=True, ssl_version="SSLv3").tls()
    with pytest.raises(ValueError, match="no file"):
        replace(plain, ssl=True, ca_certs=str(tmp_path / "none")).tls()


def test_queue_arguments() -> None:
    """Unused queues expire; replicated queues are an option."""
    settings = BrokerSettings(host="b")
    assert settings.queue_arguments() == {"x-expires": 86_400_000}
    other = replace(settings, queue_expires=0, quorum_queues=True)
    assert other.queue_arguments() == {"x-queue-type": "quorum"}


async def test_a_plan_expires_with_its_call(
    make: Callable[..., BrokerDoor], channel: Any, queue: str
) -> None:
    """The broker drops a plan whose call has expired; a plan without a call stays."""
    door = make()
    await door.declare(queue)
    await door.send(queue, "short", b"{}", lifetime=0.01)
    await door.send(queue, "for-ever", b"{}")
    messages = await channel.get_queue(queue)

    async def next_one() -> Any:
        return await messages.get(no_ack=True, fail=False)

    first = await eventually(next_one)
    if first.message_id == "short":  # fetched within its time
        assert first.expiration == 0.01
        first = await eventually(next_one)
    assert first.message_id == "for-ever"
    assert first.expiration is None
    assert first.headers["result-limit"] == 10_000
    assert (await door.progress("for-ever")).place == "broker"


async def test_the_real_guest_agent_and_large_results(
    make: Callable[..., BrokerDoor], tmp_path: Path, queue: str
) -> None:
    """Outputs are cut to the limit; other data that is too large is an error at once."""
    door = make()
    await door.declare(queue)
    script = "#!/bin/sh\nyes | head -c 100000\necho the end\nexit 3\n"
    files = {"file": {"Name": "f.sh", "BodyType": "Text", "Body": script}}
    scripts = {"f": {"Type": "Application", "EntryPoint": "file"}}
    async with running_agent(tmp_path, queue, door):
        for name, body in (("cut", "return f()"), ("data", "return 'x' * 20000")):
            plan = {
                "FormatVersion": "2.0.0", "ID": name, "Body": body, "Files": files,
                "Scripts": scripts,
            }  # fmt: skip
            await door.send(queue, name, json.dumps(plan).encode(), lifetime=600)
        cut = json.loads(await door.wait_result("cut", 120) or b"{}")
        assert cut["ErrorCode"] == 100
        assert cut["Body"]["AdditionalInfo"]["exitCode"] == 3
        assert cut["Body"]["AdditionalInfo"]["stdout"].endswith("the end")
        data = json.loads(await door.wait_result("data", 120) or b"{}")
        assert (data["ErrorCode"], "limit of 10000" in data["Body"]["Message"]) == (1, True)
