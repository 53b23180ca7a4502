"""The agent over AMQP, against a small broker built on an independent AMQP library."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import ssl
import sys
from asyncio.subprocess import Process
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pamqp import base, body, commands, frame, header, heartbeat
from tests.waiting import eventually

QUEUE, RESULTS = "e1-h2", "-execution-results-env"


@dataclass
class Broker:
    """Queues in memory; one connection handler per client."""

    queues: dict[str, deque[tuple[bytes, Any]]] = field(default_factory=dict)
    results: asyncio.Queue[tuple[dict[str, Any], Any]] = field(default_factory=asyncio.Queue)
    acknowledged: list[int] = field(default_factory=list)
    connections: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    heartbeat: int = 60
    login: bytes = b"\x00vetro\x00secret"
    drop_before_ack: bool = False
    errors: list[str] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    beats: int = 0
    silent: bool = False
    """Sends no heartbeats, and nothing else that is not called for."""
    at_once: bool = False
    """Sends the first plan in one piece with the answer to the consumer."""

    async def offer(self, document: dict[str, Any], **properties: Any) -> None:
        async with self.changed:
            given = {"message_id": document["ID"], **properties}
            self.queues[QUEUE].append(
                (json.dumps(document).encode(), commands.Basic.Properties(**given))
            )
            self.changed.notify_all()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        client = _Client(self, reader, writer)
        try:
            await client.serve()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            client.close()


class _Client:
    def __init__(
        self, broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.broker = broker
        self.reader = reader
        self.writer = writer
        self.unacknowledged: dict[int, tuple[bytes, Any]] = {}
        self.delivering: asyncio.Task[None] | None = None
        self.published = 0
        self.incoming: tuple[Any, Any, bytearray] | None = None

    def send(self, value: base.Frame | Any, channel: int = 1) -> None:
        self.writer.write(frame.marshal(value, channel))

    async def next_frame(self) -> tuple[int, Any]:
        head = await self.reader.readexactly(7)
        size = int.from_bytes(head[3:7], "big")
        rest = await self.reader.readexactly(size + 1)
        _, channel, value = frame.unmarshal(head + rest)
        return channel, value

    async def serve(self) -> None:
        assert await self.reader.readexactly(8) == b"AMQP\x00\x00\x09\x01"
        self.send(
            commands.Connection.Start(
                server_properties={
                    "product": "test",
                    "capabilities": {"basic.nack": True},
                    "numbers": [1, -2, 3.5, None, datetime.datetime.now(datetime.UTC)],
                }
            ),
            0,
        )
        _, start_ok = await self.next_frame()
        assert start_ok.mechanism == "PLAIN"
        if start_ok.response.encode() != self.broker.login:
            self.send(commands.Connection.Close(403, "ACCESS_REFUSED", 10, 11), 0)
            await self.writer.drain()
            return
        self.send(commands.Connection.Tune(2047, 4096, self.broker.heartbeat), 0)
        while True:
            channel, value = await self.next_frame()
            if isinstance(value, heartbeat.Heartbeat):
                self.broker.beats += 1
                if self.broker.silent:
                    continue
                self.writer.write(frame.marshal(heartbeat.Heartbeat(), 0))
                continue
            if not await self.step(channel, value):
                return
            await self.writer.drain()

    async def step(self, channel: int, value: Any) -> bool:
        if isinstance(value, commands.Connection.Open):
            assert value.virtual_host == "/"
            self.send(commands.Connection.OpenOk(), 0)
        elif isinstance(value, commands.Channel.Open):
            self.send(commands.Channel.OpenOk())
        elif isinstance(value, commands.Confirm.Select):
            self.send(commands.Confirm.SelectOk())
        elif isinstance(value, commands.Basic.Qos):
            assert value.prefetch_count == 1
            self.send(commands.Basic.QosOk())
        elif isinstance(value, commands.Basic.Consume):
            if value.queue not in self.broker.queues:
                text = f"NOT_FOUND - no queue '{value.queue}'"
                self.send(commands.Channel.Close(404, text, 60, 20))
                return True
            if self.broker.at_once:
                data, properties = self.broker.queues[value.queue].popleft()
                self.unacknowledged[1] = (data, properties)
                pieces = (
                    commands.Basic.ConsumeOk("tag"),
                    commands.Basic.Deliver("tag", 1, False, "", value.queue),
                    header.ContentHeader(0, len(data), properties),
                    body.ContentBody(data),
                )
                self.writer.write(b"".join(frame.marshal(one, 1) for one in pieces))
                return True
            self.send(commands.Basic.ConsumeOk("tag"))
            self.delivering = asyncio.create_task(self.deliver(value.queue))
        elif isinstance(value, commands.Basic.Ack):
            if self.broker.drop_before_ack:
                self.broker.drop_before_ack = False
                return False
            async with self.broker.changed:
                self.unacknowledged.pop(value.delivery_tag)
                self.broker.acknowledged.append(value.delivery_tag)
                self.broker.changed.notify_all()
        elif isinstance(value, commands.Basic.Publish):
            assert value.mandatory
            self.incoming = (value, None, bytearray())
        elif isinstance(value, header.ContentHeader):
            assert self.incoming is not None
            self.incoming = (self.incoming[0], value, bytearray())
            await self.complete()
        elif isinstance(value, body.ContentBody):
            assert self.incoming is not None
            self.incoming[2].extend(value.value)
            await self.complete()
        return True

    async def complete(self) -> None:
        assert self.incoming is not None
        publish, head, data = self.incoming
        if len(data) < head.body_size:
            return
        self.incoming = None
        self.published += 1
        if publish.routing_key not in self.broker.queues:
            self.send(commands.Basic.Return(312, "NO_ROUTE", "", publish.routing_key))
            self.send(header.ContentHeader(0, len(data), head.properties))
            self.send(body.ContentBody(bytes(data)))
        else:
            await self.broker.results.put((json.loads(data), head.properties))
        self.send(commands.Basic.Ack(self.published))

    async def deliver(self, queue: str) -> None:
        tag = 0
        while True:
            async with self.broker.changed:
                await self.broker.changed.wait_for(
                    lambda: self.broker.queues[queue] and not self.unacknowledged
                )
                message = self.broker.queues[queue].popleft()
                tag += 1
                self.unacknowledged[tag] = message
            data, properties = message
            again = properties.message_id in self.broker.returned
            self.send(commands.Basic.Deliver("tag", tag, again, "", queue))
            self.send(header.ContentHeader(0, len(data), properties))
            for at in range(0, len(data), 50):
                self.send(body.ContentBody(data[at : at + 50]))
            await self.writer.drain()

    def close(self) -> None:
        if self.delivering is not None:
            self.delivering.cancel()
            self.broker.tasks.add(self.delivering)
        for message in reversed(self.unacknowledged.values()):
            self.broker.returned.add(message[1].message_id)
            self.broker.queues[QUEUE].appendleft(message)
        self.writer.close()


@pytest.fixture
async def broker() -> Broker:
    """A broker with the guest's and the result queue."""
    made = Broker()
    made.queues = defaultdict(deque) | {QUEUE: deque(), RESULTS: deque()}
    made.queues = dict(made.queues)
    return made


