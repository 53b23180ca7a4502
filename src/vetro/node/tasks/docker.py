"""Streams to and from containers: commands, files, statistics, image builds.

Each task answers with the address of a temporary server (``vetro.node.streams.servers``). Commands
use lines of JSON: from the client ``{"type": "stdin", "data": base64}``, ``{"type": "stdin_end"}``,
``{"type": "resize", "columns": n, "rows": n}`` (before that the command's ``ConsoleSize`` applies);
to the client ``stdout`` and ``stderr`` likewise, and at last ``{"type": "end", "code": n}``. A
client that closes its side ends the command. A console (``AttachConsole``) uses the same lines.
Files are sent as a tar, statistics as one line of JSON per second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from vetro.node.drivers import Driver, ExecRequest, HostCommand
from vetro.node.errors import DriverError, NodeError, not_implemented, not_running
from vetro.node.guest.archive import check_directory, path_stat, receive, send
from vetro.node.processes import session
from vetro.node.streams.lines import CHUNK, connection, data_of, message, messages, output
from vetro.node.streams.serial_consoles import Consoles
from vetro.node.streams.servers import Streams
from vetro.node.tasks.builds import Builder
from vetro.node.tasks.consoles import printed, serial
from vetro.node.tasks.parameters import array, flag, invalid, text, vm_uuid
from vetro.node.vm_objects import as_object
from vetro.node.work.queues import TaskContext, TaskKind

log = structlog.get_logger(__name__)

_CONSOLE_SECONDS = 60.0


class DockerTasks:
    """Handlers over one driver. ``console_of(uuid)``: the file a VM's console is written to."""

    def __init__(
        self, driver: Driver, streams: Streams, vms: Path, builder: Builder | None
    ) -> None:
        self._driver = driver
        self._streams = streams
        self._vms = vms
        self._builder = builder
        self._consoles = Consoles()

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        queue = "docker_tasks"
        return [
            TaskKind("docker_exec", queue, self.execute, query=True, label="VM.exec"),
            TaskKind("docker_copy", queue, self.copy, query=True, label="VM.copy"),
            TaskKind("docker_stats", queue, self.stats, query=True, label="VM.stats"),
            TaskKind("docker_build", "docker_build_task", self.build, query=True, secret=True,
                     label="docker_build"),
        ]  # fmt: skip

    # Commands

    async def execute(self, context: TaskContext) -> Mapping[str, object]:
        """Run a command; ``{host, port, address, token}``, or ``{}`` when ``Detach``."""
        uuid = vm_uuid(context.params)
        command = as_object(context.params.get("command"), "command")
        if flag(command, "Logs") or flag(command, "AttachConsole"):
            follow = flag(command, "AttachConsole")
            if follow:
                await self._until_running(uuid)
            else:
                await self._driver.load(uuid)
            return await self._console(uuid, follow=follow)
        words = [str(word) for word in array(command, "Cmd")]
        if not words:
            raise invalid("command.Cmd must be an array of words")
        request = ExecRequest(
            words,
            environment=_environment(array(command, "Env")),
            user=str(command.get("User") or ""),
            directory=str(command.get("WorkingDir") or ""),
            tty=flag(command, "Tty"),
        )
        host = await self._driver.exec_command(uuid, request)
        if flag(command, "Detach"):
            # Detached: it is not awaited, and continues without the agent.
            starting = await asyncio.create_subprocess_exec(
                "setsid", "--fork", *host.argv, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=host.directory,
                env=None if host.environment is None else dict(host.environment),
            )  # fmt: skip
            await starting.wait()
            return {}
        if not request.tty:
            return await self._streams.serve(lambda client: _run_pipes(client, host))
        size = _console_size(command)
        return await self._streams.serve(lambda client: _run_terminal(client, host, size))

    async def _console(self, uuid: str, *, follow: bool) -> Mapping[str, object]:
        """Serve a console; the answer's ``interactive``: whether input reaches the machine."""
        file = self._vms / uuid / "console.log"
        line = await self._driver.console(uuid) if follow else None
        if line is not None:
            where = await self._streams.serve(
                lambda client: serial(client, self._consoles, line, file)
            )
        else:
            where = await self._streams.serve(lambda client: printed(client, file, follow=follow))
        return {**where, "interactive": line is not None}

    async def _until_running(self, uuid: str) -> None:
        """A console may be attached before its VM runs: wait for it for at most a minute."""
        changed = asyncio.Event()

        def notice(which: str) -> None:
            if which == uuid:
                changed.set()

        self._driver.watch(notice)
        try:
            async with asyncio.timeout(_CONSOLE_SECONDS):
                while (await self._driver.load(uuid)).get("state") != "running":
                    changed.clear()
                    # A guest may start without the driver.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            await changed.wait()
        except TimeoutError:
            raise not_running(uuid) from None
        finally:
            self._driver.unwatch(notice)

    # Files

    async def copy(self, context: TaskContext) -> Mapping[str, object]:
        """Read, write or describe a path; ``{host, port, address, token, containerPathStat}``.

        Reading: the client receives a tar. Writing: it sends a tar and closes its side; the answer
        is one line of JSON, ``{"type": "end", "entries": n}`` or ``{"type": "error", …}``.
        """
        payload = {**context.params, **as_object(context.params.get("payload"), "payload")}
        uuid, path, mode = vm_uuid(context.params), text(payload, "path"), text(payload, "mode")
        if mode not in ("read", "write", "stat"):
            raise invalid(f"mode must be read, write or stat, not '{mode}'")
        root = await self._driver.files(uuid)
        if mode == "write":
            await asyncio.to_thread(check_directory, root, path)
        described = await asyncio.to_thread(path_stat, root, path)
        if mode == "stat":
            return {"containerPathStat": described}
        keep = flag(payload, "no_overwrite_dir")

        def give(file: Any) -> None:
            send(root, path, file)

        async def reading(client: socket.socket) -> None:
            await asyncio.to_thread(_blocking, client, give)

        async def writing(client: socket.socket) -> None:
            answer: dict[str, object] = {}

            def store(file: Any) -> None:
                try:
                    count = receive(root, path, file, no_overwrite=keep)
                    answer.update(type="end", entries=count)
                except (DriverError, OSError) as error:
                    code = error.rest_code if isinstance(error, DriverError) else "InternalError"
                    answer.update(type="error", error=str(error), details={"restCode": code})

            await asyncio.to_thread(_blocking, client, store)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(
                client, msgspec.json.encode(answer) + b"\n"
            )

        where = await self._streams.serve(reading if mode == "read" else writing)
        return {**where, "containerPathStat": described}

    # Statistics

    async def stats(self, context: TaskContext) -> Mapping[str, object]:
        """Statistics as one line per second, or a single line with ``payload.stream`` false."""
        uuid = vm_uuid(context.params)
        payload = as_object(context.params.get("payload"), "payload")
        await self._driver.stats(uuid)
        once = payload.get("stream") in (False, "false")

        async def serve(client: socket.socket) -> None:
            loop = asyncio.get_running_loop()
            while True:
                try:
                    line = msgspec.json.encode(await self._driver.stats(uuid))
                except NodeError:
                    # It no longer runs.
                    return
                await loop.sock_sendall(client, line + b"\n")
                if once:
                    return
                await asyncio.sleep(1)

        return await self._streams.serve(serve)

    async def build(self, context: TaskContext) -> Mapping[str, object]:
        """Build an image from a context the client sends; needs buildah."""
        builder = self._builder
        if builder is None:
            raise not_implemented("docker_build", self._driver.name)
        if shutil.which("buildah") is None:
            raise not_implemented(
                "docker_build (it needs buildah, which is not installed on this node)",
                self._driver.name,
            )
        payload = as_object(context.params.get("payload"), "payload")

        async def serve(client: socket.socket) -> None:
            await builder.build(client, payload)

        return await self._streams.serve(serve)


