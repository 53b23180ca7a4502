"""Which of two machines with one uuid is the older one (decision 0821).

A VM that is made again elsewhere keeps its uuid and gets another time of creation; one that is moved
keeps both. So the older one of two is what was left behind. One that is newer than its record says that
the database is older than the machines: it was restored from a backup.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from vetro.compute.servers.store import Agent
from vetro.compute.tables import servers, vms
from vetro.compute.values.records import Record, iso_moment, mapping
from vetro.compute.values.silence import MISSING
from vetro.compute.work.node_tasks import NodeTaskError, NodeTasks
from vetro.storage import Transaction

_LOAD_SECONDS = 60.0
#: States of a record behind which there may be no machine.
_NOT_THERE = ("allocated", "creating", "failed", MISSING)


async def made_at(work: NodeTasks, agent: Agent, uuid: str) -> datetime | None:
    """When the VM that a node has was made; ``None``: it has none, or does not say.

    Errors: ``NodeTaskError``, ``TimeoutError``.
    """
    params: Record = {"uuid": uuid, "include_dni": True}
    try:
        there = await work.run(agent, "machine_load", params, timeout_seconds=_LOAD_SECONDS)
    except NodeTaskError as error:
        if error.rest_code == "VmNotFound":
            return None
        raise
    return iso_moment(there.get("create_timestamp"))


async def made_elsewhere(tx: Transaction, server_uuid: str, uuid: str) -> datetime | None:
    """When the VM was made that is recorded on another server, which is heard; ``None`` if none is."""
    query = (
        select(vms.c.vm)
        .join(servers, servers.c.uuid == vms.c.server_uuid)
        .where(vms.c.uuid == uuid, vms.c.server_uuid != server_uuid)
        .where(vms.c.state.not_in(_NOT_THERE), servers.c.status == "running")
    )
    row = (await tx.execute(query)).first()
    return iso_moment(mapping(row.vm).get("create_timestamp")) if row is not None else None
