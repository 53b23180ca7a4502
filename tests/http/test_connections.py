"""Slow and many clients: time limits, limits of connections, what stays for the operations pages."""

import asyncio
import contextlib
import resource
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import uvicorn
import uvicorn.server
from litestar import Request, get, put
from tests.waiting import eventually

from vetro.http import (
    ConnectionLimits,
    Unauthorized,
    assemble,
    event_stream,
    make_face,
    read_body,
    serve,
)
from vetro.http.connections import Admission, admission, raise_descriptor_limit
from vetro.http.protocol import guarded

AnyRequest = Request[Any, Any, Any]
MEBIBYTE = 2**20


@get("/quick")
async def quick() -> str:
    return "here"


@get("/events")
async def events(request: AnyRequest) -> Any:
    async def source() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    return event_stream(request, source())


@put("/body", status_code=200)
async def body(request: AnyRequest) -> int:
    return len(await read_body(request, MEBIBYTE))


@put("/refused", status_code=200)
async def refused() -> int:
    raise Unauthorized("not you")


@contextlib.asynccontextmanager
async def service(**limits: Any) -> AsyncGenerator[int, None]:
    """A service on a port of its own."""
    face = make_face(name="c", prefix="/c", handlers=[quick, events, body, refused], title="C")
    listener = socket.create_server(("127.0.0.1", 0))
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        serve(
            assemble([face]),
            [listener],
            stop,
            drain_seconds=1,
            on_ready=ready.set,
            limits=ConnectionLimits(**limits),
        )
    )
    await ready.wait()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        await task


@contextlib.asynccontextmanager
async def listening(**limits: Any) -> AsyncGenerator[tuple[socket.socket, Admission], None]:
    """A listener that is served, and the connections to it."""
    face = make_face(name="c", prefix="/c", handlers=[quick], title="C")
    listener = socket.create_server(("127.0.0.1", 0))
    values = ConnectionLimits(**limits)
    entrance = admission(values, each_address=True)
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = serve(
        assemble([face]),
        [listener],
        stop,
        drain_seconds=1,
        on_ready=ready.set,
        limits=values,
        entrance=entrance,
    )
    task = asyncio.create_task(serving)
    await ready.wait()
    try:
        yield listener, entrance
    finally:
        stop.set()
        await task


class Peer:
    """A client that says what it is told to, when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, port: int, text: str = "") -> "Peer":
        """Connect, and say this."""
        peer = cls(*await asyncio.open_connection("127.0.0.1", port))
        peer.writer.write(text.encode())
        return peer

    async def answer(self) -> tuple[int, bytes]:
        """The status and the body of an answer with a length."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        length = next(
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line[:15] == b"content-length:"
        )
        return status, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """What comes until the connection is closed."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        """Go away."""
        self.writer.close()


def asking(path: str, method: str = "GET", **headers: str) -> str:
    """A request without a body."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""])


class Wire:
    """A connection's transport and its loop's clock, both in the test's hands."""

    def __init__(self, **limits: Any) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"served"})

        self.written = b""
        self.closed = False
        self.unsent = 0
        self.timers: list[Any] = []
        self._loop = asyncio.get_running_loop()
        self.create_task, self.call_soon = self._loop.create_task, self._loop.call_soon
        values = ConnectionLimits(**limits)
        kind = guarded(admission(values, each_address=True), values)
        config = uvicorn.Config(app, log_config=None, h11_max_incomplete_event_size=65_536)
        self.protocol = kind(config, uvicorn.server.ServerState(), {}, _loop=self)  # type: ignore[arg-type]
        self.protocol.connection_made(self)  # type: ignore[arg-type]

    # The loop

    def call_later(self, seconds: float, call: Any, *given: Any) -> asyncio.TimerHandle:
        """Remember; ``pass_time`` calls."""
        timer = asyncio.TimerHandle(self._loop.time() + seconds, call, given, self._loop)
        self.timers.append((seconds, timer))
        return timer

    def pass_time(self, only: float | None = None) -> list[float]:
        """The time of everything that waits (or waits this long) comes; the spans that were waited for."""
        waiting = [pair for pair in self.timers if not pair[1].cancelled()]
        due = [pair for pair in waiting if only in (None, pair[0])]
        self.timers = [pair for pair in waiting if pair not in due]
        for _, timer in due:
            timer._run()
        return [seconds for seconds, _ in due]

    # The transport

    def get_extra_info(self, name: str) -> Any:
        """The other end."""
        return ("192.0.2.1", 1234) if name in ("peername", "sockname") else None

    def write(self, data: bytes) -> None:
        """Keep what is sent."""
        self.written += data

    def close(self) -> None:
        """The end."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether it has ended."""
        return self.closed

    def get_write_buffer_size(self) -> int:
        """What the client has not taken."""
        return self.unsent

    def pause_reading(self) -> None:
        """Nothing comes by itself here."""

    resume_reading = pause_reading

    async def settled(self) -> None:
        """Let the application run as far as it can."""
        await eventually(lambda: self.written or not self.protocol.tasks)