@asynccontextmanager
async def _listening(broker: Broker, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    server = await asyncio.start_server(broker.handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*broker.tasks, return_exceptions=True)


@asynccontextmanager
async def _agent(
    archive: Path, folder: Path, port: int, extra: str = "", more: str = ""
) -> AsyncIterator[Process]:
    config = folder / "agent.conf"
    config.write_text(
        f"[DEFAULT]\nstorage = {folder}/storage\n{more}\n[rabbitmq]\nhost = 127.0.0.1\n"
        f"port = {port}\nlogin = vetro\npassword = 'secret'\ninput_queue = {QUEUE}\n"
        f"result_routing_key = {RESULTS}\n{extra}\n"
    )
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(archive), "--config-file", str(config), stderr=log, stdout=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_plans_and_results_over_a_broker(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """Delivered in small frames, acknowledged, run; results are persistent, confirmed JSON."""
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port):
        for number in range(3):
            await broker.offer(make_plan(f"return [{number}, 'x' * 9000]"))
        for number in range(3):
            async with asyncio.timeout(240):
                result, properties = await broker.results.get()
            assert result["Body"] == [number, "x" * 9000]
            assert properties.message_id == result["SourceID"]
            assert properties.delivery_mode == 2
            assert properties.content_type == "application/json"
        await eventually(lambda: broker.acknowledged == [1, 2, 3])


async def test_a_plan_that_comes_with_the_answer_is_seen(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """A plan that arrives in one piece with an answer is handled at once."""
    broker.silent = broker.at_once = True
    await broker.offer(make_plan("return 1"))
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port):
        async with asyncio.timeout(240):
            assert (await broker.results.get())[0]["Body"] == 1
    assert broker.connections == 1


async def test_the_signature_header_is_checked(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any, signer: Any
) -> None:
    """The raw signature in the header is verified."""
    async with (
        _listening(broker) as port,
        _agent(guest_archive, tmp_path, port, more=signer.option()),
    ):
        await broker.offer(make_plan("return 'unsigned'"))
        plan = make_plan("return 'signed'")
        signature = signer.sign(QUEUE, json.dumps(plan).encode())
        await broker.offer(plan, headers={"signature": bytearray(signature)})
        async with asyncio.timeout(240):
            result, _ = await broker.results.get()
        assert result["Body"] == "signed"


async def test_a_lost_acknowledgement_does_not_run_a_plan_twice(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """The broker delivers again after a lost connection; the agent recognises the plan."""
    broker.drop_before_ack = True
    trace = tmp_path / "trace"
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port):
        await broker.offer(make_plan(f"open({str(trace)!r}, 'a').write('run ')\nreturn 1"))
        async with asyncio.timeout(240):
            await broker.results.get()
        await eventually(lambda: broker.acknowledged)
        await broker.offer(make_plan("return 2"))
        async with asyncio.timeout(240):
            assert (await broker.results.get())[0]["Body"] == 2
    assert trace.read_text() == "run "
    assert broker.connections == 2


async def test_the_agent_waits_for_its_queues(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """An undeclared queue is tried again; a result without a queue is kept."""
    del broker.queues[QUEUE], broker.queues[RESULTS]
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port):
        await eventually(lambda: "NOT_FOUND" in (tmp_path / "agent.log").read_text())
        broker.queues[QUEUE] = deque()
        await broker.offer(make_plan("return 1"))
        await eventually(lambda: "no queue takes results" in (tmp_path / "agent.log").read_text())
        broker.queues[RESULTS] = deque()
        async with asyncio.timeout(240):
            assert (await broker.results.get())[0]["Body"] == 1


async def test_a_wrong_password_is_said(
    broker: Broker, guest_archive: Path, tmp_path: Path
) -> None:
    """The log has the refusal in the broker's words; the agent keeps trying."""
    broker.login = b"\x00other\x00login"
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port) as process:
        await eventually(lambda: "ACCESS_REFUSED" in (tmp_path / "agent.log").read_text())
        assert process.returncode is None


