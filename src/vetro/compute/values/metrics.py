"""What the metrics say of nodes, instances and tasks of nodes (their heartbeats: ``heartbeats``)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlalchemy import Table, func, select

from vetro.compute.tables import servers, tasks, vms
from vetro.compute.values.silence import MISSING, UNKNOWN, told_state
from vetro.http import show_counts, stored_gauge
from vetro.storage import Transaction

VM_STATES = ("allocated", "creating", "running", "stopped", "failed", MISSING, UNKNOWN)
GONE = ("deleted", "destroyed")
TASK_STATES = ("queued", "active")

NODES = stored_gauge("vetro_nodes", "Node agents that are known, those that are set up and not.")
NODES_HEARD = stored_gauge(
    "vetro_nodes_heard", "Node agents that some service has heard from lately."
)
INSTANCES = stored_gauge(
    "vetro_instances",
    "Instances (containers, machines) by state.",
    state=", ".join(f"`{one}`" for one in VM_STATES) + " or `other`.",
)
NODE_TASKS = stored_gauge(
    "vetro_node_tasks",
    "Tasks of nodes that have not ended.",
    state="`queued` or `active`.",
)


async def _by(tx: Transaction, column: Any, table: Table, *where: Any) -> dict[str, float]:
    query = select(column, func.count().label("number")).select_from(table).where(*where)
    return {str(row[0]): row.number for row in await tx.execute(query.group_by(column))}


async def _of_silent(tx: Transaction, heard_here: Any) -> dict[str, int]:
    """The VMs of silent servers by the state that is told of them."""
    silent = select(servers.c.uuid, servers.c.status, servers.c.extra)
    query = select(vms.c.server_uuid, vms.c.state).where(vms.c.state.not_in(GONE), ~heard_here)
    rows = list(await tx.execute(query))
    if not rows:
        return {}
    there = {row.uuid: row for row in await tx.execute(silent.where(servers.c.status != "running"))}
    return Counter(told_state(row.state, there.get(row.server_uuid)) for row in rows)


async def read_stored(tx: Transaction) -> None:
    """Set the gauges of the room."""
    known = await tx.execute(select(func.count()).select_from(servers))
    NODES.set(known.scalar_one())
    heard = select(func.count()).select_from(servers).where(servers.c.status == "running")
    NODES_HEARD.set((await tx.execute(heard)).scalar_one())
    heard_here = vms.c.server_uuid.in_(select(servers.c.uuid).where(servers.c.status == "running"))
    found = await _by(tx, vms.c.state, vms, vms.c.state.not_in(GONE), heard_here)
    for state, number in (await _of_silent(tx, heard_here)).items():
        found[state] = found.get(state, 0) + number
    show_counts(INSTANCES, found, VM_STATES)
    unfinished = tasks.c.status.in_(TASK_STATES)
    show_counts(NODE_TASKS, await _by(tx, tasks.c.status, tasks, unfinished), TASK_STATES)
