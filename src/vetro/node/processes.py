"""Following processes that are not our children: an event when one ends, without polling."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from vetro.digits import is_number
from vetro.node.errors import DriverError


class FollowedProcess:
    """A process identified beyond doubt: a reused pid cannot be mistaken for it."""

    def __init__(self, pid: int, descriptor: int, ended: Callable[[], None]) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._ended = asyncio.Event()
        self._callback = ended
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._on_end)

    @classmethod
    def attach(
        cls, pid: int, is_it: Callable[[list[str]], bool], ended: Callable[[], None]
    ) -> FollowedProcess | None:
        """Follow ``pid`` if it runs and ``is_it(command line)``; ``None`` otherwise."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return None
        # Checked after opening the descriptor: from now on the pid cannot be reused.
        if not is_it(command_line(pid)):
            os.close(descriptor)
            return None
        return cls(pid, descriptor, ended)

    def _on_end(self) -> None:
        self.close()
        self._ended.set()
        self._callback()

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return not self._ended.is_set()

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; False after ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal, unless it has ended."""
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def close(self) -> None:
        """Stop following; the process keeps running."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


class FollowedVms:
    """The first process of each VM of a hypervisor. ``ended(uuid)`` is called when one has ended."""

    def __init__(
        self, pid_file: Callable[[str], Path], is_it: Callable[[str, list[str]], bool]
    ) -> None:
        """``pid_file(uuid)``: where its number is; ``is_it(uuid, command line)``: whether it is still."""
        self.pid_file = pid_file
        self.is_it = is_it
        self.ended: Callable[[str], None] = lambda _uuid: None
        self._running: dict[str, FollowedProcess] = {}

    def close(self) -> None:
        """Stop following; VMs keep running."""
        for process in self._running.values():
            process.close()
        self._running.clear()

    def follow(self, uuid: str) -> FollowedProcess | None:
        """The process of a VM; ``None`` when it does not run."""
        known = self._running.get(uuid)
        if known is not None and known.running:
            return known
        try:
            pid = int(self.pid_file(uuid).read_text())
        except (FileNotFoundError, ValueError):
            return None
        found = FollowedProcess.attach(pid, partial(self.is_it, uuid), partial(self._on_end, uuid))
        if found is not None:
            self._running[uuid] = found
        return found

    def forget(self, uuid: str) -> None:
        """Stop following a VM."""
        process = self._running.pop(uuid, None)
        if process is not None:
            process.close()

    def _on_end(self, uuid: str) -> None:
        self._running.pop(uuid, None)
        self.ended(uuid)


async def end_all(uuid: str, processes: Iterable[FollowedProcess | None]) -> None:
    """Kill processes of a VM. Errors: ``DriverError`` when one does not end."""
    found = [process for process in processes if process is not None]
    for process in found:
        process.signal(signal.SIGKILL)
    for process in found:
        if not await process.wait(10):
            process.close()
            raise DriverError(f"VM {uuid}: process {process.pid} does not end")


def command_line(pid: int) -> list[str]:
    """The arguments of a process; empty when it has ended."""
    # In the middle of an exec, the kernel shows no arguments for some microseconds. A process that
    # has ended and a thread of the kernel have no program file, so they are not read again.
    for _attempt in range(100):
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
            if raw or not os.readlink(f"/proc/{pid}/exe"):
                break
        except OSError:
            return []
    else:
        return []
    return [part.decode("utf-8", "replace") for part in raw.rstrip(b"\0 ").split(b"\0")]


def family(pid: int) -> set[int]:
    """A process and its descendants, also those that a command started in a container."""
    found, pending = set[int](), [pid]
    while pending:
        one = pending.pop()
        found.add(one)
        # It may end during the lookup.
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{one}/task").iterdir():
                pending.extend(int(child) for child in (thread / "children").read_text().split())
    return found


def kill_family(pid: int) -> None:
    """Kill a process with all its descendants, across sessions and terminals.

    Hanging up the terminal is not enough: a program that relays between two terminals may miss it.
    All are stopped before any is killed, so that none starts another unnoticed.
    """
    stopped = set[int]()
    while found := family(pid) - stopped:
        for one in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGSTOP)
        stopped |= found
    for one in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def first_child(pid: int) -> int | None:
    """The first child of a process."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    children = text.split()
    return int(children[0]) if children else None


def started_at(pid: int) -> float | None:
    """When a process started, as seconds since 1970; ``None`` when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + ticks
    return None


def boot_id() -> str:
    """The kernel's name for the time since this machine booted."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def processes_by_pid() -> list[tuple[int, list[str]]]:
    """Every process of this machine with its arguments."""
    return [
        (int(entry.name), command_line(int(entry.name)))
        for entry in Path("/proc").iterdir()
        if is_number(entry.name)
    ]


@contextlib.asynccontextmanager
async def session(*argv: str, **options: Any) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A command that leads its own session; killed, and its pipes closed, when the block ends.

    ``create_subprocess_exec`` does not expose its transport: pipes held open by other processes
    would stay in the loop.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=1 << 16, loop=loop),
        *argv,
        **options,
    )
    process = asyncio.subprocess.Process(transport, protocol, loop)
    try:
        yield process
    finally:
        try:
            if process.returncode is None:
                kill_family(process.pid)
                await process.wait()
        finally:
            transport.close()
