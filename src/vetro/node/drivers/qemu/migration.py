"""Moving a virtual machine from one node to another, running or stopped.

The target listens on one port with a one-time token (``receive``); the source connects as often as
needed and names the purpose of each connection in its first line:

- ``hello``: which interfaces and screen the domain will have there;
- ``libvirt``: the target's libvirt daemon; ``memory`` and ``disks``: the sockets that the target's QEMU
  listens on. On the source they are sockets of the agent that libvirt and QEMU connect to. So a running VM
  moves with its disks, without shared storage and without another open port;
- ``file``: a disk of a stopped VM, as it is, with its snapshots.

Both QEMU processes see the sockets under the same name, whatever their data directories are.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml  # of the agent's own daemon only

import structlog

from vetro.node.drivers.qemu import disks
from vetro.node.drivers.qemu.daemon import QEMU_UID, LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import DriverError, NodeError
from vetro.node.files import short_name
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.vm_records import Vm, disks_of

log = structlog.get_logger(__name__)

_WAIT_SECONDS = 600.0
_CONNECT_SECONDS = 30.0
_SILENCE_SECONDS = 30
_LATE_SECONDS = 10.0
_CHUNK = 1 << 18
_LINE = 1 << 16
_SOCKETS = ("memory", "disks")


@dataclass
class Receiver:
    """A target that waits for one VM.

    ``arrived(record)`` is called with what a stopped VM brings besides its disks; ``landed()`` when
    libvirt's part is over, true if the VM runs here: then no other connection is accepted.
    """

    vm: Vm
    directory: Path
    daemon: LibvirtDaemon
    greeting: Mapping[str, Any]
    arrived: Callable[[Mapping[str, Any]], None]
    landed: Callable[[], bool]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _server: asyncio.Server | None = None
    _used: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    async def start(self, host: str) -> int:
        """Listen on ``host``; returns the port."""
        self._server = await asyncio.start_server(self._serve, host, 0, limit=_LINE)
        self._watch = asyncio.create_task(self._close_unused(), name="migration target")
        return int(self._server.sockets[0].getsockname()[1])

    async def _close_unused(self) -> None:
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await self._used.wait()
                self._used.clear()
                if self._open:
                    await asyncio.wait(set(self._open))
        log.info("migration_not_received", uuid=self.vm["uuid"])
        await self._stop()

    async def close(self) -> None:
        """Stop listening."""
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._stop()

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for work in list(self._open):
            work.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work = asyncio.current_task()
        assert work is not None
        self._open.add(work)
        work.add_done_callback(self._open.discard)
        self._used.set()
        try:
            notice_silence(writer)
            async with asyncio.timeout(_CONNECT_SECONDS):
                asked: dict[str, object] = json.loads(await reader.readline())
            if not hmac.compare_digest(str(asked.get("token")), self.token):
                log.warning("migration_token_wrong", uuid=self.vm["uuid"])
                return
            await self._channel(asked, reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            log.info("migration_connection_lost", uuid=self.vm["uuid"], error=str(error))
        except asyncio.CancelledError:
            # The server's own task: no other task waits for it.
            return
        finally:
            await hang_up(writer)

    async def _channel(
        self,
        asked: Mapping[str, object],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        kind = asked.get("channel")
        if kind == "hello":
            writer.write(json.dumps(self.greeting).encode() + b"\n")
            await writer.drain()
        elif kind == "libvirt":
            await splice(reader, writer, self.daemon.socket)
            if self.landed() and self._server is not None:
                self._server.close()
        elif kind in _SOCKETS:
            await splice(reader, writer, socket_path(self.directory, str(kind)))
        elif kind == "file":
            await self._take_file(asked, reader, writer)
        elif kind == "record":
            self.arrived(asked)
            writer.write(b'{"ok": true}\n')
            await writer.drain()

    async def _take_file(
        self, asked: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Store a disk once it is complete; only names of this VM's disks are accepted."""
        disk = next((one for one in disks_of(self.vm) if one["path"] == asked.get("name")), None)
        if disk is None:
            raise ValueError(f"the VM has no disk {asked.get('name')}")
        target = disks.file_of(self.directory, disk)
        temporary = target.with_name(f".{target.name}.coming")
        left = int(asked["size"])
        try:
            with temporary.open("wb") as file:
                while left:
                    data = await reader.read(min(_CHUNK, left))
                    if not data:
                        raise ValueError("the connection to the other node was lost")
                    await asyncio.to_thread(file.write, data)
                    left -= len(data)
            os.chown(temporary, QEMU_UID, QEMU_UID)
            temporary.chmod(0o600)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        writer.write(b'{"ok": true}\n')
        await writer.drain()


