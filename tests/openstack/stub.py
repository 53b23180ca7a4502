"""A server that answers as a test says: what no real service can be made to do."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | None
"""Status, JSON body and headers; ``None``: nothing is ever answered."""


@dataclass
class Stub:
    """Requests by ``METHOD /path`` (without the query), and how they are answered."""

    url: str = ""
    answers: dict[str, Callable[[dict[str, str], Any], Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    query: str = ""
    """The query of the newest request."""

    def keystone(self, *services: str, **token: Any) -> None:
        """Log everybody in, with a catalog in which each of the services is this stub."""
        ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        body = {
            "expires_at": ends,
            "project": {"id": "p1", "name": "demo"},
            "user": {"id": "u1", "name": "ann", "domain": {"id": "default"}},
            "roles": [{"name": "member"}],
            "catalog": [
                {
                    "type": one,
                    "endpoints": [
                        {
                            "interface": "public",
                            "region_id": "RegionOne",
                            "url": f"{self.url}/{one}",
                        }
                    ],
                }
                for one in services
            ],
            **token,
        }
        login = (201, {"token": body}, {"X-Subject-Token": "service-token"})
        self.answers["POST /v3/auth/tokens"] = lambda headers, given: login
        self.answers["GET /v3/auth/tokens"] = lambda headers, given: (200, {"token": body})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split()
                headers: dict[str, str] = {}
                while (row := (await reader.readline()).decode().strip()) != "":
                    name, _, value = row.partition(":")
                    headers[name.lower()] = value.strip()
                given = await reader.readexactly(int(headers.get("content-length", "0")))
                path, _, self.query = target.partition("?")
                call = f"{method} {path}"
                self.asked.append(call)
                answer = self.answers.get(call, lambda *_: (404, {"error": {"message": "no"}}))
                said = answer(headers, json.loads(given) if given else None)
                if said is None:
                    await asyncio.Event().wait()
                    return
                body = b"" if said[1] is None else json.dumps(said[1]).encode()
                more = {**(said[2] if len(said) > 2 else {}), "Content-Length": str(len(body))}
                head = "".join(f"{name}: {value}\r\n" for name, value in more.items())
                writer.write(f"HTTP/1.1 {said[0]} X\r\n{head}\r\n".encode() + body)
                await writer.drain()
        except ConnectionError:
            pass  # the client has given up
        finally:
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Stub]:
    """A stub on a free port."""
    stub = Stub()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(stub.serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