def _environment(given: list[object]) -> dict[str, str]:
    """``["NAME=value", …]`` as an object."""
    pairs = (str(item).partition("=") for item in given)
    return {name: value for name, separator, value in pairs if separator and name}


def _console_size(command: Mapping[str, object]) -> tuple[int, int] | None:
    """``ConsoleSize``: rows and columns of the terminal when the command starts."""
    match array(command, "ConsoleSize"):
        case []:
            return None
        case [int(rows), int(columns)] if 0 <= rows < 1 << 16 and 0 <= columns < 1 << 16:
            return rows, columns
        case _:
            raise invalid("command.ConsoleSize must be [rows, columns]")


def _blocking(client: socket.socket, work: Callable[[object], None]) -> None:
    client.settimeout(600)
    with client.makefile("rwb", buffering=1 << 16) as file:
        work(file)
        with contextlib.suppress(OSError):
            file.flush()


async def _run_pipes(client: socket.socket, command: HostCommand) -> None:
    async with (
        connection(client) as (reader, writer),
        session(
            *command.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            cwd=command.directory,
            env=None if command.environment is None else dict(command.environment),
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        stdin = process.stdin

        async def forward(kind: str, stream: asyncio.StreamReader) -> None:
            while data := await stream.read(CHUNK):
                writer.write(output(kind, data))
                await writer.drain()

        async def feed() -> None:
            with contextlib.suppress(ConnectionError):
                async for given in messages(reader):
                    if given.get("type") == "stdin":
                        stdin.write(data_of(given))
                        await stdin.drain()
                    elif given.get("type") == "stdin_end":
                        stdin.close()

        await _until_end(
            process,
            writer,
            feed,
            [forward("stdout", process.stdout), forward("stderr", process.stderr)],
        )


async def _run_terminal(
    client: socket.socket, command: HostCommand, size: tuple[int, int] | None
) -> None:
    master, slave = os.openpty()
    with os.fdopen(master, "rb", 0) as terminal, os.fdopen(slave, "rb", 0) as inner:
        if size is not None:
            termios.tcsetwinsize(master, size)
        async with (
            connection(client) as (reader, writer),
            session(
                "setsid", "--ctty", "--wait", *command.argv,
                stdin=inner, stdout=inner, stderr=inner, cwd=command.directory, process_group=0,
                env=None if command.environment is None else dict(command.environment),
            ) as process,
        ):  # fmt: skip
            inner.close()
            screen = asyncio.StreamReader()
            # The transport owns the copy of the descriptor.
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(screen), os.fdopen(os.dup(master), "rb", 0)
            )

            async def forward() -> None:
                # A terminal whose last process has ended reports an error instead of end of file.
                with contextlib.suppress(OSError):
                    while data := await screen.read(CHUNK):
                        writer.write(output("stdout", data))
                        await writer.drain()

            async def feed() -> None:
                if command.relays_terminal:
                    await _until_raw(terminal.fileno())
                async for given in messages(reader):
                    if given.get("type") == "stdin":
                        await _type(terminal.fileno(), data_of(given))
                    elif given.get("type") == "resize":
                        with contextlib.suppress(DriverError):
                            size = _console_size(
                                {"ConsoleSize": [given.get("rows"), given.get("columns")]}
                            )
                            termios.tcsetwinsize(terminal.fileno(), size or (24, 80))

            try:
                await _until_end(process, writer, feed, [forward()])
            finally:
                transport.close()


async def _type(terminal: int, data: bytes) -> None:
    """Write to a terminal (its descriptor is non-blocking) as fast as the command reads."""
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(terminal, data) :]
        except BlockingIOError:
            writable = asyncio.Event()
            loop.add_writer(terminal, writable.set)
            try:
                await writable.wait()
            finally:
                loop.remove_writer(terminal)