async def test_a_connection_that_says_nothing_is_closed() -> None:
    """The connection is closed without an answer, because there was no request."""
    wire = Wire(header_seconds=7)
    assert wire.pass_time() == [7]
    assert (wire.closed, wire.written) == (True, b"")


@pytest.mark.parametrize("pieces", [["GET /c/qu"], ["GET / HTTP/1.1\r\n", "Host: x\r\n", "X: "]])
async def test_headers_have_one_time_for_all_of_them(pieces: list[str]) -> None:
    """Headers that come too slowly get a 408, and the connection closes."""
    wire = Wire(header_seconds=7)
    for piece in pieces:
        wire.protocol.data_received(piece.encode())
    assert wire.pass_time() == [7]
    assert wire.closed
    assert wire.written.startswith(b"HTTP/1.1 408 Request Timeout")


async def test_headers_of_a_later_request_have_the_same_time() -> None:
    """Idle time between requests may be longer; a request that began must go on."""
    wire = Wire(header_seconds=7)
    wire.protocol.data_received(asking("/").encode())
    await wire.settled()
    assert b"served" in wire.written
    kept = [seconds for seconds, timer in wire.timers if not timer.cancelled()]
    assert kept == [uvicorn.Config(str).timeout_keep_alive]
    wire.protocol.data_received(b"GET /")
    assert wire.pass_time() == [7]
    assert b" 408 " in wire.written


async def test_a_body_must_go_on() -> None:
    """Enough bytes in each span are accepted; too few get a 408."""
    wire = Wire(body_seconds=9, body_bytes=1000)
    wire.protocol.data_received(asking("/", "PUT", Content_Length="90000").encode())
    for _ in range(3):
        wire.protocol.data_received(b"x" * 1000)
        await asyncio.sleep(0)
        assert wire.pass_time() == [9]
        assert not wire.closed
    wire.protocol.data_received(b"x" * 999)
    await asyncio.sleep(0)
    assert wire.pass_time() == [9]
    assert wire.closed
    assert b"less than 1000 bytes arrived in 9 seconds" in wire.written
    # The application learns that the client is gone.
    await eventually(lambda: not wire.protocol.tasks)
    assert b"served" not in wire.written


async def test_a_body_is_not_blamed_for_a_slow_service() -> None:
    """The time does not count while the service does not read."""
    wire = Wire(body_seconds=9)
    wire.protocol.data_received(asking("/", "PUT", Content_Length="900000").encode())
    wire.protocol.data_received(b"x" * 100_000)  # more than is read ahead
    wire.pass_time()
    assert wire.protocol.flow.read_paused
    wire.pass_time()
    assert not wire.closed
    for task in wire.protocol.tasks:
        task.cancel()


async def test_an_answer_that_nobody_takes_is_broken_off() -> None:
    """The connection stays as long as the client takes some of the answer; then it is aborted."""
    wire = Wire(write_seconds=5)
    wire.unsent = 1000
    wire.protocol.pause_writing()
    for left in (900, 400):
        wire.unsent = left
        assert wire.pass_time(5) == [5]
        assert not wire.closed
    assert wire.pass_time(5) == [5]
    assert wire.closed