async def test_replies_may_go_where_the_plan_says(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """With dynamic result queues the reply_to property routes the result."""
    del broker.queues[RESULTS]
    broker.queues["elsewhere"] = deque()
    option = "enable_dynamic_result_queue = true"
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port, more=option):
        await broker.offer(make_plan("return 1"), reply_to="elsewhere")
        async with asyncio.timeout(240):
            result, _ = await broker.results.get()
        assert "ReplyTo" not in result


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "ca.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, private


@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_is_verified(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any, trusted: bool
) -> None:
    """The right CA is accepted; with another one the agent does not send its password."""
    pem, private = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    extra = "ssl = true\n" + (f"ca_certs = '{pem}'" if trusted else "")
    async with (
        _listening(broker, context) as port,
        _agent(guest_archive, tmp_path, port, extra=extra),
    ):
        await broker.offer(make_plan("return 'over TLS'"))
        if trusted:
            async with asyncio.timeout(240):
                assert (await broker.results.get())[0]["Body"] == "over TLS"
        else:
            await eventually(
                lambda: "CERTIFICATE_VERIFY_FAILED" in (tmp_path / "agent.log").read_text()
            )
            assert broker.results.empty()


async def test_heartbeats_keep_an_idle_connection(
    broker: Broker, guest_archive: Path, tmp_path: Path, make_plan: Any
) -> None:
    """A broker that wants a heartbeat each second gets one, and the connection stays."""
    broker.heartbeat = 1
    async with _listening(broker) as port, _agent(guest_archive, tmp_path, port):
        await eventually(lambda: broker.beats >= 3)
        await broker.offer(make_plan("return 1"))
        async with asyncio.timeout(240):
            await broker.results.get()
    assert broker.connections == 1


def test_missing_options_are_named(guest_archive: Path, tmp_path: Path) -> None:
    """Without a mailbox URL and a queue the agent names the missing options."""
    import subprocess

    config = tmp_path / "agent.conf"
    config.write_text(f"[DEFAULT]\nstorage = {tmp_path}/s\n[rabbitmq]\nhost = h\n")
    done = subprocess.run(
        [sys.executable, str(guest_archive), "--config-file", str(config)],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"input_queue is missing" in done.stderr