async def _until_raw(terminal: int) -> None:
    """Wait until the relay has set the terminal to raw mode; a command may end before that.

    The relay leaves output processing on: line feeds become line ends, as the command's own
    terminal did already. It is disabled here: programs that move the cursor by line feeds would be
    garbled.
    """
    for _ in range(500):
        mode = termios.tcgetattr(terminal)
        if not mode[3] & termios.ICANON:
            mode[1] &= ~termios.OPOST
            termios.tcsetattr(terminal, termios.TCSANOW, mode)
            return
        await asyncio.sleep(0.01)


async def _until_end(
    process: asyncio.subprocess.Process, writer: asyncio.StreamWriter, feed: Any, outputs: list[Any]
) -> None:
    """Run until the command ends or the client disconnects."""
    # Ends when the client closes its side or disconnects.
    feeding = asyncio.create_task(feed())
    copying = asyncio.ensure_future(asyncio.gather(*outputs))
    waiting = asyncio.create_task(process.wait())
    try:
        done, _ = await asyncio.wait(
            {feeding, waiting, copying}, return_when=asyncio.FIRST_COMPLETED
        )
        if copying in done and copying.exception() is None:
            # All output has arrived: the command is ending.
            await asyncio.wait({feeding, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await copying
            status = waiting.result()
            writer.write(message("end", code=status if status >= 0 else 128 - status))
            await writer.drain()
    except ConnectionError:
        log.info("command_client_gone")
    finally:
        for work in (feeding, copying, waiting):
            work.cancel()
        await asyncio.gather(feeding, copying, waiting, return_exceptions=True)
