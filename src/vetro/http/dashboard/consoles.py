"""Terminals, consoles and screens of machines in a browser: web sockets, bound to streams of nodes.

``/dashboard/api/streams/KIND/SERVER/VM``. A ``terminal`` is a shell inside the machine, a ``console``
its serial line, a ``screen`` its VNC. The compute service is asked for the stream with the session's
token, so who may have it is its decision; then bytes are passed on between browser and node.

Binary messages are bytes: what is typed and what is shown, or VNC both ways. Text messages are JSON:
from the browser ``{"type": "resize", "columns": n, "rows": n}``; to it ``{"type": "open",
"interactive": whether what is typed reaches the machine}``, at last ``{"type": "end", "code": n}`` or
``{"type": "error", "message": text}``.
"""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import msgspec
import structlog
from litestar.types import Receive, Scope, Send

from vetro.http.dashboard.forwarding import Answered, ask
from vetro.http.dashboard.sessions import Session
from vetro.http.face import Face
from vetro.json_texts import NotJson, decode_json

log = structlog.get_logger(__name__)

_PATH = re.compile(r"/api/streams/(terminal|console|screen)/([\w.-]{1,64})/([\w.-]{1,64})")
_CONNECT_SECONDS = 10.0
_CHUNK = 65536
# A line of a node is the base64 of at most 64 KiB.
_LINE = 1 << 20
#: A login shell: bash where there is one.
_SHELL = "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l"
_COMMANDS: dict[str, dict[str, object]] = {
    "terminal": {
        "Cmd": ["/bin/sh", "-c", _SHELL],
        "Tty": True,
        "Env": ["TERM=xterm-256color"],
        "ConsoleSize": [24, 80],
    },
    "console": {"AttachConsole": True},
}
# Close codes: done; the service stops; something failed; the session is over (a code for applications).
DONE, STOPPING, FAILED, SESSION_OVER = 1000, 1012, 1011, 4401


class _Resize(msgspec.Struct, tag_field="type", tag="resize"):
    columns: int
    rows: int


@dataclass(frozen=True)
class Wanted:
    """Which stream of which machine a path names."""

    kind: str
    server: str
    machine: str

    @property
    def path(self) -> str:
        """The machine at the compute face."""
        return f"/compute/servers/{self.server}/vms/{self.machine}"


class _Failed(Exception):
    """There is no stream, or its connection was lost; the text is for the user."""


def wanted_at(path: str) -> Wanted | None:
    """What a path below ``/dashboard`` asks for; ``None`` when it is not a stream."""
    found = _PATH.fullmatch(path)
    return Wanted(*found.groups()) if found else None


