"""A ticket's grant after the release of the one before, with 1,000 waiters, over real HTTP.

Every waiter has a connection with `GET /tickets/:uuid/wait` hanging. Ticket after ticket is released; what
is measured is from sending the release to the answer of the waiter whose turn it is.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from compute_server import cpu_seconds, served
from limits import Topic, repetitions

WAITERS = 1000
#: Of each repetition; together every waiter but the last has its turn.
RELEASES = 190
LIMIT_P99_MS = 10.0
NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"


class Http:
    """One connection that sends one request at a time."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> Http:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    def send(self, method: str, path: str, body: Any = None) -> None:
        """Send a request."""
        content = b"" if body is None else json.dumps(body).encode()
        self.writer.write(
            f"{method} /compute{path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: operator\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode()
            + content
        )

    async def answer(self) -> tuple[int, Any]:
        """Status and JSON of the answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = 0
        for line in head.split("\r\n"):
            if line.lower().startswith("content-length:"):
                length = int(line.split(":")[1])
        content = await self.reader.readexactly(length) if length else b""
        return int(head.split()[1]), json.loads(content) if content else None


async def measure(port: int, pid: int) -> int:
    """Measure, judge."""
    topic = Topic("tickets")
    main = await Http(port).open()
    info = {"UUID": NODE, "Hostname": "n", "Setup": True, "Admin IP": "127.0.0.1"}
    main.send("POST", f"/servers/{NODE}/sysinfo", {"sysinfo": info})
    assert (await main.answer())[0] == 200
    uuids: list[str] = []
    for _ in range(WAITERS + 1):
        body = {"scope": "vm", "id": "one", "expires_at": "3000"}
        main.send("POST", f"/servers/{NODE}/tickets", body)
        status, made = await main.answer()
        assert status == 202
        uuids.append(made["uuid"])
    waiters: list[Http] = []
    for name in uuids[1:]:
        one = await Http(port).open()
        one.send("GET", f"/tickets/{name}/wait")
        waiters.append(one)
    await asyncio.sleep(2.0)
    middle: list[float] = []
    slowest: list[float] = []
    processor: list[float] = []
    turns = iter(range(WAITERS))
    for factor in repetitions():
        took: list[float] = []
        before = cpu_seconds(pid)
        for _ in range(RELEASES):
            number = next(turns)
            granted = asyncio.ensure_future(waiters[number].answer())
            began = time.perf_counter()
            main.send("PUT", f"/tickets/{uuids[number]}/release")
            status, _ = await granted
            took.append((time.perf_counter() - began) * 1000 * factor)
            if status != 204 or (await main.answer())[0] != 204:
                topic.wrong(f"answer {status} to a waiter")
        processor.append((cpu_seconds(pid) - before) / RELEASES * 1000 * factor)
        took.sort()
        middle.append(took[len(took) // 2])
        slowest.append(took[int(len(took) * 0.99)])
    topic.take(f"grant after release, {WAITERS} waiters: p50", middle, "ms")
    topic.take("grant after release: p99", slowest, "ms", LIMIT_P99_MS, compared=False)
    topic.take("processor time of a release and its grant", processor, "ms")
    for one in [main, *waiters]:
        one.writer.close()
    return topic.end()


def main() -> int:
    """Start the service, measure, stop it."""
    with served() as (pid, port):
        return asyncio.run(measure(port, pid))


if __name__ == "__main__":
    sys.exit(main())