async def test_clients_that_say_nothing_whole_make_room_for_others() -> None:
    """A thousand unfinished headers, more than descriptors, do not block other clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with service(total=20, per_address=20, header_seconds=3600) as port:
        silent: list[Peer] = []
        for number in range(120):
            silent.append(await Peer.of(port, f"GET /c/quick HTTP/1.1\r\nX-{number}: "))
            if number % 40 == 39:
                peer = await Peer.of(port, asking("/c/quick"))
                assert await peer.answer() == (200, b"here")
                peer.close()
        # The oldest had to go, the newest are still listened to.
        assert await silent[0].rest() == b""
        silent[-1].writer.write(b"1\r\nHost: x\r\n\r\n")
        assert await silent[-1].answer() == (200, b"here")
        for peer in silent:
            peer.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) >= (soft, hard)


@pytest.mark.parametrize("limits", [{"total": 4}, {"total": 100, "per_address": 4}])
async def test_when_all_are_being_served_only_the_operations_pages_answer(limits: Any) -> None:
    """Other pages get a 503 with the reason, /healthz a 200; both connections close."""
    async with service(**limits) as port:
        busy = [await Peer.of(port, asking("/c/events")) for _ in range(4)]
        for peer in busy:
            await peer.reader.readuntil(b"connected")
        for _ in range(40):  # more than the reserve has: each leaves it again
            refused = await Peer.of(port, asking("/c/quick"))
            status, text = await refused.answer()
            assert (status, b"connections" in text) == (503, True)
            assert await refused.rest() == b""
            refused.close()
        health = await Peer.of(port, asking("/healthz"))
        assert (await health.answer())[0] == 200
        health.close()
        busy.pop().close()
        while True:  # until the service has seen that one is gone
            peer = await Peer.of(port, asking("/c/quick"))
            status, _ = await peer.answer()
            peer.close()
            if status == 200:
                break
        for peer in busy:
            peer.close()


@pytest.mark.parametrize("path", ["/c/body", "/c/refused", "/c/nothing", "/healthz"])
@pytest.mark.parametrize("more", [{}, {"Connection": "close"}])
async def test_an_early_refusal_is_read_by_a_client_that_writes_first(path: str, more: Any) -> None:
    """However early a body is refused, the answer arrives before any reset."""
    size = 8 * MEBIBYTE
    async with service() as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(240)

            def write_then_read() -> bytes:
                head = asking(path, "PUT", Content_Length=str(size), **more)
                client.sendall(head.encode())
                client.sendall(bytes(size))
                return client.recv(65_536)

            answer = await asyncio.to_thread(write_then_read)
    assert int(answer.split()[1]) in (401, 404, 405, 413), answer[:200]


async def test_a_client_that_waits_to_be_asked_for_its_body_is_not_asked() -> None:
    """With ``Expect: 100-continue`` the refusal comes at once and closes the connection."""
    async with service() as port:
        head = asking("/c/refused", "PUT", Content_Length="9000000", Expect="100-continue")
        peer = await Peer.of(port, head)
        text = await peer.rest()
        peer.close()
    assert text.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in text.lower()


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["X-One: " + "a" * 16_000] * 3, 200),
        (["X-One: " + "a" * 16_400], 431),
        (["X-One: " + "a" * 16_000] * 5, 431),
    ],
)
async def test_headers_are_limited_by_line_and_together(lines: list[str], status: int) -> None:
    """A line may have 16 KiB (catalog-api.md §11); several long ones (tokens) are accepted."""
    async with service() as port:
        request = "\r\n".join(["GET /c/quick HTTP/1.1", "Host: x", *lines, "", ""])
        peer = await Peer.of(port, request)
        head = await peer.reader.readline()
        peer.close()
    assert int(head.split()[1]) == status


async def test_a_target_is_limited_as_a_line_is() -> None:
    """A target beyond 16 KiB gets a 414."""
    async with service() as port:
        peer = await Peer.of(port, asking("/c/quick?" + "a" * 16_400))
        assert (await peer.answer())[0] == 414
        peer.close()


def test_limits_follow_the_descriptors_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The soft limit is raised; connections leave enough descriptors for everything else."""
    set_to: list[tuple[int, int]] = []

    def known(_what: int) -> tuple[int, int]:
        return 1024, 4096

    def given(_what: int, values: tuple[int, int]) -> None:
        set_to.append(values)

    monkeypatch.setattr(resource, "getrlimit", known)
    monkeypatch.setattr(resource, "setrlimit", given)
    assert raise_descriptor_limit() == 4096
    assert set_to == [(4096, 4096)]
    small: Admission = admission(ConnectionLimits(), each_address=True)
    assert small.total + small.reserve <= 1024 - 256
    assert small.per_address == small.total // 2
    behind_proxy = admission(ConnectionLimits(), each_address=False)
    assert behind_proxy.per_address == behind_proxy.total


async def test_a_listener_has_the_backlog_that_is_set() -> None:
    """As the system tells it: so many connections may wait to be accepted."""
    async with listening(backlog=77) as (listener, _):
        told = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        # linux/tcp.h: of a listener, `tcpi_sacked` is its backlog.
        assert int.from_bytes(told[28:32], sys.byteorder) == 77


@pytest.mark.parametrize(("seconds", "asks"), [(123, (1, 123)), (0, (0, None))])
async def test_silent_clients_are_asked_whether_they_are_there(
    seconds: int, asks: tuple[int, int | None]
) -> None:
    """Each connection has the time of ``tcp_keepidle``; with 0 nobody is asked."""
    async with listening(tcp_keepidle=seconds) as (listener, entrance):
        peer = await Peer.of(listener.getsockname()[1], asking("/c/quick"))
        assert (await peer.answer())[0] == 200
        (client,) = vars(entrance)["_all"]
        connection: Any = client.transport.get_extra_info("socket")
        alive = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert (alive, idle if alive else None) == asks
        peer.close()


async def test_a_header_may_have_the_length_that_is_set() -> None:
    """A longer one is 431, a longer target 414, and the message says how long they may be."""
    async with service(max_header_line=20_000) as port:
        for path, header, status in (
            ("/c/quick", "x" * 19_990, 200),
            ("/c/quick", "x" * 20_000, 431),
            ("/c/quick?" + "x" * 20_000, "", 414),
            ("/c/quick?" + "x" * 19_900, "", 200),
        ):
            peer = await Peer.of(port, asking(path, X_Long=header))
            found, said = await peer.answer()
            assert (found, status == 200 or b"20000" in said) == (status, True)
            peer.close()
    async with service(max_header_line=30_000) as port:
        several = {f"X_{number}": "x" * 29_000 for number in range(4)}
        peer = await Peer.of(port, asking("/c/quick", **several))
        assert (await peer.answer())[0] == 200
        peer.close()
