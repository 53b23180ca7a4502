"""libvirt's client library wrapped in a few coroutines.

The library blocks, so every call runs in a thread. It is imported when the first VM driver opens:
nodes without virtual machines need neither the package nor its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import struct
import threading
import zlib
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree as Xml

import structlog

from vetro.node.errors import ConfigurationError, DriverError
from vetro.node.files import short_name
from vetro.node.vm_records import Vm

log = structlog.get_logger(__name__)

_lock = threading.Lock()
_carrier: list[threading.Thread] = []


def carry(library: Any) -> None:
    """Start to handle libvirt's events, once; call it before the first connection is opened.

    One thread of this process handles them for all connections: the library supports one event loop
    for the life of a process, so it cannot be asyncio's, of which a process may run several in turn.
    The thread sleeps in ``poll`` while nothing happens.
    """
    with _lock:
        if _carrier:
            return
        library.virEventRegisterDefaultImpl()
        # A daemon thread: it never ends, and must not delay the end of the process.
        thread = threading.Thread(target=_run, args=(library,), name="libvirt events", daemon=True)
        _carrier.append(thread)
        thread.start()


def _run(library: Any) -> None:
    while True:
        try:
            library.virEventRunDefaultImpl()
        except library.libvirtError as error:
            log.error("libvirt_events_ended", error=str(error))
            return


log = structlog.get_logger(__name__)

T = TypeVar("T")

# Starting many VMs at once must not block queries about others.
_THREADS = 12
_PORT_TRIES = 5
_UNPLUG_SECONDS, _UNPLUG_POLL_SECONDS = 20.0, 0.05
_PORT_TAKEN = "Failed to find an available port: Address already in use"


@contextlib.contextmanager
def address_of(socket: Path) -> Generator[str]:
    """The daemon at ``socket`` for libvirt's clients: short, without the directory's special letters."""
    with short_name(socket) as name:
        yield f"qemu+unix:///system?socket={name}"


class Libvirt:
    """A connection to one daemon.

    Errors of every method: ``DriverError`` with libvirt's own words.
    """

    def __init__(self) -> None:
        try:
            self.library: Any = importlib.import_module("libvirt")
            self._qemu: Any = importlib.import_module("libvirt_qemu")
        except ImportError as error:
            raise ConfigurationError(
                "The Python package libvirt-python is not installed: pip install 'vetro[vm]'"
                " (it is compiled: libvirt-dev, pkg-config and a C compiler are needed)"
            ) from error
        # It would also write every error to the terminal.
        self.library.registerErrorHandler(_be_quiet, None)
        carry(self.library)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="libvirt")
        self._connection: Any = None
        self._listening: int | None = None

    async def open(self, socket: Path) -> None:
        """Connect to the daemon at ``socket``, and wait until it knows QEMU's capabilities."""

        def connect() -> object:
            with address_of(socket) as address:
                connection = self.library.open(address)
            try:
                connection.getDomainCapabilities(None, "x86_64", "q35", None)
            except BaseException:
                # Closed here, not by the garbage collector, which may run in the event loop's
                # thread.
                connection.close()
                raise
            return connection

        self._connection = await self._run(connect)

    @property
    def connection(self) -> Any:
        """The library's connection object. Errors: ``DriverError`` when there is none."""
        if self._connection is None:
            raise DriverError("libvirtd does not run on this node; see the agent's log")
        return self._connection

    async def alive(self) -> bool:
        """Whether the daemon answers on this connection now."""
        if self._connection is None:
            return False
        try:
            await self.call(lambda connection: connection.getLibVersion())
        except DriverError:
            return False
        return True

    async def close(self) -> None:
        """Disconnect from the daemon."""
        connection, self._connection = self._connection, None
        listening, self._listening = self._listening, None
        if connection is not None:
            if listening is not None:
                # A daemon that is gone cannot answer anyway.
                with contextlib.suppress(DriverError):
                    await self._run(lambda: connection.domainEventDeregisterAny(listening))
            with contextlib.suppress(DriverError):
                await self._run(connection.close)

    def shut(self) -> None:
        """End the threads; the object must not be used again."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except self.library.libvirtError as error:
            raise DriverError(f"libvirt: {error.get_error_message()}") from error

    async def call(self, work: Callable[[Any], T]) -> T:
        """Run ``work(connection)`` in a thread."""
        connection = self.connection
        return await self._run(lambda: work(connection))

    async def listen(self, hint: Callable[[str], None]) -> None:
        """Call ``hint(name)`` in another thread when a domain starts, freezes, resumes or ends."""

        def notify(
            _connection: Any, domain: Any, _event: int, _detail: int, _opaque: object
        ) -> None:
            # The event loop may have ended.
            with contextlib.suppress(RuntimeError):
                hint(domain.name())

        kind = self.library.VIR_DOMAIN_EVENT_ID_LIFECYCLE
        self._listening = await self.call(
            lambda connection: connection.domainEventRegisterAny(None, kind, notify, None)
        )

    async def running(self) -> list[str]:
        """The names of all domains."""
        return await self.call(
            lambda connection: [domain.name() for domain in connection.listAllDomains(0)]
        )

    async def paused_reason(self, name: str) -> str | None:
        """Why a domain is frozen: ``disk-full``, ``io-error``, ``paused``, ``watchdog``.

        ``None``: it runs, is being migrated to another node, or does not exist.
        """
        library = self.library
        reasons = {
            library.VIR_DOMAIN_PAUSED_USER: "paused",
            library.VIR_DOMAIN_PAUSED_IOERROR: "io-error",
            library.VIR_DOMAIN_PAUSED_WATCHDOG: "watchdog",
        }

        def look(connection: Any) -> str | None:
            try:
                domain = connection.lookupByName(name)
                state, detail = domain.state()
                reason = reasons.get(detail) if state == library.VIR_DOMAIN_PAUSED else None
                if reason == "io-error":
                    full = library.VIR_DOMAIN_DISK_ERROR_NO_SPACE
                    if full in domain.diskErrors(0).values():
                        return "disk-full"
            except library.libvirtError as error:
                gone = (library.VIR_ERR_NO_DOMAIN, library.VIR_ERR_OPERATION_INVALID)
                if error.get_error_code() in gone:
                    return None
                raise
            return reason

        return await self.call(look)

    async def resume(self, name: str) -> None:
        """Resume a frozen domain."""
        await self.with_domain(name, lambda domain: domain.resume())

    async def exists(self, name: str) -> bool:
        """Whether the daemon has a domain of this name."""

        def look(connection: Any) -> bool:
            try:
                connection.lookupByName(name)
            except self.library.libvirtError as error:
                if error.get_error_code() == self.library.VIR_ERR_NO_DOMAIN:
                    return False
                raise
            return True

        return await self.call(look)

    async def start(self, xml: str) -> None:
        """Start a transient domain."""
        await self.call(lambda connection: connection.createXML(xml, 0))

    async def again_with_another_port(self, vm: Vm, attempt: Callable[[], Awaitable[None]]) -> None:
        """Run ``attempt`` to start a VM; retry when its screen's port is taken.

        libvirt chooses a free port and QEMU binds it a moment later: on a machine with several
        daemons, or with programs that listen now and then, another may bind it first. A VM with its
        own ``vnc_port`` has no alternative.
        """
        for left in reversed(range(_PORT_TRIES)):
            try:
                return await attempt()
            except DriverError as error:
                if not left or vm.get("vnc_port") or _PORT_TAKEN not in str(error):
                    raise
                log.info("screen_port_taken", uuid=vm["uuid"])

    async def with_domain(self, name: str, work: Callable[[Any], T]) -> T:
        """Run ``work(domain)`` in a thread."""
        return await self.call(lambda connection: work(connection.lookupByName(name)))

    async def destroy(self, name: str) -> None:
        """End a domain at once; a missing one is not an error."""

        def destroy(connection: Any) -> None:
            try:
                connection.lookupByName(name).destroy()
            except self.library.libvirtError as error:
                gone = (self.library.VIR_ERR_NO_DOMAIN, self.library.VIR_ERR_OPERATION_INVALID)
                if error.get_error_code() not in gone:
                    raise

        await self.call(destroy)

    async def plug(self, name: str, xml: str, serial: str) -> None:
        """Add a disk to a running domain; one that has it already keeps it."""

        def plug(found: Any) -> None:
            if serial not in found.XMLDesc(0):
                found.attachDeviceFlags(xml, self.library.VIR_DOMAIN_AFFECT_LIVE)

        await self.with_domain(name, plug)

    async def unplug(self, name: str, serial: str) -> None:
        """Remove the disk with this serial number; returns when the domain no longer has it."""

        def unplug(found: Any) -> bool:
            devices = Xml.fromstring(found.XMLDesc(0)).find("devices")  # noqa: S314 libvirt's own
            for disk in devices.findall("disk") if devices is not None else ():
                if disk.findtext("serial") == serial:
                    with contextlib.suppress(self.library.libvirtError):  # being removed already
                        found.detachDeviceFlags(
                            Xml.tostring(disk, encoding="unicode"),
                            self.library.VIR_DOMAIN_AFFECT_LIVE,
                        )
                    return False
            return True

        async with asyncio.timeout(_UNPLUG_SECONDS):
            while not await self.with_domain(name, unplug):  # noqa: ASYNC110 its event needs a thread
                await asyncio.sleep(_UNPLUG_POLL_SECONDS)

    async def press_power_button(self, name: str) -> None:
        """Ask the guest to shut down: through its agent if that answers, and by ACPI."""
        acpi = self.library.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        await self.with_domain(name, lambda domain: domain.shutdownFlags(acpi))

    async def monitor(self, domain: str, command: str, /, **arguments: object) -> Any:
        """Run a command of QEMU's monitor; its result."""
        text = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
        answer = await self.with_domain(
            domain, lambda found: self._qemu.qemuMonitorCommand(found, text, 0)
        )
        reply = json.loads(answer)
        if "error" in reply:
            raise DriverError(f"QEMU: {command}: {reply['error'].get('desc', reply['error'])}")
        return reply.get("return")

    async def agent(self, name: str, command: str, /, **arguments: object) -> Any:
        """Run a command of the guest's QEMU agent; its result.

        Errors: ``DriverError`` ``GuestAgentNotAvailable`` when none answers.
        """
        text = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})

        def ask(domain: object) -> Any:
            try:
                return self._qemu.qemuAgentCommand(domain, text, 10, 0)
            except self.library.libvirtError as error:
                absent = (
                    self.library.VIR_ERR_AGENT_UNRESPONSIVE,
                    self.library.VIR_ERR_OPERATION_INVALID,
                )
                if error.get_error_code() in absent:
                    raise DriverError(
                        f"The guest of VM {name} has no QEMU agent that answers"
                        " (package qemu-guest-agent), or has not started yet",
                        code="EAGENT",
                        rest_code="GuestAgentNotAvailable",
                    ) from error
                raise

        return json.loads(await self.with_domain(name, ask)).get("return")

    async def screenshot(self, name: str) -> bytes:
        """The screen as PNG."""

        def shoot(connection: Any) -> bytes:
            stream = connection.newStream(0)
            connection.lookupByName(name).screenshot(stream, 0, 0)
            data = bytearray()
            while chunk := stream.recv(1 << 18):
                data += chunk
            stream.finish()
            return bytes(data)

        picture = await self.call(shoot)
        return picture if picture.startswith(b"\x89PNG") else ppm_to_png(picture)


def _be_quiet(_context: object, _error: object) -> None:
    """Ignore the message: every error is also raised as an exception."""


def ppm_to_png(picture: bytes) -> bytes:
    """A binary PPM (``P6``, 8 bits) as PNG. Errors: ``DriverError``."""
    parts = picture.split(maxsplit=4)
    if len(parts) < 4 or parts[0] != b"P6" or parts[3] != b"255":
        raise DriverError("QEMU's screenshot has an unknown format")
    width, height = int(parts[1]), int(parts[2])
    pixels = picture[len(picture) - width * height * 3 :]
    row = width * 3
    # Each row begins with its filter type: none.
    raw = b"".join(b"\0" + pixels[start : start + row] for start in range(0, len(pixels), row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
        )

    header = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(raw, 6))
        + chunk(b"IEND", b"")
    )
