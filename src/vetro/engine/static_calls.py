"""The engine's side of calls without an environment: static actions and schemas.

They have slots of their own, so that a waiting caller does not queue behind deployments. A call is
never repeated, because nothing records how far it came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Protocol

import structlog

from vetro import log_context
from vetro.engine.errors import EngineFailure, OverLimit, WorkerDied
from vetro.environments import CallAnswer, EngineCall, Environments
from vetro.storage import Lease, LeaseLost, LeaseQueue, StorageError, Worker

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
GRACE_SECONDS = 5.0
"""After the caller's time-out, until a worker that does not end by itself is killed."""
CUT_OFF = "The engine was stopped during this call: check what it has done, then call again"


class Workers(Protocol):
    """What answering calls asks of the pool of workers (`pool.EnginePool`)."""

    def worker(
        self, what: str, queue: LeaseQueue, run: Callable[[Lease], Awaitable[None]], seconds: float
    ) -> Worker:
        """A claim loop with as many slots as the settings give to calls."""
        ...

    async def order(
        self,
        key: str,
        order: dict[str, object],
        what: str,
        has_begun: Callable[[], Awaitable[bool]],
    ) -> dict[str, Any]:
        """Give an order to a worker process; return its answer."""
        ...

    def end(self, key: str) -> None:
        """Kill the worker process that has the order of this key, if there is one."""
        ...


def calls_worker(pool: Workers, rooms: Environments) -> Worker:
    """A worker that answers calls; one that is cancelled answers them with the reason."""

    async def run(lease: Lease) -> None:
        call = await rooms.calls.call_of(lease)
        if call is not None:
            await _attend(pool, rooms, lease, call)

    return pool.worker("calls", rooms.calls.queue, run, LEASE_SECONDS)


async def _attend(pool: Workers, rooms: Environments, lease: Lease, call: EngineCall) -> None:
    began = time.monotonic()
    with log_context.saying(call=call.id, request_id=call.request_id):
        try:
            if lease.attempt > 1:
                answer = CallAnswer(failure="failed", type="EngineEnded", message=CUT_OFF)
            else:
                async with rooms.calls.queue.hold(lease):
                    answer = await _answer(pool, call)
            await rooms.calls.answer(lease, answer)
            rooms.calls.ended(call, answer, time.monotonic() - began)
        except LeaseLost:
            log.error("call_taken_over", by="another engine")
        except asyncio.CancelledError:
            stopped = CallAnswer(failure="failed", type="EngineEnded", message=CUT_OFF)
            try:
                await rooms.calls.answer(lease, stopped)
            except (LeaseLost, StorageError) as error:
                log.warning("call_not_answered", error=str(error))
            raise
        except StorageError as error:
            # Its caller waits until its time-out; the call is not repeated.
            log.error("call_not_answered", error=str(error))
        finally:
            pool.end(call.id)


async def _answer(pool: Workers, call: EngineCall) -> CallAnswer:

    async def has_begun() -> bool:
        return True

    try:
        async with asyncio.timeout(call.seconds + GRACE_SECONDS):
            answer = await pool.order(
                call.id, {"call": asdict(call)}, f"answering {call.subject}; call again", has_begun
            )
    except TimeoutError:
        message = f"{call.subject} took longer than {call.seconds:g} seconds and was stopped"
        return CallAnswer(failure="timeout", type="CallTimeout", message=message)
    except WorkerDied as error:
        log.error("engine_worker_died", error=str(error))
        return CallAnswer(failure="failed", type="WorkerDied", message=str(error))
    except OverLimit as error:
        return CallAnswer(failure="failed", type="LimitExceeded", message=str(error))
    except EngineFailure as error:
        log.error("engine_failed", error=str(error), trace=error.details)
        message = f"Internal error of the engine: {error} (request {call.request_id or call.id})"
        return CallAnswer(failure="failed", type="EngineFailure", message=message)
    return CallAnswer(**answer)
