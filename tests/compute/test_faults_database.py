"""A PostgreSQL server that is gone for a while, seen through a line that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from sqlalchemy import select
from tests.compute.conftest import NODE, OTHER, World
from tests.waiting import eventually

from vetro.compute.tables import servers
from vetro.storage import Database, ManualClock

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]


class Half(asyncio.Protocol):
    """One end of a connection; what it hears it tells the other end."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.transport: asyncio.Transport | None = None
        self.other: Half | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Known to the line, so that it can be cut."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.line.halves.add(self)

    def data_received(self, data: bytes) -> None:
        """Pass on, or keep until there is somebody to pass it to."""
        if self.other is None or self.other.transport is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        """The other end ends too."""
        self.line.halves.discard(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.abort()


class Entrance(Half):
    """The end of the client: connects to the real server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect, or refuse while the line is cut."""
        super().connection_made(transport)
        assert self.transport is not None
        if self.line.is_cut:
            self.transport.abort()
            return
        task = asyncio.ensure_future(self._connect())
        self.line.tasks.add(task)
        task.add_done_callback(self.line.tasks.discard)

    async def _connect(self) -> None:
        exit_ = Half(self.line)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: exit_, self.line.host, self.line.port)
        except OSError:
            assert self.transport is not None
            self.transport.abort()
            return
        exit_.other, self.other = self, exit_
        assert exit_.transport is not None
        exit_.transport.write(self.early)
        if self.line.is_cut:
            exit_.transport.abort()


class Line:
    """A way to a server that can be cut and mended."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.halves: set[Half] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_cut = False
        self.address: tuple[str, int] = ("", 0)

    async def open(self) -> asyncio.Server:
        """Listen on a port of its own."""
        server = await asyncio.get_running_loop().create_server(
            lambda: Entrance(self), "127.0.0.1", 0
        )
        self.address = server.sockets[0].getsockname()[:2]
        return server

    def cut(self) -> None:
        """End every connection and refuse new ones."""
        self.is_cut = True
        for half in list(self.halves):
            if half.transport is not None:
                half.transport.abort()

    def mend(self) -> None:
        """Let connections through again."""
        self.is_cut = False


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    """The way to the test's database."""
    parts = urlsplit(database_url)
    one = Line(str(parts.hostname), parts.port or 5432)
    server = await one.open()
    yield one
    one.cut()
    server.close()
    await server.wait_closed()
    await asyncio.gather(*one.tasks, return_exceptions=True)


