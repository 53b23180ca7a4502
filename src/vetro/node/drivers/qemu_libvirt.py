"""libvirt's client library behind a few coroutines.

The library blocks, so every call runs in a thread. It is imported when the first VM driver opens:
nodes without virtual machines need neither the package nor its memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import structlog

from vetro.node.drivers import qemu_events
from vetro.node.errors import ConfigurationError, DriverError

log = structlog.get_logger(__name__)

T = TypeVar("T")

# Starting many VMs side by side must not keep others from being asked.
_THREADS = 12
_PORT_TRIES = 5
_PORT_TAKEN = "Failed to find an available port: Address already in use"


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
        # It would write every error to the terminal as well.
        self.library.registerErrorHandler(_be_quiet, None)
        qemu_events.carry(self.library)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="libvirt")
        self._connection: Any = None
        self._listening: int | None = None

    async def open(self, address: str) -> None:
        """Connect, and wait until the daemon knows what QEMU can."""

        def connect() -> Any:
            connection = self.library.open(address)
            try:
                connection.getDomainCapabilities(None, "x86_64", "q35", None)
            except BaseException:
                # Here and not when it is forgotten: that may be in the loop that carries it.
                connection.close()
                raise
            return connection

        self._connection = await self._run(connect)

    @property
    def connection(self) -> Any:
        """The library's own object. Errors: ``DriverError`` when there is none."""
        if self._connection is None:
            raise DriverError("libvirtd does not run on this node; see the agent's log")
        return self._connection

    async def alive(self) -> bool:
        """Whether the daemon answers on this connection: asked, not remembered."""
        if self._connection is None:
            return False
        try:
            await self.call(lambda connection: connection.getLibVersion())
        except DriverError:
            return False
        return True

    async def close(self) -> None:
        """Leave the daemon."""
        connection, self._connection = self._connection, None
        listening, self._listening = self._listening, None
        if connection is not None:
            if listening is not None:
                # Of a daemon that is gone nothing is to be heard anyway.
                with contextlib.suppress(DriverError):
                    await self._run(lambda: connection.domainEventDeregisterAny(listening))
            with contextlib.suppress(DriverError):
                await self._run(connection.close)

    def shut(self) -> None:
        """End the threads; the object is not used again."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except self.library.libvirtError as error:
            raise DriverError(f"libvirt: {error.get_error_message()}") from error

    async def call(self, work: Callable[[Any], T]) -> T:
        """``work(connection)`` in a thread."""
        connection = self.connection
        return await self._run(lambda: work(connection))

    async def listen(self, hint: Callable[[str], None]) -> None:
        """Call ``hint(name)`` in another thread whenever a domain starts, stands still, goes on or ends."""

        def tell(_connection: Any, domain: Any, _event: int, _detail: int, _opaque: object) -> None:
            # A loop that has ended wants to hear no more.
            with contextlib.suppress(RuntimeError):
                hint(domain.name())

        kind = self.library.VIR_DOMAIN_EVENT_ID_LIFECYCLE
        self._listening = await self.call(
            lambda connection: connection.domainEventRegisterAny(None, kind, tell, None)
        )

    async def running(self) -> list[str]:
        """The names of all domains."""
        return await self.call(
            lambda connection: [domain.name() for domain in connection.listAllDomains(0)]
        )

    async def paused_reason(self, name: str) -> str | None:
        """Why a domain stands still: ``disk-full``, ``io-error``, ``paused``, ``watchdog``.

        ``None``: it runs, is on its way to another node, or is not there.
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
        """Let a domain that stands still go on."""
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
        """Start a domain that is forgotten when it ends."""
        await self.call(lambda connection: connection.createXML(xml, 0))

    async def again_with_another_port(
        self, vm: Mapping[str, Any], attempt: Callable[[], Awaitable[None]]
    ) -> None:
        """``attempt`` to let a VM come up, again when somebody took the port of its screen.

        libvirt looks for a free one and QEMU takes it a moment later: on a machine with several daemons,
        or with programs that listen now and then, another may be faster. A VM with a ``vnc_port`` of its own
        has no other to take.
        """
        for left in reversed(range(_PORT_TRIES)):
            try:
                return await attempt()
            except DriverError as error:
                if not left or vm.get("vnc_port") or _PORT_TAKEN not in str(error):
                    raise
                log.info("The port of a VM's screen was taken meanwhile", uuid=vm["uuid"])

    async def with_domain(self, name: str, work: Callable[[Any], T]) -> T:
        """``work(domain)`` in a thread."""
        return await self.call(lambda connection: work(connection.lookupByName(name)))

    async def destroy(self, name: str) -> None:
        """End a domain at once; one that is not there has ended already."""

        def destroy(connection: Any) -> None:
            try:
                connection.lookupByName(name).destroy()
            except self.library.libvirtError as error:
                gone = (self.library.VIR_ERR_NO_DOMAIN, self.library.VIR_ERR_OPERATION_INVALID)
                if error.get_error_code() not in gone:
                    raise

        await self.call(destroy)

    async def press_power_button(self, name: str) -> None:
        """Ask the guest to stop: through its agent when one answers, and by ACPI."""
        acpi = self.library.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN
        await self.with_domain(name, lambda domain: domain.shutdownFlags(acpi))

    async def monitor(self, domain: str, command: str, /, **arguments: Any) -> Any:
        """A command of QEMU's own monitor; what it returns."""
        text = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
        answer = await self.with_domain(
            domain, lambda found: self._qemu.qemuMonitorCommand(found, text, 0)
        )
        told = json.loads(answer)
        if "error" in told:
            raise DriverError(f"QEMU: {command}: {told['error'].get('desc', told['error'])}")
        return told.get("return")

    async def agent(self, name: str, command: str, /, **arguments: Any) -> Any:
        """A command of the guest's QEMU agent; what it returns.

        Errors: ``DriverError`` ``GuestAgentNotAvailable`` when none answers.
        """
        text = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})

        def ask(domain: Any) -> Any:
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
    """Every error comes as an exception too."""


def ppm_to_png(picture: bytes) -> bytes:
    """A binary PPM (``P6``, 8 bits) as PNG. Errors: ``DriverError``."""
    parts = picture.split(maxsplit=4)
    if len(parts) < 4 or parts[0] != b"P6" or parts[3] != b"255":
        raise DriverError("QEMU's picture of the screen has an unknown format")
    width, height = int(parts[1]), int(parts[2])
    pixels = picture[len(picture) - width * height * 3 :]
    row = width * 3
    # Each row begins with its filter: none.
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
