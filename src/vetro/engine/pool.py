"""The engine pool: takes tasks under leases and runs each in a worker process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import structlog

from vetro import log_context
from vetro.engine.errors import EngineFailure, OverLimit, WorkerDied, disk_is_full, is_full
from vetro.engine.journal import begun, forget, journaled, kept_attributes
from vetro.engine.metrics import DEATHS, show_workers
from vetro.engine.settings import EngineSettings
from vetro.engine.static_calls import calls_worker
from vetro.engine.worker.messages import LENGTH
from vetro.engine.worker.zygote import Zygote, ZygoteDied, restart_zygote, start_zygote
from vetro.environments import EngineTask, Environments, LeakedObject, TaskResult
from vetro.storage import (
    Database,
    DatabaseFull,
    Lease,
    LeaseLost,
    LeaseQueue,
    StorageError,
    Worker,
    decode_json,
    encode_json,
)

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
CANCEL_SECONDS = 30.0
"""How long a cancelled task may take to end by itself; then its worker is killed."""
SMALL = 2**16
"""Bytes of JSON that may be decoded in the event loop; larger messages are decoded in a thread."""
FINISH_PAUSES = (0.2, 1.0, 3.0)
CUT_OFF = (
    "The service was killed during this deployment: "
    "deploy again to finish it, or delete the environment"
)
STOPPED = (
    "The service was stopped during this deployment: "
    "deploy again to finish it, or delete the environment"
)
MOST_ATTEMPTS = 20
"""How often a resumable task is restarted after a crash; a task that kills its engines must end."""
ENDS_ENGINES = (
    "The service ended again and again during this deployment: see its log, then deploy again, or delete the"
    " environment"
)

#: Between two attempts to store a failure on a full disk.
FULL_PAUSE_SECONDS = 2.0


def owner_prefix(data_dir: Path) -> str:
    """The beginning of the names under which processes of a data directory take leases."""
    return f"{socket.gethostname()}/{data_dir}/"


def owner_of(data_dir: Path) -> str:
    """The name under which this process takes leases."""
    return f"{owner_prefix(data_dir)}{os.getpid()}-{secrets.token_hex(4)}"


class EnginePool:
    """Runs tasks. ``prepare()`` before threads exist, ``run()`` in the service's loop."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._zygote: Zygote | None = None
        self._warm: socket.socket | None = None
        self._workers: dict[str, int] = {}
        # A successor on this machine recognises our leases by host name and data directory.
        self.owner_prefix = owner_prefix(settings.data_dir)
        self.owner = owner_of(settings.data_dir)
        self._taking: list[Worker] = []
        self._draining = False

    def prepare(self) -> None:
        """Fork the zygote."""
        self._zygote = start_zygote(self.settings)

    def close(self) -> None:
        """End the zygote and the spare worker."""
        if self._warm is not None:
            self._warm.close()
        if self._zygote is not None:
            self._zygote.close()

    async def run(self, database: Database) -> None:
        """Take tasks and calls until cancelled; then end running workers and fail their tasks."""
        rooms = Environments(database)
        await self.recover(rooms)
        self._taking = [self._tasks_worker(rooms), calls_worker(self, rooms)]
        if self._draining:
            return
        try:
            async with asyncio.TaskGroup() as parts:
                for worker in self._taking:
                    parts.create_task(worker.work(), name=f"engine {worker.queue.name}")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    def drain(self) -> None:
        """Take nothing more; `run` returns when what runs has ended."""
        self._draining = True
        for worker in self._taking:
            worker.drain()

    def _tasks_worker(self, rooms: Environments) -> Worker:
        async def run(lease: Lease) -> None:
            await self._job(rooms, lease, rooms.tasks.task_of(lease))

        return self.worker("deployments", rooms.tasks.queue, run, LEASE_SECONDS)

    def worker(
        self, what: str, queue: LeaseQueue, run: Callable[[Lease], Awaitable[None]], seconds: float
    ) -> Worker:
        """A worker with as many slots as the settings give to deployments, and to calls."""
        slots = self.settings.engine.workers
        return Worker(
            queue,
            slots,
            run,
            owner=self.owner,
            ttl_seconds=seconds,
            most_per_party=self.settings.most_per_project,
            idle=self.warm_up,
            shown=lambda running: show_workers(what, running, slots),
        )

    async def recover(self, rooms: Environments) -> None:
        """Fail the tasks that a killed predecessor on this data directory was running."""
        async with rooms.tasks.database.transaction() as tx:
            keys = await rooms.tasks.queue.expire_owner(tx, self.owner_prefix)
        for key in keys:
            claimed = await rooms.tasks.claim(self.owner, LEASE_SECONDS, task_id=key)
            if claimed is not None and goes_on(claimed[1]):
                await self._give_back(rooms, claimed[0])
            elif claimed is not None:  # else another engine has it, and sees that it had begun
                log.warning("deployment_cut_off", deployment=key, by="a crash")
                await self._fail(rooms, claimed[0], CUT_OFF, outcome="interrupted")
        await self._sweep(rooms)

    async def _sweep(self, rooms: Environments) -> None:
        """Remove journals of ended tasks, left by engines that died before removing them."""
        database = rooms.tasks.database
        # In this order: a task that has rows but is then not in the queue has ended in between.
        found = await journaled(database)
        async with database.read() as tx:
            alive = await rooms.tasks.queue.keys(tx)
        for task_id in found - alive:
            await forget(database, task_id)

    def warm_up(self) -> None:
        """Fork a spare worker unless there is one."""
        if self._warm is None and self._zygote is not None:
            try:
                self._warm = self._zygote.spawn()
            except ZygoteDied as error:
                log.error("engine_zygote_died", error=str(error))
                self._zygote.close()
                self._zygote = restart_zygote(self.settings)
                with contextlib.suppress(ZygoteDied):
                    self._warm = self._zygote.spawn()
            if self._warm is not None:
                self._warm.setblocking(False)

    def _take_worker(self) -> socket.socket | None:
        """The spare worker, else a new one; ``None`` when none can be created now."""
        if self._zygote is None:
            raise WorkerDied("the engine pool was not prepared")
        self.warm_up()
        channel, self._warm = self._warm, None
        return channel

    async def _job(self, rooms: Environments, lease: Lease, task: EngineTask) -> None:
        with log_context.saying(deployment=task.id, request_id=task.request_id):
            if goes_on(task) and self._zygote is not None:
                self._zygote.learn_workflows()
            try:
                await self._attend(rooms, lease, task)
            except LeaseLost:
                log.error("deployment_taken_over", by="another engine")
                self._kill(task.id)
            except asyncio.CancelledError:
                self._kill(task.id)
                if goes_on(task):
                    await self._give_back(rooms, lease)
                else:
                    await self._fail(rooms, lease, STOPPED, outcome="interrupted")
                raise
            except OverLimit as error:
                log.warning("deployment_over_limit", error=str(error))
                await self._fail(rooms, lease, str(error))
            except WorkerDied as error:
                DEATHS.inc()
                log.error("engine_worker_died", error=str(error))
                await self._fail(rooms, lease, str(error))
            except Exception as error:
                # Do not leave the task unfinished until its lease ends.
                self._kill(task.id)
                if is_full(error):
                    log.error("engine_disk_full", error=str(error))
                    await self._fail(rooms, lease, disk_is_full(error))
                    return
                log.error("engine_failed", error=str(error), exc_info=True)
                await self._fail(rooms, lease, *_blame(task, error))
            finally:
                self._workers.pop(task.id, None)

    async def _attend(self, rooms: Environments, lease: Lease, task: EngineTask) -> None:
        """Run a task and store its result."""
        if lease.attempt > MOST_ATTEMPTS and goes_on(task):
            log.error("deployment_ends_its_engines", attempts=lease.attempt - 1)
            await self._fail(rooms, lease, ENDS_ENGINES, outcome="interrupted")
            return
        if not goes_on(task) and lease.attempt > 1 and await begun(rooms.tasks.database, task.id):
            log.warning("deployment_cut_off", by="the end of its engine")
            await self._fail(rooms, lease, CUT_OFF, outcome="interrupted")
            return
        rooms.tasks.began(lease, task)
        async with rooms.tasks.queue.hold(lease):
            result = await self._run(rooms, task, lease.fence)
        # Release the hold first: it would take the end of the work for the loss of the lease.
        await self._finish(rooms, lease, result)

    async def _finish(self, rooms: Environments, lease: Lease, result: TaskResult) -> None:
        """Store a result; the work is done, so a busy database is retried."""
        for pause in (*FINISH_PAUSES, None):
            try:
                await rooms.tasks.finish_task(lease, result)
                break
            except StorageError as error:
                if pause is None or isinstance(error, LeaseLost):
                    raise
                log.warning("result_not_stored_yet", error=str(error))
                await asyncio.sleep(pause)
        await self._forget(rooms, lease)

    async def _run(self, rooms: Environments, task: EngineTask, fence: int) -> TaskResult:
        """Run a task in a worker. A worker that died before it began an effect is replaced."""

        what = "deleting" if task.is_delete else "deploying"
        cancellation: list[str] = []

        async def has_begun() -> bool:
            if goes_on(task):
                return bool(cancellation)  # else the next worker continues from the last round
            return await begun(rooms.tasks.database, task.id)

        async def pass_on(channel: socket.socket) -> None:
            """Ask the worker to end; kill it when it does not."""
            seconds = self.settings.engine.task_seconds
            try:
                # The worker stops itself at the time limit, unless it hangs.
                async with asyncio.timeout(seconds + CANCEL_SECONDS if seconds else None):
                    reason = await rooms.tasks.cancelled(task.id)
            except TimeoutError:
                cancellation.append(f"The deployment took longer than {seconds:g} seconds")
                log.warning("engine_worker_killed", reason=cancellation[0])
                self._kill(task.id)
                return
            cancellation.append(reason)
            await _say(channel, {"cancel": reason})
            await asyncio.sleep(CANCEL_SECONDS)
            log.warning("engine_worker_killed", reason="a cancelled deployment did not end")
            self._kill(task.id)

        try:
            answer = await self.order(
                task.id,
                # Not asdict(): it copies the whole model.
                {"task": {**vars(task)}, "fence": fence},
                f"{what} {task.environment_name or task.environment_id}; deploy again, or delete it",
                has_begun,
                pass_on,
            )
        except WorkerDied as error:
            raise WorkerDied(
                f"{cancellation[0]} ({error})" if cancellation else str(error)
            ) from error
        return TaskResult(
            answer["model"],
            answer["result"],
            answer["is_exception"],
            leaked=tuple(LeakedObject(**one) for one in answer["leaked"]),
            untouched=answer["untouched"],
            halfway=answer["halfway"],
        )

    async def order(
        self,
        key: str,
        order: dict[str, object],
        what: str,
        has_begun: Callable[[], Awaitable[bool]],
        meanwhile: Callable[[socket.socket], Awaitable[None]] | None = None,
    ) -> dict[str, Any]:
        """Give an order to a worker; return its answer.

        ``what``: what the worker is doing, for the message when it dies. A worker that died before
        anything had begun is replaced. ``meanwhile`` runs beside the worker, may send it messages,
        and is cancelled when the worker ends. Errors: ``WorkerDied``, ``EngineFailure``,
        ``OverLimit``.
        """
        for _ in range(3):
            channel = self._take_worker()
            if channel is None:
                continue
            with channel:
                pid = await self._hand_over(channel, key, order)
                if pid is None:
                    continue
                answer = await _answer(channel, meanwhile)
                if answer is None:
                    if not await has_begun():
                        continue
                    raise WorkerDied(f"The engine worker (process {pid}) was killed while {what}")
                if "over" in answer:
                    raise OverLimit(answer["over"])
                if "crash" in answer:
                    raise EngineFailure(answer["crash"], answer["details"])
                return answer
        raise WorkerDied("Three engine workers in a row ended before they started; deploy again")

    def end(self, key: str) -> None:
        """Kill the worker that has the order of this key, if there is one, and forget it."""
        self._kill(key)
        self._workers.pop(key, None)

    async def _fail(
        self,
        rooms: Environments,
        lease: Lease,
        message: str,
        details: str | None = None,
        *,
        outcome: Literal["failed", "interrupted"] = "failed",
    ) -> None:
        """Store why a task failed; on a full disk, retry until there is room unless stopping."""
        while True:
            try:
                kept = await kept_attributes(rooms.tasks.database, lease.key)
                await rooms.tasks.fail_task(
                    lease, message, details, outcome=outcome, attributes=kept
                )
                break
            except LeaseLost:
                return  # another engine has it
            except StorageError as error:
                if not isinstance(error, DatabaseFull) or outcome == "interrupted":
                    # After the lease expires, the next claimer sees that the task had begun.
                    log.error("failure_not_stored", deployment=lease.key, error=str(error))
                    return
                log.error("failure_waits_for_room", deployment=lease.key, error=str(error))
            await asyncio.sleep(FULL_PAUSE_SECONDS)
        await self._forget(rooms, lease)

    async def _forget(self, rooms: Environments, lease: Lease) -> None:
        try:
            await forget(rooms.tasks.database, lease.key)
        except StorageError as error:
            # The task has ended; the next start removes the journal.
            log.warning("journal_not_removed", deployment=lease.key, error=str(error))

    async def _give_back(self, rooms: Environments, lease: Lease) -> None:
        """Let the next free engine continue a task."""
        try:
            await rooms.tasks.queue.release(lease)
        except StorageError as error:
            # It is claimed again when the lease has expired.
            log.warning("deployment_not_given_back", deployment=lease.key, error=str(error))

    def _kill(self, task_id: str) -> None:
        pid = self._workers.get(task_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _hand_over(
        self, channel: socket.socket, key: str, order: dict[str, object]
    ) -> int | None:
        """Give an order to a worker; its process id, or ``None`` when it is dead."""
        loop = asyncio.get_running_loop()
        hello = await _Reader(loop, channel).message()
        if hello is None:
            return None
        pid = int(hello["pid"])
        if not await _say(channel, order):
            return None
        self._workers[key] = pid
        return pid


def goes_on(task: EngineTask) -> bool:
    """Whether a task that was cut off is resumed: XML workflows keep where they stand (`Checkpoints`)."""
    return task.model_kind == "workflow"


def _large(body: bytes) -> object:
    """Decode a large message in parts; programs may produce numbers that are not valid JSON."""
    try:
        return decode_json(body)
    except msgspec.DecodeError:
        return json.loads(body)


async def _say(channel: socket.socket, message: dict[str, object]) -> bool:
    """Send a message to a worker; ``False`` when the worker is gone."""
    # A model may be large: encode it in a thread so that the loop stays free.
    body = await asyncio.to_thread(encode_json, message)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(channel, len(body).to_bytes(LENGTH, "big") + body)
    except ConnectionError:
        return False
    return True


async def _answer(
    channel: socket.socket, meanwhile: Callable[[socket.socket], Awaitable[None]] | None
) -> Any:
    """A worker's answer; ``None`` when it died. ``meanwhile`` runs until then."""
    reader = _Reader(asyncio.get_running_loop(), channel)
    if meanwhile is None:
        return await reader.message()
    beside = asyncio.ensure_future(meanwhile(channel))
    try:
        return await reader.message()
    finally:
        beside.cancel()
        (failure,) = await asyncio.gather(beside, return_exceptions=True)
        if isinstance(failure, Exception):
            log.error("cancellation_not_watched", error=str(failure))


def _blame(task: EngineTask, error: Exception) -> tuple[str, str]:
    """The user's message about a failure inside the engine, and a detail with the id to quote."""
    if isinstance(error, EngineFailure):
        log.error("engine_worker_failed", trace=error.details)
        reason = str(error)
    else:
        reason = f"{type(error).__name__}: {error}"
    request = task.request_id or f"task {task.id}"
    return (
        f"Internal error of the engine: {reason} (request {request})",
        f"The application did not cause this. The service's log has details under {request}.",
    )


class _Reader:
    """Messages from a worker, without blocking the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: socket.socket) -> None:
        self._loop = loop
        self._channel = channel

    async def message(self) -> Any:
        """The next message; ``None`` when the worker has gone."""
        head = await self._exactly(LENGTH)
        if head is None:
            return None
        body = await self._exactly(int.from_bytes(head, "big"))
        if body is None:
            return None
        return json.loads(body) if len(body) < SMALL else await asyncio.to_thread(_large, body)

    async def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                chunk = await self._loop.sock_recv(self._channel, min(1 << 20, size - len(parts)))
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            parts += chunk
        return bytes(parts)