def through(url: str, line: Line) -> str:
    """A database's URL by way of the line."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    return urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{line.address[1]}"))


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture
async def worlds(
    make_world: Any, line: Line, database_url: str, clock: ManualClock,
    world_on: Any, tmp_path: Path,
) -> AsyncIterator[tuple[World, World]]:  # fmt: skip
    """Two services on one database: the first beside the line, the second by way of it."""
    near = await make_world(clock=clock)
    for name in (NODE, OTHER):
        await near.server(name, **{"VM Brands": ["lx"]})
    database = await Database.open(through(database_url, line), data_dir=tmp_path, clock=clock)
    async with world_on(database, tmp_path) as far:
        yield near, far
        line.mend()
    await database.close()


async def again(world: World, method: str, path: str, body: object = None) -> Any:
    """The answer of a request that is repeated while the service says that it cannot."""

    async def accepted() -> Any:
        answer = await world.call(method, path, body)
        return answer if answer.status != 503 else None

    answer = await eventually(accepted)
    assert answer.status < 300, (answer.status, answer.text)
    return answer


async def test_ten_seconds_without_the_database_lose_no_heartbeat(
    worlds: tuple[World, World], line: Line, clock: ManualClock
) -> None:
    """Heartbeats and samples are accepted, other calls are 503, and no server becomes unknown."""
    near, far = worlds
    far.service.samples.patience_seconds = 0.01
    key = {"token": "", "headers": far.key_of(NODE)}
    assert (await far.call("POST", f"/servers/{NODE}/events/heartbeat", {}, **key)).status == 204
    line.cut()
    for _ in range(2):
        clock.advance(5)
        answer = await far.call("POST", f"/servers/{NODE}/events/heartbeat", {}, **key)
        assert answer.status == 204
        sample = {"meminfo": {"total_bytes": 77}, "vms": {}}
        answer = await far.call("POST", f"/servers/{NODE}/events/status", sample, **key)
        assert answer.status == 204
        for path in ("/servers", f"/servers/{NODE}", f"/servers/{NODE}/tickets"):
            answer = await far.call("GET", path)
            assert answer.status == 503, (path, answer.text)
        with contextlib.suppress(OSError, TimeoutError):
            await far.service.heartbeats.look()
    line.mend()
    await again(far, "GET", f"/servers/{NODE}")
    await far.service.heartbeats.look()
    await near.service.heartbeats.look()
    async with near.database.read() as tx:
        rows = await tx.execute(select(servers.c.uuid, servers.c.status))
        assert {row.uuid: row.status for row in rows}[NODE] == "running"
    await eventually(lambda: not len(far.service.samples))
    assert (await near.ok("GET", f"/servers/{NODE}"))["memory_total_bytes"] == 77


@pytest.mark.parametrize("during", [True, False])
async def test_a_turn_that_was_granted_behind_a_cut_line_is_noticed(
    worlds: tuple[World, World], line: Line, during: bool
) -> None:
    """The waiter at the disconnected service is woken afterwards, or gets an error and retries."""
    near, far = worlds
    body = {"scope": "vm", "id": "one", "expires_at": "3000"}
    first = (await near.ok("POST", f"/servers/{NODE}/tickets", body))["uuid"]
    second = (await near.ok("POST", f"/servers/{NODE}/tickets", body))["uuid"]
    wait = asyncio.create_task(far.call("GET", f"/tickets/{second}/wait"))
    assert (await far.call("GET", f"/tickets/{first}/wait")).status == 204
    line.cut()
    if during:
        await near.ok("PUT", f"/tickets/{first}/release")
    assert (await far.call("GET", f"/tickets/{first}")).status == 503
    line.mend()
    if not during:
        await again(far, "PUT", f"/tickets/{first}/release")
    async with asyncio.timeout(240):
        answer = await wait
    if answer.status == 503:
        answer = await again(far, "GET", f"/tickets/{second}/wait")
    assert answer.status == 204


async def test_a_place_is_reserved_once_though_the_line_is_cut(
    worlds: tuple[World, World], line: Line
) -> None:
    """A request that failed on the way is repeated: one reservation, at one place."""
    near, far = worlds
    for uuid_ in (NODE, OTHER):
        disk = dict.fromkeys(
            ("pool_alloc_bytes", "system_used_bytes", "installed_images_used_bytes",
             "cores_quota_used_bytes", "zone_quota_bytes", "zone_quota_used_bytes",
             "kvm_quota_bytes", "kvm_zvol_volsize_bytes"), 0,
        )  # fmt: skip
        sample = {
            "vms": {},
            "meminfo": {"total_bytes": 2**34, "availrmem_bytes": 2**34},
            "diskinfo": {**disk, "pool_size_bytes": 2**40},
        }
        key = {"token": "", "headers": near.key_of(uuid_)}
        await near.call("POST", f"/servers/{uuid_}/events/status", sample, **key)
    await eventually(lambda: not len(near.service.samples))
    vms = [str(uuid.uuid4()) for _ in range(6)]
    for number, vm_uuid in enumerate(vms):
        body = {
            "vm": {"vm_uuid": vm_uuid, "owner_uuid": NODE, "ram": 256, "brand": "lx"},
            "image": {}, "nic_tags": [], "reserve": True, "explain": False,
        }  # fmt: skip
        asked = asyncio.create_task(far.call("POST", "/allocate", body))
        if number % 2:
            # Somewhere in the middle of it, another place each time.
            for _ in range(number * 3):
                await asyncio.sleep(0)
            line.cut()
        answer = await asked
        line.mend()
        assert answer.status in (200, 503), answer.text
        made = (await again(far, "POST", "/allocate", body)).json()
        place = (await near.ok("POST", "/allocate", body))["server"]["uuid"]
        assert made["server"]["uuid"] == place
    held = [
        vm for one in (NODE, OTHER) for vm in (await near.ok("GET", f"/servers/{one}"))["vms"]
    ]  # fmt: skip
    assert sorted(held) == sorted(vms)