def socket_path(directory: Path, kind: str) -> Path:
    """The path of a VM's socket for ``memory`` or ``disks``, on both nodes."""
    return directory / "run" / f"{kind}.sock"


def notice_silence(writer: asyncio.StreamWriter) -> None:
    """Let a connection fail when the other node is unreachable: libvirt would wait for hours."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _SILENCE_SECONDS // 3),
        (socket.TCP_KEEPINTVL, _SILENCE_SECONDS // 6),
        (socket.TCP_KEEPCNT, 4),
        (socket.TCP_USER_TIMEOUT, _SILENCE_SECONDS * 1000),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until it is closed."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
    """Relay between a connection and a socket of this machine until both have ended."""
    with short_name(path) as name:
        inner_reader, inner_writer = await asyncio.open_unix_connection(name)
    await join(reader, writer, inner_reader, inner_writer)


async def join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> int:
    """Copy both ways, end of stream included; the number of bytes from the first to the other."""
    try:
        there, _ = await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        return there
    finally:
        for one in (other_writer, writer):
            one.close()
        for one in (other_writer, writer):
            await hang_up(one)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> int:
    copied = 0
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            copied += len(data)
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    return copied


@dataclass
class _Road:
    """The connections of one migration, and the bytes they carried."""

    servers: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    bytes: int = 0
    _work: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def carry(self, work: Coroutine[object, object, None]) -> None:
        """Relay a connection in the background until both sides have ended."""
        task = asyncio.create_task(work, name="migration")
        self._work.add(task)

    async def close(self) -> None:
        """Accept no more connections; wait for open ones, whose peers have ended by now."""
        for server in self.servers:
            server.close()
        if self._work:
            _, late = await asyncio.wait(self._work, timeout=_LATE_SECONDS)
            for task in late:
                task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)


@dataclass(frozen=True)
class Sender:
    """The source of one VM: ``host``, ``port`` and ``token`` are those of the target's receiver."""

    vm: Vm
    directory: Path
    daemon: LibvirtDaemon
    libvirt: Libvirt
    host: str
    port: int
    token: str

    async def _connect(self, **line: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(self.host, self.port)
            notice_silence(writer)
        except (OSError, TimeoutError) as error:
            raise DriverError(
                f"VM {self.vm['uuid']}: the other node does not answer at {self.host} port"
                f" {self.port}; ask it to receive the VM first",
                rest_code="MigrationFailed",
            ) from error
        writer.write(json.dumps({"token": self.token, **line}).encode() + b"\n")
        await writer.drain()
        return reader, writer

    async def _ask(self, **line: object) -> dict[str, Any]:
        reader, writer = await self._connect(**line)
        try:
            answer = await reader.readline()
        finally:
            await hang_up(writer)
        return self._answer(answer)

    def _answer(self, answer: bytes) -> dict[str, Any]:
        if not answer:
            raise DriverError(
                f"VM {self.vm['uuid']}: the other node refused the transfer (a wrong token, or a"
                " disk it does not know)",
                rest_code="MigrationFailed",
            )
        return json.loads(answer)

    async def send_stopped(self) -> int:
        """Send every disk as it is; the number of bytes sent."""
        sent = 0
        for disk in disks_of(self.vm):
            path = disks.file_of(self.directory, disk)
            size = path.stat().st_size
            reader, writer = await self._connect(channel="file", name=disk["path"], size=size)
            try:
                with path.open("rb") as file, contextlib.suppress(ConnectionError):
                    while data := await asyncio.to_thread(file.read, _CHUNK):
                        writer.write(data)
                        await writer.drain()
                self._answer(await reader.readline())
            finally:
                await hang_up(writer)
            sent += size
        await self._ask(channel="record", snapshots=self.vm.get("snapshots", []))
        return sent

    async def send_running(self) -> int:
        """Move the running VM with its disks; the number of bytes sent."""
        greeting = await self._ask(channel="hello")
        # Where libvirt's client and QEMU on this node connect to reach the other node.
        runtime = Path(tempfile.mkdtemp(prefix="vetro-", dir="/run"))
        road = _Road()
        try:
            places = {kind: socket_path(self.directory, kind) for kind in _SOCKETS}
            places["libvirt"] = runtime / "libvirt.sock"
            for kind, path in places.items():
                road.servers.append(await self._forward(kind, path, road))
            await self._migrate(places["libvirt"], greeting)
        finally:
            await road.close()
            for kind in _SOCKETS:
                socket_path(self.directory, kind).unlink(missing_ok=True)
            await asyncio.to_thread(shutil.rmtree, runtime)
        return road.bytes

    async def _forward(self, kind: str, path: Path, road: _Road) -> asyncio.Server:
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await self._connect(channel=kind)
            except NodeError as error:
                log.warning("migration_target_unreachable", error=str(error))
                await hang_up(writer)
                return
            with contextlib.suppress(OSError):
                # Two statements: '+=' would read the sum before the await.
                carried = await join(reader, writer, far_reader, far_writer)
                road.bytes += carried

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            # A task of its own, which is awaited: asyncio does not await the server's tasks.
            road.carry(carry(reader, writer))

        path.unlink(missing_ok=True)
        with short_name(path) as name:
            server = await asyncio.start_unix_server(serve, name)
        os.chown(path, QEMU_UID, QEMU_UID)
        return server

    async def _migrate(self, socket: Path, greeting: Mapping[str, object]) -> None:
        library = self.libvirt.library
        uuid = str(self.vm["uuid"])
        prefix = self.daemon.seen(self.directory / "run")
        text = await self.libvirt.with_domain(
            uuid, lambda domain: domain.XMLDesc(library.VIR_DOMAIN_XML_MIGRATABLE
                                                | library.VIR_DOMAIN_XML_SECURE),
        )  # fmt: skip
        parameters = {
            library.VIR_MIGRATE_PARAM_DEST_XML: at_the_target(text, self.vm, greeting),
            library.VIR_MIGRATE_PARAM_URI: f"unix://{prefix}/memory.sock",
            library.VIR_MIGRATE_PARAM_DISKS_URI: f"unix://{prefix}/disks.sock",
        }
        flags = (
            library.VIR_MIGRATE_LIVE
            | library.VIR_MIGRATE_NON_SHARED_INC
            | library.VIR_MIGRATE_AUTO_CONVERGE
            | library.VIR_MIGRATE_ABORT_ON_ERROR
        )
        target = Libvirt()
        try:
            await target.open(socket)

            def move(domain: Any) -> None:
                # The result belongs to the target's connection, whose events this process handles:
                # it must be released in this thread.
                domain.migrate3(target.connection, parameters, flags)

            async def attempt() -> None:
                work = asyncio.ensure_future(self.libvirt.with_domain(uuid, move))
                try:
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    with contextlib.suppress(DriverError):
                        await self.libvirt.with_domain(uuid, lambda domain: domain.abortJob())
                    await asyncio.gather(work, return_exceptions=True)
                    raise

            try:
                await self.libvirt.again_with_another_port(self.vm, attempt)
            except DriverError as error:
                raise DriverError(
                    f"VM {uuid} stays where it is: {error}", rest_code="MigrationFailed"
                ) from error
        finally:
            await target.close()
            target.shut()


def at_the_target(text: str, vm: Vm, greeting: Mapping[str, Any]) -> str:
    """A domain's XML with the target's names for interfaces and screen."""
    domain = Xml.fromstring(text)  # noqa: S314  our own daemon wrote it
    prefix = str(greeting["prefix"])
    nics = {str(nic["mac"]): nic for nic in vm["nics"]}
    for interface in domain.iterfind("./devices/interface"):
        mac = interface.find("mac")
        nic = nics.get(str(mac.get("address"))) if mac is not None else None
        if nic is None:
            raise DriverError(f"VM {vm['uuid']} has an interface that its record does not have")
        for name, attribute, value in (
            ("source", "bridge", bridge_name(prefix, str(nic.get("network_uuid")))),
            ("target", "dev", host_interface_name(prefix, str(nic["mac"]))),
        ):
            element = interface.find(name)
            if element is None:
                element = Xml.SubElement(interface, name)
            element.attrib = {attribute: value}
    for graphics in domain.iterfind("./devices/graphics"):
        host = str(greeting["vnc_host"])
        graphics.set("listen", host)
        if graphics.get("autoport") == "yes":
            graphics.set("port", "-1")
        for listen in graphics.iterfind("listen"):
            listen.set("address", host)
    return Xml.tostring(domain, encoding="unicode")
