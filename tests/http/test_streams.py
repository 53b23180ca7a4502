"""Terminals, consoles and screens over web sockets, on a real port, with streams as a node serves them."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get, post
from litestar.params import FromPath
from tests.waiting import eventually
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from vetro.http import ConnectionLimits, Forbidden, assemble, dashboard_face, make_face, serve
from vetro.http.connections import Admission, admission
from vetro.http.dashboard.sessions import Sealer, Session
from vetro.node.streams.lines import connection, data_of, message, messages, output
from vetro.node.streams.servers import Streams

AnyRequest = Request[Any, Any, Any]


async def echo(client: socket.socket) -> None:
    """A command that repeats what is typed and says each new size; 'q' ends it with 3."""
    async with connection(client) as (reader, writer):
        async for given in messages(reader):
            if given["type"] == "resize":
                writer.write(output("stdout", f"{given['columns']}x{given['rows']}".encode()))
            elif (data := data_of(given)) == b"q":
                writer.write(message("end", code=3))
                return
            else:
                writer.write(output("stdout", data))


async def picture(client: socket.socket) -> None:
    """A VNC server, as far as bytes go."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, b"RFB 003.008\n")
    assert await loop.sock_recv(client, 100) == b"\0\xff\n"
    await loop.sock_sendall(client, b"\1\n\2")


@dataclass
class Site:
    """The service on a port, its node, and a way to open sockets."""

    port: int
    entrance: Admission
    stop: asyncio.Event
    asked: list[str]
    ended: asyncio.Event

    def open(
        self, path: str, headers: dict[str, str] | None = None, seconds: float = 1e6
    ) -> connect:
        """Open a socket as a page of the dashboard does, except for ``headers``; '' leaves one out."""
        sealed = Sealer("key").seal(Session("good", time.time() + seconds))
        host = f"127.0.0.1:{self.port}"
        given = {"Origin": f"http://{host}", "Cookie": f"vetro_session={sealed}"}
        given |= headers or {}
        return connect(
            f"ws://{host}/dashboard/api/streams/{path}",
            additional_headers={name: value for name, value in given.items() if value},
            proxy=None,
        )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site, None]:
    """A dashboard whose compute service knows the machine 'vm' on the node 'n'."""
    node = Streams("127.0.0.1")
    asked: list[str] = []
    ended = asyncio.Event()

    async def command(client: socket.socket) -> None:
        try:
            await echo(client)
        finally:
            ended.set()

    @post("/servers/{server:str}/vms/{vm:str}/docker-exec", status_code=200)
    async def execute(request: AnyRequest, vm: FromPath[str]) -> dict[str, Any]:
        assert request.headers["x-auth-token"] == "good"
        asked.append(vm)
        if vm != "vm":
            raise Forbidden(f"{vm} belongs to another project")
        return {**await node.serve(command), "interactive": True}

    @get("/servers/{server:str}/vms/{vm:str}/vnc")
    async def vnc(vm: FromPath[str]) -> dict[str, Any]:
        if vm != "vm":
            return {}
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)

        async def show() -> None:
            loop = asyncio.get_running_loop()
            with listener:
                client, _ = await loop.sock_accept(listener)
                with client:
                    await picture(client)

        screens.append(asyncio.create_task(show()))
        return {"host": "127.0.0.1", "port": listener.getsockname()[1]}

    screens: list[asyncio.Task[None]] = []
    compute = make_face(name="compute", prefix="/compute", handlers=[execute, vnc], title="C")
    listener = socket.create_server(("127.0.0.1", 0))
    stop, ready = asyncio.Event(), asyncio.Event()
    limits = ConnectionLimits(header_seconds=0.2)
    entrance = admission(limits, each_address=True)
    assembly = assemble([compute, dashboard_face([compute], tmp_path, "key")])
    task = asyncio.create_task(
        serve(
            assembly, [listener], stop, drain_seconds=5, on_ready=ready.set,
            limits=limits, entrance=entrance,
        )
    )  # fmt: skip
    await ready.wait()
    try:
        yield Site(listener.getsockname()[1], entrance, stop, asked, ended)
    finally:
        stop.set()
        await task
        await node.close()
        for one in screens:
            one.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await one


