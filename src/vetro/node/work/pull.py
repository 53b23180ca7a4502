"""Pull mode: a node that cannot be called asks for its tasks (a long poll) and reports results.

Tasks, queues and locks are those of the task API; a task's id is its idempotency key, so a task
that is handed out twice runs once.
"""

from __future__ import annotations

import asyncio

import structlog

from vetro.compute.wire import PulledTask
from vetro.http.client import TransportError
from vetro.node.service_client import ServiceClient
from vetro.node.work.queues import TaskRunner

log = structlog.get_logger(__name__)

WAIT_SECONDS = 50.0
_FIRST_DELAY, _LAST_DELAY, _FACTOR = 0.5, 30.0, 2.0


class Puller:
    """Asks for tasks and runs them until cancelled."""

    def __init__(self, client: ServiceClient, runner: TaskRunner) -> None:
        self._client = client
        self._runner = runner
        #: By the task's id, until its result is delivered.
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """One request at a time; any number of tasks runs meanwhile."""
        delay = _FIRST_DELAY
        # Tasks may have been given to the agent that ran here before, or in an answer that was lost.
        again = True
        try:
            while True:
                await self._runner.accepting()
                try:
                    task = await self._client.next_task(WAIT_SECONDS, again=again)
                except TransportError as error:
                    log.info("tasks_not_asked_for", error=str(error), retry_seconds=delay)
                    await asyncio.sleep(delay)
                    delay = min(delay * _FACTOR, _LAST_DELAY)
                    again = True
                    continue
                delay = _FIRST_DELAY
                again = False
                if task is not None and task.id not in self._running:
                    work = asyncio.create_task(self._do(task), name=f"pulled {task.task}")
                    self._running[task.id] = work
                    work.add_done_callback(lambda _, id_=task.id: self._running.pop(id_, None))
        finally:
            running = list(self._running.values())
            for work in running:
                work.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _do(self, task: PulledTask) -> None:
        if self._runner.knows(task.task):
            status, body = await self._runner.submit(
                task.task,
                task.params,
                key=task.id,
                request_id=task.request_id,
                fence=task.fence,
                traceparent=task.traceparent,
            )
        else:
            text = f"Unknown task, '{task.task}'"
            status, body = 404, {"code": "ResourceNotFound", "message": text, "error": text}
        delay = _FIRST_DELAY
        # The result is stored under its key: after a restart the task is handed out again and
        # answered.
        while True:
            try:
                if await self._client.task_done(task.id, status, body):
                    return
            except TransportError as error:
                log.info("result_not_delivered", task=task.id, error=str(error))
            await asyncio.sleep(delay)
            delay = min(delay * _FACTOR, _LAST_DELAY)
