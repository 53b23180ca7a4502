"""Machines without a record: found in nodes' reports, removed after a grace time (ours).

A node may have a machine the service does not know: created by hand, left by a service that lost
its database, or by a fault. It uses memory and addresses that the service believes free, and its
guest agent may answer in place of another's. So may one whose record is on another server, where it was
made again while this one was gone. A status sample that names such a machine is stored
with the time it was first named (`unknown_vms` of the server's record); a machine that stays
unknown for the grace time is destroyed on its node (docs/decisions/0130). One that runs elsewhere by its
record, and is the older of the two, is destroyed at once: nobody needs time to claim it (0821).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from sqlalchemy import select

from vetro.compute.servers.store import STRAYS, STRAYS_CHANNEL, ServerStore, known_of
from vetro.compute.servers.tombstones import under_way
from vetro.compute.tables import servers, tasks
from vetro.compute.values.records import mapping
from vetro.compute.vms.ages import made_at, made_elsewhere
from vetro.compute.vms.lifecycle import Machines
from vetro.compute.work.node_tasks import NodeTaskError
from vetro.storage import Database, LookAgain, StoredRow, watch

log = structlog.get_logger(__name__)

#: A machine whose destruction failed is tried again after this long.
LOOK_SECONDS = 60.0


class Strays:
    """Removes machines without a record. ``grace_seconds`` 0: they are only reported."""

    def __init__(
        self, database: Database, store: ServerStore, machines: Machines, grace_seconds: float
    ) -> None:
        self.database = database
        self.servers = store
        self.machines = machines
        self.grace = timedelta(seconds=grace_seconds)

    async def watch(self) -> None:
        """Remove machines when their grace time ends, until cancelled."""
        if not self.grace:
            return
        left: set[str] = set()

        async def look(named: set[str] | None) -> LookAgain | None:
            nonlocal left
            left = await self.look(None if named is None else {*left, *named})
            wait = min(LOOK_SECONDS, self.grace.total_seconds())
            return LookAgain(wait) if left else None

        await watch(self.database, STRAYS_CHANNEL, look)

    async def look(self, named: set[str] | None = None) -> set[str]:
        """Remove what is due on servers (all: ``None``); those that still have unknown machines."""
        async with self.database.read() as tx:
            query = select(servers)
            if named is not None:
                query = query.where(servers.c.uuid.in_(named))
            rows = [row for row in await tx.execute(query) if row.extra.get(STRAYS)]
        before = self.database.steady_now() - self.grace
        for row in rows:
            for uuid, since in sorted(mapping(row.extra.get(STRAYS)).items()):
                if row.status == "running":
                    due = datetime.fromisoformat(str(since)) <= before
                    await self._remove(row, uuid, due=due)
        return {row.uuid for row in rows}

    async def _remove(self, row: StoredRow, uuid: str, *, due: bool) -> None:
        if uuid in under_way(row.extra):
            return  # it may be the only one: who made it elsewhere has not looked at how that ended
        if not due and not await self._is_left_behind(row, uuid):
            return
        async with self.database.read() as tx:
            query = select(tasks.c.id).where(tasks.c.vm_uuid == uuid, tasks.c.status == "active")
            busy = (await tx.execute(query)).first()
            known = await known_of(tx, row.uuid, [uuid])
        if busy is not None or known:
            return
        log.warning("unknown_vm_removed", server=row.uuid, vm=uuid)
        await self.machines.destroy(self.servers.agent_of(row), uuid, {"include_dni": True})

    async def _is_left_behind(self, row: StoredRow, uuid: str) -> bool:
        """Whether a machine was made again elsewhere, and is there now."""
        async with self.database.read() as tx:
            elsewhere = await made_elsewhere(tx, row.uuid, uuid)
        if elsewhere is None:
            return False
        try:
            here = await made_at(self.machines.work, self.servers.agent_of(row), uuid)
        except (NodeTaskError, TimeoutError) as error:
            log.info("unknown_vm_not_looked_at", server=row.uuid, vm=uuid, error=str(error))
            return False
        return here is not None and here < elsewhere
