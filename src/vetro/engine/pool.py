"""The engine pool: takes tasks under leases and runs each in a worker process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
from dataclasses import asdict
from typing import Any

import structlog

from vetro.engine.journal import forget
from vetro.engine.settings import EngineSettings
from vetro.engine.zygote import LENGTH, Zygote, start_zygote
from vetro.environments import EngineTask, Environments, TaskResult
from vetro.storage import Database, Lease, LeaseLost

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0


class WorkerDied(Exception):
    """The worker process ended without a result."""


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
        """Take tasks until cancelled; on cancellation running workers are ended, their tasks failed."""
        rooms = Environments(database)
        await self.recover(rooms)
        running: set[asyncio.Task[None]] = set()
        slots = asyncio.Semaphore(self.settings.workers)
        try:
            while True:
                await slots.acquire()
                claimed = await rooms.tasks.claim(self.owner, LEASE_SECONDS)
                if claimed is None:
                    slots.release()
                    self._warm_up()
                    await rooms.tasks.queue.wait_for_work()
                    continue
                job = asyncio.create_task(self._job(rooms, *claimed), name=f"task {claimed[1].id}")
                running.add(job)
                job.add_done_callback(running.discard)
                job.add_done_callback(lambda _: slots.release())
        finally:
            for job in running:
                job.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def recover(self, rooms: Environments) -> None:
        """Fail what a killed predecessor on this data directory was running."""
        async with rooms.tasks.database.transaction() as tx:
            keys = await rooms.tasks.queue.expire_owner(tx, self.owner_prefix)
        for _ in keys:
            claimed = await rooms.tasks.claim(self.owner, LEASE_SECONDS)
            if claimed is None:
                return
            lease, task = claimed
            if lease.key not in keys:
                await rooms.tasks.queue.release(lease)
                continue
            log.warning("a deployment was cut off by a crash", task=task.id)
            await rooms.tasks.fail_task(
                lease,
                "The service was killed while this ran: deploy again to finish it,"
                " or delete the environment",
            )

    def _warm_up(self) -> None:
        """Have one worker forked and waiting."""
        if self._warm is None and self._zygote is not None:
            self._warm = self._zygote.spawn()
            self._warm.setblocking(False)

    def _take_worker(self) -> socket.socket:
        if self._warm is None:
            self._warm_up()
        channel, self._warm = self._warm, None
        if channel is None:
            raise WorkerDied("the engine pool was not prepared")
        return channel

    async def _job(self, rooms: Environments, lease: Lease, task: EngineTask) -> None:
        renewal = asyncio.create_task(self._renew(rooms, lease), name="lease")
        try:
            result = await self._run(task, lease.fence)
            await rooms.tasks.finish_task(lease, result)
            await forget(rooms.tasks.database, task.id)
        except WorkerDied as error:
            log.error("an engine worker died", task=task.id, error=str(error))
            await self._fail(rooms, lease, str(error))
        except asyncio.CancelledError:
            self._kill(task.id)
            await self._fail(
                rooms,
                lease,
                "The service was stopped while this ran: deploy again to finish it,"
                " or delete the environment",
            )
            raise
        except LeaseLost:
            log.error("a task was taken over by another engine", task=task.id)
            self._kill(task.id)
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            self._workers.pop(task.id, None)

    async def _run(self, task: EngineTask, fence: int) -> TaskResult:
        """Run a task in a worker. A worker that died before it had the task is replaced."""
        for _ in range(3):
            with self._take_worker() as channel:
                pid = await self._hand_over(channel, task, fence)
                if pid is not None:
                    return await self._result(channel, task, pid)
        raise WorkerDied("three engine workers in a row died before they began")

    async def _fail(
        self, rooms: Environments, lease: Lease, message: str, details: str | None = None
    ) -> None:
        with contextlib.suppress(LeaseLost):
            await rooms.tasks.fail_task(lease, message, details)

    async def _renew(self, rooms: Environments, lease: Lease) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                lease = await rooms.tasks.queue.renew(lease, LEASE_SECONDS)
            except LeaseLost:
                # Somebody else has it: our worker must stop at once.
                self._kill(lease.key)
                return

    def _kill(self, task_id: str) -> None:
        pid = self._workers.get(task_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _hand_over(self, channel: socket.socket, task: EngineTask, fence: int) -> int | None:
        """Give the task to a worker; its process id, or ``None`` when it is dead."""
        loop = asyncio.get_running_loop()
        hello = await _Reader(loop, channel).message()
        if hello is None:
            return None
        pid = int(hello["pid"])
        body = json.dumps({"task": asdict(task), "fence": fence}).encode()
        try:
            await loop.sock_sendall(channel, len(body).to_bytes(LENGTH, "big") + body)
        except ConnectionError:
            return None
        self._workers[task.id] = pid
        return pid

    async def _result(self, channel: socket.socket, task: EngineTask, pid: int) -> TaskResult:
        """Wait for a worker's result. Errors: ``WorkerDied``."""
        reader = _Reader(asyncio.get_running_loop(), channel)
        answer = await reader.message()
        if answer is None:
            what = "deleting" if task.is_delete else "deploying"
            raise WorkerDied(
                f"The engine worker (process {pid}) was killed while {what}"
                f" {task.environment_name or task.environment_id}; deploy again, or delete it"
            )
        if "failure" in answer:
            log.error("a task failed in the engine", task=task.id, details=answer["details"])
            return TaskResult(
                {
                    **task.model,
                    "ObjectsCopy": task.model.get("ObjectsCopy") or task.model["Objects"],
                },
                {"message": answer["failure"], "details": answer["details"]},
                is_exception=True,
            )
        return TaskResult(answer["model"], answer["result"], answer["is_exception"])


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
        return None if body is None else json.loads(body)

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
