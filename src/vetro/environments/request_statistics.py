"""Statistics of requests, a row for each process that serves the API (catalog-api.md §5.7).

The processes count for themselves and store what they counted when they begin and every
``stats.period`` minutes. A row that was not stored for three periods is of a process that ended, and
is removed by whichever stores next.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import structlog
from litestar import Litestar
from sqlalchemy import delete, insert, select, update

from vetro.catalog import api_time
from vetro.environments.tables import request_stats
from vetro.http import RequestCounts
from vetro.storage import Database, StorageError

log = structlog.get_logger("vetro.environments")
PERIODS_KEPT = 3
PROC_STAT = Path("/proc/stat")


class RequestStatistics:
    """Stores the counts of this process and reads those of all. ``period``: in minutes."""

    def __init__(self, database: Database, counts: RequestCounts, period: float = 5.0) -> None:
        self.database = database
        self.counts = counts
        self.period = timedelta(minutes=period)
        self._id = uuid.uuid4().hex
        self._before: tuple[datetime, int, int] | None = None
        self._processors = _processor_seconds()

    @asynccontextmanager
    async def stored(self, _app: Litestar) -> AsyncGenerator[None, None]:
        """Store now and every period, while the API is served."""
        await self._try_to_store()
        storing = asyncio.create_task(self._keep_storing(), name="request statistics")
        try:
            yield
        finally:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)

    async def _keep_storing(self) -> None:
        while True:
            await asyncio.sleep(self.period.total_seconds())
            await self._try_to_store()

    async def _try_to_store(self) -> None:
        try:
            await self.store()
        except (StorageError, OSError) as error:
            # The counts go on; the next turn stores them.
            log.warning("request_statistics_not_stored", error=str(error))

    async def store(self) -> None:
        """Write this process's row, and remove those of processes that ended."""
        # By the steady time: rates, and whose process has ended, do not depend on clocks that differ.
        now, counts = self.database.steady_now(), self.counts
        values: dict[str, object] = {
            "request_count": counts.requests,
            "error_count": counts.errors,
            "average_response_time": counts.seconds / counts.requests if counts.requests else 0.0,
            "requests_per_tenant": msgspec.json.encode(counts.by_project).decode(),
            "requests_per_second": 0.0,
            "errors_per_second": 0.0,
            "cpu_count": os.cpu_count() or 1,
            "cpu_percent": self._cpu_percent(),
            "updated": now,
        }
        if self._before is not None:
            then, requests, errors = self._before
            seconds = (now - then).total_seconds()
            if seconds > 0:
                values["requests_per_second"] = (counts.requests - requests) / seconds
                values["errors_per_second"] = (counts.errors - errors) / seconds
        self._before = (now, counts.requests, counts.errors)
        mine = request_stats.c.id == self._id
        async with self.database.transaction() as tx:
            changed = await tx.execute(update(request_stats).where(mine).values(**values))
            if not changed.rowcount:
                row = {"id": self._id, "host": socket.gethostname()[:255], "created": now, **values}
                await tx.execute(insert(request_stats).values(**row))
            old = request_stats.c.updated < now - PERIODS_KEPT * self.period
            await tx.execute(delete(request_stats).where(old))

    async def listing(self) -> list[dict[str, Any]]:
        """The rows of all processes, oldest first."""
        order = (request_stats.c.created, request_stats.c.id)
        async with self.database.read() as tx:
            rows = list(await tx.execute(select(request_stats).order_by(*order)))
        return [
            {
                **{column.name: getattr(row, column.name) for column in request_stats.c},
                "created": api_time(row.created),
                "updated": api_time(row.updated),
            }
            for row in rows
        ]

    def _cpu_percent(self) -> float:
        """How busy the host's processors were since the row before, in percent of all of them."""
        then, now = self._processors, _processor_seconds()
        self._processors = now
        every = now[1] - then[1]
        return round(100 * (now[0] - then[0]) / every, 1) if every > 0 else 0.0


def _processor_seconds() -> tuple[int, int]:
    """The busy and all time of this host's processors, in ticks."""
    try:
        first = PROC_STAT.read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:  # not Linux, or hidden
        return 0, 0
    # user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in user and nice.
    ticks = [int(one) for one in first.split()[1:9]]
    every = sum(ticks)
    return every - sum(ticks[3:5]), every
