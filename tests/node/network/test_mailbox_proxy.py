"""Guests' way to their mailboxes on a node without the service."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vetro.compute.wire import RELAY_HEADER, genuine_relay, node_key, relay_stamp
from vetro.node.network.mailbox_proxy import GuestDoor, former_ports

SERVER = "11111111-2222-4333-8444-555555555555"


@dataclass
class Upstream:
    """A service that remembers requests and answers what it is told, piece by piece."""

    url: str = ""
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[asyncio.Task[Any]] = field(default_factory=set)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request in two pieces, the second when it is allowed."""
        work = asyncio.current_task()
        assert work is not None
        self.connections.add(work)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                (int(line.split(":")[1]) for line in head.lower().splitlines()
                 if line.startswith("content-length:")), 0,
            )  # fmt: skip
            self.bodies.append(await reader.readexactly(length))
            self.heads.append(head)
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfirst ")
            await writer.drain()
            await self.more.wait()
            writer.write(b"second")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A service."""
    made = Upstream()
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/compute"
    yield made
    server.close()
    for work in made.connections:
        work.cancel()
    await asyncio.gather(*made.connections, return_exceptions=True)


@pytest.fixture
async def door(upstream: Upstream) -> AsyncIterator[GuestDoor]:
    """A door on loopback."""
    made = GuestDoor(upstream.url)
    await made.open("127.0.0.1", port=0)
    yield made
    await made.close()


async def ask(door: GuestDoor, request: bytes) -> bytes:
    """Everything a request is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.bound_port)
    try:
        writer.write(request)
        async with asyncio.timeout(240):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.transport.abort()


async def test_a_mailbox_is_reached_with_headers_and_body(
    door: GuestDoor, upstream: Upstream
) -> None:
    """The request goes on as it is, but for its connection: that ends with the answer."""
    upstream.more.set()
    answer = await ask(
        door,
        b"POST /agents/q/messages?wait=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n"
        b"Connection: keep-alive\r\nContent-Length: 4\r\n\r\nbody",
    )
    assert answer.endswith(b"\r\n\r\nfirst second")
    assert upstream.bodies == [b"body"]
    [head] = upstream.heads
    assert head.startswith("POST /agents/q/messages?wait=1 HTTP/1.1\r\n")
    assert "Authorization: Bearer t\r\n" in head
    assert "keep-alive" not in head
    assert head.endswith("Connection: close\r\n\r\n")


async def test_the_service_is_told_which_guest_asks(upstream: Upstream) -> None:
    """In a header with the node's signature; what the guest says there is not forwarded."""
    key = node_key("master", SERVER)
    relay = GuestDoor(upstream.url, stamp=functools.partial(relay_stamp, key, SERVER))
    await relay.open("127.0.0.1", port=0)
    upstream.more.set()
    forged = relay_stamp("no key", SERVER, "10.0.0.7")
    head = f"GET /agents/v1/plans HTTP/1.1\r\nHost: x\r\nX-Vetro-Relay: {forged}\r\n\r\n"
    await ask(relay, head.encode())
    await relay.close()
    said = [line for line in upstream.heads[0].splitlines() if "relay" in line.lower()]
    [(name, stamp)] = [tuple(line.split(": ", 1)) for line in said]
    assert name == RELAY_HEADER
    assert genuine_relay("master", stamp) == ("127.0.0.1", SERVER)
    assert genuine_relay("another master", stamp) is None
    assert genuine_relay("master", forged) is None
    assert genuine_relay("master", stamp.replace("127.0.0.1", "127.0.0.2")) is None
    assert genuine_relay("", stamp) is None
    # The installation's own key stands for each node's.
    assert genuine_relay("master", relay_stamp("master", SERVER, "::1")) == ("::1", SERVER)


async def test_an_answer_comes_while_it_is_made(door: GuestDoor, upstream: Upstream) -> None:
    """A guest that waits for work hears each piece at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.bound_port)
    try:
        writer.write(b"GET /agents/q HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(240):
            await reader.readuntil(b"first ")
            upstream.more.set()
            assert await reader.read() == b"second"
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/environments HTTP/1.1", b"GET /agents HTTP/1.1", b"GET / HTTP/1.1",
        b"GET /agents/../v1/environments HTTP/1.1", b"GET /agents/%2e%2e/v1 HTTP/1.1",
        b"GET http://x/agents/q HTTP/1.1", b"GET /agents/q", b"CONNECT x:1 HTTP/1.1",
    ],
)  # fmt: skip
async def test_nothing_else_is_reached(door: GuestDoor, upstream: Upstream, line: bytes) -> None:
    """An instance sees no more of the service than its mailbox."""
    assert (await ask(door, line + b"\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 404 ")
    assert upstream.heads == []


async def test_a_second_request_in_one_connection_is_not_read(
    door: GuestDoor, upstream: Upstream
) -> None:
    """What follows the first cannot pass as another, whatever it asks for."""
    upstream.more.set()
    await ask(
        door, b"GET /agents/q HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/environments HTTP/1.1\r\n\r\n"
    )
    assert [head.split()[1] for head in upstream.heads] == ["/agents/q"]


async def test_a_service_that_is_gone_is_a_bad_gateway(upstream: Upstream) -> None:
    """And a head that is too long ends the connection."""
    door = GuestDoor("http://127.0.0.1:1/compute")
    await door.open("127.0.0.1", port=0)
    try:
        assert (await ask(door, b"GET /agents/q HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502 ")
        assert await ask(door, b"GET /agents/q HTTP/1.1\r\nX: " + b"x" * 70000) == b""
    finally:
        await door.close()


async def test_an_address_in_use_is_left_to_who_has_it(door: GuestDoor, upstream: Upstream) -> None:
    """The service listens there itself; closing ends the connections."""
    second = GuestDoor(upstream.url)
    await second.open("127.0.0.1", port=door.bound_port)
    assert second.address == ""
    await second.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", door.bound_port)
    writer.write(b"GET /agents/q HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(240):
        await reader.readuntil(b"first ")
        await door.open("")
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        finally:
            writer.transport.abort()
    assert door.bound_port == 0


async def test_instances_come_to_the_port_that_they_were_given(
    door: GuestDoor, upstream: Upstream, tmp_path: Path
) -> None:
    """A node relays at the ports that the service had before, until it has no instance any more."""
    file = tmp_path / "doors.json"
    assert former_ports(file, 8082, inhabited=False) == []
    assert former_ports(file, 8090, inhabited=True) == [8082]
    assert former_ports(file, 8090, inhabited=True) == [8082]
    assert former_ports(file, 8082, inhabited=True) == [8090]
    assert former_ports(file, 8090, inhabited=False) == []
    file.write_text('"damaged"')
    assert former_ports(file, 8082, inhabited=True) == []
    former = door.bound_port
    await door.close()
    second = GuestDoor(upstream.url)
    second.former = [former]
    await second.open("127.0.0.1", port=0)
    reader, writer = await asyncio.open_connection("127.0.0.1", former)
    writer.write(b"GET /agents/q HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(240):
        assert (await reader.readuntil(b"first ")).startswith(b"HTTP/1.1 200")
    writer.transport.abort()
    await second.close()
