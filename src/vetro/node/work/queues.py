"""Running tasks: a queue for each kind, a lock for each VM, a time limit.

Tasks are coroutines of the agent; heavy or fragile work (LXC, tar, scripts) runs in processes of
its own, so a task cannot crash the agent.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import structlog

from vetro import tracing
from vetro.compute.wire import Fence
from vetro.node.errors import DriverError, ImageError, NodeError, TaskFailure
from vetro.node.files import write_bytes
from vetro.node.work.fences import Fences
from vetro.node.work.history import RESTARTED, Entry, History, implied_key

log = structlog.get_logger(__name__)


def default_concurrency() -> dict[str, int]:
    """How many tasks of each queue run side by side (compute-node-agent.md §4)."""
    cpus = os.cpu_count() or 1
    return {
        "machine_creation": max(cpus, 10),
        "image_import_tasks": 1,
        "image_prefetch": 1,
        "server_tasks": cpus,
        "server_nic_tasks": 1,
        "network_tasks": 1,
        "agents_tasks": 1,
        "machine_tasks": max(cpus, 10),
        "machine_images": 64,
        "image_query": 64,
        "machine_query": 64,
        "docker_tasks": 16,
        "docker_build_task": 4,
        "volume_tasks": max(cpus, 10),
        "zfs_tasks": cpus,
        "zfs_query": cpus,
        "nop": 64,
    }


@dataclass(frozen=True)
class TaskContext:
    """The context of a task: its parameters, and the means to report progress."""

    params: Mapping[str, Any]
    entry: Entry

    def progress(self, step: str, percent: int) -> None:
        """Report the current step."""
        self.entry.event(f"end:{step}")
        self.entry.event("progress", {"value": percent})


Handler = Callable[[TaskContext], Awaitable[object]]


@dataclass(frozen=True)
class TaskKind:
    """How a task is run. ``query``: changes nothing, is not kept on disk and takes no VM lock.

    A ``handler`` that returns nothing answers ``{}``. ``label`` begins the text of a driver's error
    (``VM.load error: …``). ``target`` returns the VM to lock when it is not ``params.uuid``.
    ``secret``: parameters are stored nowhere. ``waits``: for most of its time it waits for a guest, and
    gives way to one that ``cuts_in`` by its parameters; it has failed then.
    """

    name: str
    queue: str
    handler: Handler
    query: bool = False
    label: str = ""
    aliases: tuple[str, ...] = field(default=())
    target: Callable[[Mapping[str, object]], str] | None = None
    secret: bool = False
    waits: bool = False
    cuts_in: Callable[[Mapping[str, object]], bool] | None = None


class TaskRunner:
    """All tasks of one agent."""

    def __init__(
        self,
        history: History,
        *,
        limit_seconds: float = 3600,
        concurrency: Mapping[str, int] | None = None,
        fences: Fences | None = None,
        log_directory: Path | None = None,
        server_uuid: str = "",
    ) -> None:
        self.history = history
        self._server_uuid = server_uuid
        self._log_directory = log_directory
        self._fences = fences
        self._limit = limit_seconds
        limits = {**default_concurrency(), **(concurrency or {})}
        self._queues = {name: asyncio.Semaphore(count) for name, count in limits.items()}
        self._kinds: dict[str, TaskKind] = {}
        self._locks: dict[str, tuple[asyncio.Lock, list[int]]] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, tuple[str, str]] = {}
        """The VM that a task which waits for its guest holds, and the task that has cut in."""
        self._accepting = asyncio.Event()
        self._accepting.set()

    @property
    def paused(self) -> bool:
        """Whether new tasks are refused."""
        return not self._accepting.is_set()

    @paused.setter
    def paused(self, value: bool) -> None:
        if value:
            self._accepting.clear()
        else:
            self._accepting.set()

    async def accepting(self) -> None:
        """Wait until new tasks are accepted."""
        await self._accepting.wait()

    def register(self, kind: TaskKind) -> None:
        """Serve a kind of task under its name and aliases."""
        for name in (kind.name, *kind.aliases):
            self._kinds[name] = kind

    def knows(self, task: str) -> bool:
        """Whether the task exists."""
        return task in self._kinds

    async def submit(
        self,
        task: str,
        params: Mapping[str, object],
        *,
        key: str = "",
        request_id: str = "",
        fence: Fence | None = None,
        traceparent: str = "",
    ) -> tuple[int, Any]:
        """Run a task to its end; ``(HTTP status, body)``.

        A request that repeats ``key`` (or ``request_id`` with the same task and parameters) gets
        the first run's result. A caller that disconnects does not stop the task. ``fence``: the
        turn in which the task is done (a ticket, or a VM's creations and destructions); an
        overtaken turn is refused (409) before anything begins. ``traceparent``: the trace that it
        belongs to.
        """
        with tracing.span(
            f"node task {task}",
            "server",
            parent=traceparent,
            vetro_server=self._server_uuid,
            vetro_request=request_id,
        ) as span:
            status, body = await self._submit(task, params, key, request_id, fence)
            if status >= 400:
                span.fail(str(status))
        return status, body

    async def _submit(
        self,
        task: str,
        params: Mapping[str, object],
        key: str,
        request_id: str,
        fence: Fence | None,
    ) -> tuple[int, Any]:
        kind = self._kinds[task]
        if not key and request_id and not kind.query:
            key = implied_key(request_id, task, params)
        entry = self.history.find(key)
        if entry is None:
            if fence is not None and self._fences is not None:
                newer = self._fences.overtaken_by(fence)
                if newer is not None:
                    text = (
                        f"{task} {fence.number} of {fence.scope} {fence.id} is over:"
                        f" {newer} has come since"
                    )
                    details = {"restCode": "FenceOvertaken", "fence": newer}
                    body = {"code": "FenceOvertaken", "message": text, "error": text,
                            "details": details}  # fmt: skip
                    return 409, body
            shown: Mapping[str, object] = {} if kind.secret else params
            entry = self.history.add(task, shown, key, persistent=not kind.query)
            work = asyncio.create_task(self._run(kind, entry, params), name=f"task {task}")
            self._running[entry.number] = work
            work.add_done_callback(lambda _: self._running.pop(entry.number, None))
        running = self._running.get(entry.number)
        if running is not None:
            await asyncio.wait({running})
        assert entry.outcome is not None
        return entry.outcome

    async def _run(self, kind: TaskKind, entry: Entry, params: Mapping[str, object]) -> None:
        try:
            target = self._target(kind, params)
            if kind.cuts_in is not None and kind.cuts_in(params):
                self._cut_in(kind, target)
            # The lock first: a task that waits for its VM occupies no place in its queue.
            async with _VmLock(self._locks, target), self._queues[kind.queue]:
                entry.event("start")
                if kind.waits:
                    self._waiting[entry.number] = target, ""
                async with asyncio.timeout(self._limit):
                    result = await kind.handler(TaskContext(params, entry))
            entry.finish({} if result is None else result)
        except TimeoutError:
            text = f"child task process timed out after {self._limit:g} seconds"
            entry.fail(500, text, {"restCode": "TaskTimedOut"}, died=True)
        except asyncio.CancelledError:
            _, other = self._waiting.get(entry.number, ("", ""))
            text, code = RESTARTED, "AgentRestarted"
            if other:
                text = f"{kind.label or kind.name} was ended while it waited for the guest: {other} cut in"
                code = "TaskCutShort"
            entry.fail(500, text, {"restCode": code}, died=not other)
        except OSError as error:
            log.exception("task_system_error", task=kind.name)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            code = "ResourceExhausted" if full else "InternalError"
            entry.fail(
                500, f"{kind.label or kind.name} error: {error}", {"restCode": code}, died=False
            )
        except NodeError as error:
            text, details = describe_error(kind, error)
            log.info("task_failed", task=kind.name, error=text)
            entry.fail(500, text, details, died=False)
        except Exception as error:
            log.exception("task_broke", task=kind.name)
            text = f"Child task process {kind.name} did not terminate cleanly. ({error!r})"
            entry.fail(500, text, {"restCode": "InternalError"}, died=True)
        finally:
            self._waiting.pop(entry.number, None)
            self._keep(entry)
            self._log(entry)

    def _cut_in(self, kind: TaskKind, target: str) -> None:
        """End the task that waits for the guest of a VM: the VM's lock is free then."""
        for number, (vm, other) in self._waiting.items():
            if vm == target and not other:
                self._waiting[number] = vm, kind.name
                self._running[number].cancel()

    @staticmethod
    def _target(kind: TaskKind, params: Mapping[str, object]) -> str:
        if kind.query:
            return ""
        if kind.target is not None:
            return kind.target(params)
        return str(params.get("uuid") or params.get("vm_uuid") or "").lower()

    async def drained(self, seconds: float, *, beside: Entry | None = None) -> bool:
        """Wait until no task but ``beside`` runs; False when some still run after ``seconds``."""
        own = beside.number if beside is not None else 0
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            others = [work for number, work in self._running.items() if number != own]
            if not others:
                return True
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            await asyncio.wait(others, timeout=left)

    def _keep(self, entry: Entry) -> None:
        try:
            self.history.save(entry)
        except OSError as error:
            # On a full disk, the caller still receives the result.
            log.error("task_entry_not_stored", task=entry.task, error=str(error))

    def _log(self, entry: Entry) -> None:
        """Write a file about the task, for people who inspect a node."""
        if self._log_directory is None or not entry.persistent:
            return
        name = f"{int(time.time() * 1000)}-{entry.pid}-{entry.task}.log"
        lines = [msgspec.json.encode(message) for message in entry.messages]
        try:
            self._log_directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_bytes(self._log_directory / name, b"".join(line + b"\n" for line in lines))
        except OSError as error:
            log.error("task_log_not_stored", task=entry.task, error=str(error))

    async def close(self, grace_seconds: float) -> None:
        """Let running tasks end for ``grace_seconds``; then cancel them: they have failed."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace_seconds)
        for work in list(self._running.values()):
            work.cancel()
        if self._running:
            await asyncio.wait(self._running.values())


def describe_error(kind: TaskKind, error: NodeError) -> tuple[str, dict[str, Any]]:
    """The text and the details of an error for the caller."""
    if isinstance(error, TaskFailure):
        return str(error), error.details
    label = f"{kind.label} error: " if kind.label else ""
    if isinstance(error, DriverError):
        details = {"restCode": error.rest_code or "InternalError", "code": error.code}
        return f"{label}{error}", details
    if isinstance(error, ImageError):
        return f"{label}{error}", {"restCode": error.rest_code}
    return f"{label}{error}", {"restCode": type(error).__name__}


class _VmLock:
    """A lock that exists only while a task holds or wants it."""

    def __init__(self, locks: dict[str, tuple[asyncio.Lock, list[int]]], uuid: str) -> None:
        self._locks = locks
        self._uuid = uuid

    async def __aenter__(self) -> None:
        if not self._uuid:
            return
        lock, users = self._locks.setdefault(self._uuid, (asyncio.Lock(), [0]))
        users[0] += 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(users)
            raise

    async def __aexit__(self, *_: object) -> None:
        if self._uuid:
            lock, users = self._locks[self._uuid]
            lock.release()
            self._leave(users)

    def _leave(self, users: list[int]) -> None:
        users[0] -= 1
        if users[0] == 0:
            del self._locks[self._uuid]