async def serve_stream(
    faces: Sequence[Face],
    wanted: Wanted,
    session: Session,
    closing: asyncio.Event,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Accept a web socket and bind it to the stream, until one side ends it, or the session does."""
    socket = _Socket(receive, send)
    await socket.accept()
    code = FAILED
    ending = asyncio.create_task(closing.wait())
    try:
        async with asyncio.timeout(max(0.0, session.expires - time.time())):
            where = await _where(faces, wanted, session, scope)
            async with _connected(where, wanted.kind) as (reader, writer):
                if wanted.kind == "screen":
                    work = [_copy_in(socket, writer), _copy_out(reader, socket)]
                else:
                    await socket.send_event(
                        {"type": "open", "interactive": _interactive(wanted, where)}
                    )
                    work = [_typed(socket, writer), _shown(reader, socket)]
                await _first_of(work, ending)
                code = STOPPING if ending.done() else DONE
    except _Failed as error:
        await socket.send_event({"type": "error", "message": str(error)})
    except TimeoutError:
        code = SESSION_OVER
        await socket.send_event({"type": "error", "message": "The session is over; sign in again"})
    except OSError as error:
        log.info("stream_broken", kind=wanted.kind, vm=wanted.machine, error=str(error))
        text = (
            "The node broke the stream off: its agent was stopped, or the way to it is interrupted"
        )
        await socket.send_event({"type": "error", "message": text})
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
    await socket.close(code)


class _Socket:
    """The browser's end. After it has gone, nothing is sent to it any more."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = cast("Callable[[], Awaitable[dict[str, Any]]]", receive)
        self._send = cast("Callable[[dict[str, Any]], Awaitable[None]]", send)
        self._gone = False

    async def accept(self) -> None:
        await self._receive()
        await self._send({"type": "websocket.accept"})

    async def next(self) -> bytes | str | None:
        """The next message; ``None`` when the browser has closed."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._gone = True
            return None
        given: bytes | None = message.get("bytes")
        return given if given is not None else str(message.get("text"))

    async def show(self, data: bytes) -> None:
        await self._give({"type": "websocket.send", "bytes": data})

    async def send_event(self, said: dict[str, Any]) -> None:
        text = msgspec.json.encode(said).decode()
        await self._give({"type": "websocket.send", "text": text})

    async def close(self, code: int) -> None:
        await self._give({"type": "websocket.close", "code": code})

    async def _give(self, message: dict[str, object]) -> None:
        if self._gone:
            return
        try:
            await self._send(message)
        except OSError:
            # uvicorn's error for a client that has disconnected is one.
            self._gone = True


async def _where(
    faces: Sequence[Face], wanted: Wanted, session: Session, scope: Scope
) -> dict[str, object]:
    """Where a node serves the stream. Errors: ``_Failed`` with the compute service's reason."""
    asked = {**cast("dict[str, object]", scope), "scheme": "http"}
    headers = {"X-Auth-Token": session.token}
    if wanted.kind == "screen":
        answer = await ask(faces, asked, "GET", f"{wanted.path}/vnc", headers=headers)
    else:
        command = {"command": _COMMANDS[wanted.kind]}
        path = f"{wanted.path}/docker-exec"
        answer = await ask(faces, asked, "POST", path, headers=headers, json=command)
    if answer.status >= 400:
        raise _Failed(_reason(answer))
    where: object = answer.json()
    if not isinstance(where, dict) or not where.get("host"):  # pyright: ignore[reportUnknownMemberType]
        raise _Failed("This machine has no screen: it was made with vnc_port -1")
    return cast("dict[str, object]", where)


def _reason(answer: Answered) -> str:
    said: Any = answer.json() or {}
    message = said.get("message") or said.get("error", {}).get("message")
    return str(message or f"The compute service answered {answer.status}")


def _interactive(wanted: Wanted, where: dict[str, object]) -> bool:
    return wanted.kind == "terminal" or bool(where.get("interactive"))


@asynccontextmanager
async def _connected(
    where: dict[str, Any], kind: str
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    host, port = str(where["host"]), int(where["port"])
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, limit=_LINE)
    except (OSError, TimeoutError) as error:
        raise _Failed(
            f"The node does not answer at {host}:{port}: this service must reach its admin address"
        ) from error
    try:
        if kind != "screen":
            writer.write(f"{where['token']}\n".encode())
        yield reader, writer
        writer.close()
    finally:
        writer.transport.abort()


async def _first_of(work: Sequence[Awaitable[None]], ending: asyncio.Task[object]) -> None:
    """Run until the first of them has ended. Errors: its own."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait([*tasks, ending], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy_in(socket: _Socket, writer: asyncio.StreamWriter) -> None:
    while (given := await socket.next()) is not None:
        if isinstance(given, bytes):
            writer.write(given)
            await writer.drain()


async def _copy_out(reader: asyncio.StreamReader, socket: _Socket) -> None:
    while data := await reader.read(_CHUNK):
        await socket.show(data)


async def _typed(socket: _Socket, writer: asyncio.StreamWriter) -> None:
    while (given := await socket.next()) is not None:
        if isinstance(given, bytes):
            line: object = {"type": "stdin", "data": base64.b64encode(given).decode()}
        else:
            try:
                line = decode_json(given, _Resize)
            except NotJson as error:
                log.info("message_not_understood", error=str(error))
                continue
        writer.write(msgspec.json.encode(line) + b"\n")
        await writer.drain()


async def _shown(reader: asyncio.StreamReader, socket: _Socket) -> None:
    while line := await reader.readline():
        event = decode_json(line, dict[str, Any])
        if event.get("type") == "end":
            await socket.send_event({"type": "end", "code": event.get("code")})
            return
        await socket.show(base64.b64decode(str(event.get("data") or "")))
    raise ConnectionResetError("the node ended the stream")
