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
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from vetro.engine.calls import take_calls
from vetro.engine.failures import EngineFailure, OverLimit, WorkerDied
from vetro.engine.journal import begun, forget, journaled
from vetro.engine.settings import EngineSettings
from vetro.engine.zygote import LENGTH, Zygote, ZygoteDied, restart_zygote, start_zygote
from vetro.environments import EngineTask, Environments, TaskResult
from vetro.storage import Database, Lease, LeaseLost, LeaseQueue, StorageError

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
CANCEL_SECONDS = 30.0
"""How long a cancelled task has to end by itself; then its worker is killed."""
SMALL = 2**16
"""Bytes of JSON that may be read between two other things; what is larger is read in a thread."""
FINISH_PAUSES = (0.2, 1.0, 3.0)
CUT_OFF = (
    "The service was killed while this ran: deploy again to finish it, or delete the environment"
)
STOPPED = (
    "The service was stopped while this ran: deploy again to finish it, or delete the environment"
)


class EnginePool:
    """Runs tasks. ``prepare()`` before threads exist, ``run()`` in the service's loop."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self._zygote: Zygote | None = None
        self._warm: socket.socket | None = None
        self._workers: dict[str, int] = {}
        # The host's name tells a successor on this machine which leases were ours.
        self.owner_prefix = f"{socket.gethostname()}/{settings.data_dir}/"
        self.owner = f"{self.owner_prefix}{os.getpid()}-{secrets.token_hex(4)}"

    def prepare(self) -> None:
        """Fork the zygote."""
        self._zygote = start_zygote(self.settings)

    def close(self) -> None:
        """End the zygote and the worker that waits."""
        if self._warm is not None:
            self._warm.close()
        if self._zygote is not None:
            self._zygote.close()

    async def run(self, database: Database) -> None:
        """Take tasks and calls until cancelled; then running workers are ended, their tasks failed."""
        rooms = Environments(database)
        await self.recover(rooms)
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._take_tasks(rooms), name="engine tasks")
                parts.create_task(take_calls(self, rooms), name="engine calls")
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures

    async def _take_tasks(self, rooms: Environments) -> None:
        running: set[asyncio.Task[None]] = set()
        slots = asyncio.Semaphore(self.settings.workers)
        ended = asyncio.Event()
        most = self.settings.most_per_project
        try:
            while True:
                await slots.acquire()
                ended.clear()
                claimed = await rooms.tasks.claim(self.owner, LEASE_SECONDS, most_per_project=most)
                if claimed is None:
                    slots.release()
                    self.warm_up()
                    await self.work_or_end(rooms.tasks.queue, ended)
                    continue
                job = asyncio.create_task(self._job(rooms, *claimed), name=f"task {claimed[1].id}")
                running.add(job)
                job.add_done_callback(running.discard)
                job.add_done_callback(lambda _: slots.release())
                job.add_done_callback(lambda _: ended.set())
        finally:
            for job in running:
                job.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def work_or_end(self, queue: LeaseQueue, ended: asyncio.Event) -> None:
        """Wait until there is work that we may take, or until one of ours has ended.

        With its end a project may have another one.
        """
        work = asyncio.create_task(
            queue.wait_for_work(owner=self.owner, most_per_party=self.settings.most_per_project)
        )
        end = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            end.cancel()
            await asyncio.gather(work, end, return_exceptions=True)

    async def recover(self, rooms: Environments) -> None:
        """Fail what a killed predecessor on this data directory was running, however many wait."""
        async with rooms.tasks.database.transaction() as tx:
            keys = await rooms.tasks.queue.expire_owner(tx, self.owner_prefix)
        for key in keys:
            claimed = await rooms.tasks.claim(self.owner, LEASE_SECONDS, task_id=key)
            if claimed is not None:  # else another engine has it, and sees that it had begun
                log.warning("a deployment was cut off by a crash", task=key)
                await self._fail(rooms, claimed[0], CUT_OFF)
        await self._sweep(rooms)

    async def _sweep(self, rooms: Environments) -> None:
        """Remove journals whose tasks have ended: of engines that died between the two."""
        database = rooms.tasks.database
        # In this order: who has rows and is not in the queue later has ended in between.
        found = await journaled(database)
        async with database.read() as tx:
            alive = await rooms.tasks.queue.keys(tx)
        for task_id in found - alive:
            await forget(database, task_id)

    def warm_up(self) -> None:
        """Have one worker forked and waiting."""
        if self._warm is None and self._zygote is not None:
            try:
                self._warm = self._zygote.spawn()
            except ZygoteDied as error:
                log.error("the engine's zygote died; it is started again", error=str(error))
                self._zygote.close()
                self._zygote = restart_zygote(self.settings)
                with contextlib.suppress(ZygoteDied):
                    self._warm = self._zygote.spawn()
            if self._warm is not None:
                self._warm.setblocking(False)

    def _take_worker(self) -> socket.socket | None:
        """The worker that waits, else a fresh one; ``None`` when there can be none now."""
        if self._zygote is None:
            raise WorkerDied("the engine pool was not prepared")
        self.warm_up()
        channel, self._warm = self._warm, None
        return channel

    async def _job(self, rooms: Environments, lease: Lease, task: EngineTask) -> None:
        with bound_contextvars(task=task.id, request_id=task.request_id):
            try:
                await self._attend(rooms, lease, task)
            except LeaseLost:
                log.error("a task was taken over by another engine")
                self._kill(task.id)
            except asyncio.CancelledError:
                self._kill(task.id)
                await self._fail(rooms, lease, STOPPED)
                raise
            except OverLimit as error:
                log.warning("a deployment went beyond a limit", error=str(error))
                await self._fail(rooms, lease, str(error))
            except WorkerDied as error:
                log.error("an engine worker died", error=str(error))
                await self._fail(rooms, lease, str(error))
            except Exception as error:
                # A task must not be left to the end of its lease.
                log.error("a task failed in the engine", error=str(error), exc_info=True)
                self._kill(task.id)
                await self._fail(rooms, lease, *_blame(task, error))
            finally:
                self._workers.pop(task.id, None)

    async def _attend(self, rooms: Environments, lease: Lease, task: EngineTask) -> None:
        """Run a task and store its result."""
        if lease.attempt > 1 and await begun(rooms.tasks.database, task.id):
            log.warning("a deployment was cut off by the end of its engine")
            await self._fail(rooms, lease, CUT_OFF)
            return
        async with rooms.tasks.queue.hold(lease):
            result = await self._run(rooms, task, lease.fence)
        # The hold is let go first: it must not take the end of the work for its loss.
        await self._finish(rooms, lease, result)

    async def _finish(self, rooms: Environments, lease: Lease, result: TaskResult) -> None:
        """Store a result; the work was done, so a database that is busy is asked again."""
        for pause in (*FINISH_PAUSES, None):
            try:
                await rooms.tasks.finish_task(lease, result)
                break
            except StorageError as error:
                if pause is None or isinstance(error, LeaseLost):
                    raise
                log.warning("a result could not be stored yet", error=str(error))
                await asyncio.sleep(pause)
        await self._forget(rooms, lease)

    async def _run(self, rooms: Environments, task: EngineTask, fence: int) -> TaskResult:
        """Run a task in a worker. A worker that died before it had done anything is replaced."""

        async def has_begun() -> bool:
            return await begun(rooms.tasks.database, task.id)

        what = "deleting" if task.is_delete else "deploying"
        cancellation: list[str] = []

        async def pass_on(channel: socket.socket) -> None:
            """Tell the worker that it is to end; end it when it does not."""
            seconds = self.settings.task_seconds
            try:
                # The worker ends itself in time, unless it cannot any more.
                async with asyncio.timeout(seconds + CANCEL_SECONDS if seconds else None):
                    reason = await rooms.tasks.cancelled(task.id)
            except TimeoutError:
                cancellation.append(f"The deployment took longer than {seconds:g} seconds")
                log.warning("a task went on beyond its time; its worker is killed")
                self._kill(task.id)
                return
            cancellation.append(reason)
            await _say(channel, {"cancel": reason})
            await asyncio.sleep(CANCEL_SECONDS)
            log.warning("a cancelled task did not end; its worker is killed")
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
        return TaskResult(answer["model"], answer["result"], answer["is_exception"])

    async def order(
        self,
        key: str,
        order: dict[str, Any],
        what: str,
        has_begun: Callable[[], Awaitable[bool]],
        meanwhile: Callable[[socket.socket], Awaitable[None]] | None = None,
    ) -> dict[str, Any]:
        """Have a worker do something; what it answers.

        ``what``: what it is doing, for the message when it dies. A worker that died before anything
        had begun is replaced. ``meanwhile`` runs beside the worker and may send it messages; it is
        cancelled with its end. Errors: ``WorkerDied``, ``EngineFailure``, ``OverLimit``.
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
        raise WorkerDied("Three engine workers in a row died before they began; deploy again")

    def end(self, key: str) -> None:
        """Kill the worker that has the order of this key, if there is one, and forget it."""
        self._kill(key)
        self._workers.pop(key, None)

    async def _fail(
        self, rooms: Environments, lease: Lease, message: str, details: str | None = None
    ) -> None:
        try:
            await rooms.tasks.fail_task(lease, message, details)
        except LeaseLost:
            return  # another engine has it
        except StorageError as error:
            # When the lease has run out, whoever claims the task sees that it had begun.
            log.error("a task could not be failed", task=lease.key, error=str(error))
            return
        await self._forget(rooms, lease)

    async def _forget(self, rooms: Environments, lease: Lease) -> None:
        try:
            await forget(rooms.tasks.database, lease.key)
        except StorageError as error:
            # The task has ended; the next start sweeps.
            log.warning("a journal could not be removed", task=lease.key, error=str(error))

    def _kill(self, task_id: str) -> None:
        pid = self._workers.get(task_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _hand_over(
        self, channel: socket.socket, key: str, order: dict[str, Any]
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


async def _say(channel: socket.socket, message: dict[str, Any]) -> bool:
    """Send a message to a worker; whether there is one."""
    # A model may be large: others are served meanwhile.
    body = await asyncio.to_thread(lambda: json.dumps(message).encode())
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
            log.error("a task could not be watched for its cancellation", error=str(failure))


def _blame(task: EngineTask, error: Exception) -> tuple[str, str]:
    """What the user is told of a failure inside the engine: the reason, and what to quote."""
    if isinstance(error, EngineFailure):
        log.error("the failure of the worker", trace=error.details)
        reason = str(error)
    else:
        reason = f"{type(error).__name__}: {error}"
    request = task.request_id or f"task {task.id}"
    return (
        f"The engine failed inside: {reason} (request {request})",
        f"This is no fault of the application. The service's log has more under {request}.",
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
        return json.loads(body) if len(body) < SMALL else await asyncio.to_thread(json.loads, body)

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
