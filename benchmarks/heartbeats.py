"""Heartbeats of 10,000 nodes at the 5 s cadence over real HTTP, and how many more there could be.

The service runs in a process of its own. Paced: 2,000 requests a second on 1,000 kept connections, each
node with its own key; the answers' time is from the moment a request was due, so a service that falls
behind shows it. Ceiling: the same requests as fast as they are answered; what counts is the service's
processor time for each.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
import uuid
from pathlib import Path

from compute_server import cpu_seconds, served
from limits import Published

PUBLISHED = Published()
NODES = 10_000
CONNECTIONS = 1000
RATE = 2000.0
SECONDS = 15.0
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


async def paced(connections: list[Connection], requests: list[bytes]) -> list[list[float]]:
    """By each second of the run: how long from when a request was due to its answer, sorted."""
    loop = asyncio.get_running_loop()
    took: list[list[float]] = [[] for _ in range(round(SECONDS))]
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
            took[int(due - began)].append(loop.time() - due)
            turn += 1
            due += period

    await asyncio.gather(*(lane(number) for number in range(CONNECTIONS)))
    return [sorted(second) for second in took]


async def flat_out(connections: list[Connection], requests: list[bytes]) -> None:
    """Every request as soon as its connection is free; 32 connections."""
    left = iter(range(CEILING_REQUESTS))

    async def lane(connection: Connection) -> None:
        for number in left:
            await connection.send(requests[number % NODES])

    await asyncio.gather(*(lane(one) for one in connections[:32]))


async def measure(pid: int, port: int) -> int:
    """Print the figures; 1 when an answer was wrong."""
    loop = asyncio.get_running_loop()
    requests = requests_of(port)
    connections: list[Connection] = []
    for _ in range(CONNECTIONS):
        _, made = await loop.create_connection(Connection, "127.0.0.1", port)
        connections.append(made)
    # The first beat of each node is news and is written; the figures are of those that are not.
    await flat_out(connections, requests)
    await asyncio.sleep(1.0)
    before, written, began = cpu_seconds(pid), writes(pid), time.perf_counter()
    took = await paced(connections, requests)
    wall, used = time.perf_counter() - began, cpu_seconds(pid) - before
    written = writes(pid) - written
    p50 = statistics.median(second[len(second) // 2] for second in took) * 1000
    p99 = sorted(second[int(len(second) * 0.99)] * 1000 for second in took)
    rate = sum(map(len, took)) / SECONDS
    print(
        f"paced    {rate:8.0f} requests/s of {NODES} nodes, load of the machine {os.getloadavg()[0]:.1f}"
    )
    print(
        f"         p50 {p50:.1f} ms   p99 {statistics.median(p99):.1f} ms in the median second,"
        f" {p99[-1]:.1f} ms in the worst (limit {LIMIT_P99_MS:g})"
        f"{PUBLISHED.most('p99 of heartbeats, ms', statistics.median(p99), LIMIT_P99_MS)}"
    )
    print(
        f"         service: {used / wall:.0%} of one core, {written / 1024:.0f} KiB written to disk"
    )
    best = 0.0
    for _ in range(3):
        before = cpu_seconds(pid)
        await flat_out(connections, requests)
        best = max(best, CEILING_REQUESTS / (cpu_seconds(pid) - before))
    print(f"ceiling  {best:8.0f} requests for a second of processor time (best of 3)")
    wrong = sum(one.failed for one in connections)
    if wrong:
        print(f"{wrong} ANSWERS WERE NOT 204")
    return PUBLISHED.exit_code(wrong=wrong > 0)


def main() -> int:
    """Start the service, measure, stop it."""
    with served() as (pid, port):
        return asyncio.run(measure(pid, port))


if __name__ == "__main__":
    sys.exit(main())
