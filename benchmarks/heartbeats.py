"""Heartbeats of 10,000 nodes at the 5 s cadence over real HTTP, and how many more there could be.

The service runs in a process of its own. Paced: 2,000 requests a second on 1,000 kept connections, each
node with its own key; the answers' time is from the moment a request was due, so a service that falls
behind shows it. Ceiling: the same requests as fast as they are answered; what counts is the service's
processor time for each.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

from compute_server import cpu_seconds, served
from limits import Topic, repetitions

NODES = 10_000
CONNECTIONS = 1000
RATE = 2000.0
#: Of each repetition.
SECONDS = 3.0
CEILING_REQUESTS = 20_000
LIMIT_P99_MS = 50.0
MASTER = "benchmark"


def writes(pid: int) -> int:
    """Bytes a process has written to files and sockets."""
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes"):
            return int(line.split()[1])
    return 0


class Connection(asyncio.Protocol):
    """One kept connection; one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answered: asyncio.Future[None] | None = None
        self.failed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """An answer without a body ends with its headers."""
        if not data.startswith(b"HTTP/1.1 204"):
            self.failed += 1
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(None)

    async def send(self, request: bytes) -> None:
        """Send a request and wait for its answer."""
        self.answered = asyncio.get_running_loop().create_future()
        assert self.transport is not None
        self.transport.write(request)
        await self.answered


def requests_of(port: int) -> list[bytes]:
    """A heartbeat of each node."""
    from vetro.compute.wire import node_key

    made: list[bytes] = []
    for number in range(NODES):
        name = str(uuid.UUID(int=number + (4 << 76) + (8 << 60)))
        made.append(
            (
                f"POST /compute/servers/{name}/events/heartbeat HTTP/1.1\r\n"
                f"Host: 127.0.0.1:{port}\r\nUser-Agent: cn-agent\r\n"
                f"Authorization: Bearer {node_key(MASTER, name)}\r\n"
                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
            ).encode()
        )
    return made


async def paced(connections: list[Connection], requests: list[bytes]) -> list[float]:
    """How long from when a request was due to its answer, sorted."""
    loop = asyncio.get_running_loop()
    took: list[float] = []
    began = loop.time() + 0.2

    async def lane(number: int) -> None:
        # Each connection speaks for ten nodes, in turn, as ten nodes would.
        mine = requests[number::CONNECTIONS]
        period = CONNECTIONS / RATE
        due = began + period * number / CONNECTIONS
        turn = 0
        while due < began + SECONDS:
            await asyncio.sleep(max(0.0, due - loop.time()))
            await connections[number].send(mine[turn % len(mine)])
            took.append(loop.time() - due)
            turn += 1
            due += period

    await asyncio.gather(*(lane(number) for number in range(CONNECTIONS)))
    return sorted(took)


async def flat_out(connections: list[Connection], requests: list[bytes]) -> None:
    """Every request as soon as its connection is free; 32 connections."""
    left = iter(range(CEILING_REQUESTS))

    async def lane(connection: Connection) -> None:
        for number in left:
            await connection.send(requests[number % NODES])

    await asyncio.gather(*(lane(one) for one in connections[:32]))


async def measure(pid: int, port: int) -> int:
    """Measure, judge."""
    topic = Topic("heartbeats")
    loop = asyncio.get_running_loop()
    requests = requests_of(port)
    connections: list[Connection] = []
    for _ in range(CONNECTIONS):
        _, made = await loop.create_connection(Connection, "127.0.0.1", port)
        connections.append(made)
    # The first beat of each node is news and is written; the figures are of those that are not.
    await flat_out(connections, requests)
    await asyncio.sleep(1.0)
    middle: list[float] = []
    slowest: list[float] = []
    ceiling: list[float] = []
    written = writes(pid)
    for factor in repetitions():
        took = [one * 1000 * factor for one in await paced(connections, requests)]
        middle.append(took[len(took) // 2])
        slowest.append(took[int(len(took) * 0.99)])
    written = writes(pid) - written
    for factor in repetitions():
        before = cpu_seconds(pid)
        await flat_out(connections, requests)
        ceiling.append(CEILING_REQUESTS / (cpu_seconds(pid) - before) / factor)
    topic.take(f"heartbeats of {NODES} nodes: p50", middle, "ms", compared=False)
    topic.take("heartbeats: p99", slowest, "ms", LIMIT_P99_MS, compared=False)
    topic.take("written to disk meanwhile", written / 1024, "KiB", compared=False)
    topic.take("heartbeats in a second of processor time", ceiling, "/s", at_least=True)
    if wrong := sum(one.failed for one in connections):
        topic.wrong(f"{wrong} answers were not 204")
    return topic.end()


def main() -> int:
    """Start the service, measure, stop it."""
    with served() as (pid, port):
        return asyncio.run(measure(pid, port))


if __name__ == "__main__":
    sys.exit(main())