async def told(line: ClientConnection) -> Any:
    """The next message, which is text."""
    given = await line.recv()
    assert isinstance(given, str)
    return json.loads(given)


@pytest.mark.parametrize("kind", ["terminal", "console"])
async def test_what_is_typed_reaches_the_machine(site: Site, kind: str) -> None:
    """Bytes go both ways as they are, sizes are passed on, and the exit code comes at the end."""
    async with site.open(f"{kind}/n/vm") as line:
        assert await told(line) == {"type": "open", "interactive": True}
        await line.send(b"\xff\x00 \xc3\xa4")
        assert await line.recv() == b"\xff\x00 \xc3\xa4"
        for nonsense in ("", "[]", '{"type": "stdin_end"}', '{"type": "resize", "rows": "x"}'):
            await line.send(nonsense)
        await line.send('{"type": "resize", "columns": 120, "rows": 40}')
        assert await line.recv() == b"120x40"
        assert len(site.entrance) == 1
        await line.send(b"q")
        assert await told(line) == {"type": "end", "code": 3}
        await line.wait_closed()
        assert line.close_code == 1000
    await eventually(lambda: len(site.entrance) == 0, "the connection is counted no more")


async def test_a_screen_is_passed_on_byte_by_byte(site: Site) -> None:
    """VNC reaches the browser and the machine as it is."""
    async with site.open("screen/n/vm") as line:
        assert await line.recv() == b"RFB 003.008\n"
        await line.send(b"\0\xff\n")
        assert await line.recv() == b"\1\n\2"
        await line.wait_closed()
        assert line.close_code == 1000


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": ""},
        {"Origin": "null"},
        {"Cookie": ""},
        {"Cookie": "vetro_session=forged"},
    ],
)
async def test_pages_of_others_get_no_socket(site: Site, headers: dict[str, str]) -> None:
    """Without our origin or without a session the socket is refused with 403, and no node is asked."""
    with pytest.raises(InvalidStatus) as refused:
        await site.open("terminal/n/vm", headers)
    assert refused.value.response.status_code == 403
    assert site.asked == []


@pytest.mark.parametrize(
    ("path", "said"),
    [("terminal/n/other", "other belongs to another project"), ("screen/n/other", "no screen")],
)
async def test_a_refused_stream_says_why(site: Site, path: str, said: str) -> None:
    """The reason of the compute service is told, and the socket closed."""
    async with site.open(path) as line:
        answer = await told(line)
        assert answer["type"] == "error"
        assert said in answer["message"]
        await line.wait_closed()
        assert line.close_code == 1011


async def test_a_stream_ends_with_its_session(site: Site) -> None:
    """A terminal is not open for longer than who opened it is signed in."""
    async with site.open("terminal/n/vm", seconds=0.5) as line:
        assert (await told(line))["type"] == "open"
        assert "sign in again" in (await told(line))["message"]
        await line.wait_closed()
        assert line.close_code == 4401


async def test_a_service_that_stops_ends_its_streams(site: Site) -> None:
    """The browser is told that the service goes away; the node's side is closed."""
    async with site.open("terminal/n/vm") as line:
        assert (await told(line))["type"] == "open"
        site.stop.set()
        await line.wait_closed()
        assert line.close_code == 1012
    await site.ended.wait()


async def test_other_paths_have_no_sockets(site: Site) -> None:
    """A request to upgrade elsewhere is answered as if it did not ask."""
    for path in ("/compute/servers/n/vms/vm/vnc", "/dashboard/api/streams/x/n/vm", "/healthz"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{site.port}{path}", proxy=None)
        assert refused.value.response.status_code in (200, 401, 404)
