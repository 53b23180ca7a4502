"""Tasks of service instances that died: another instance sends them again (compute-node-api.md §7)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog
from sqlalchemy import delete, insert, select, update

from vetro.compute.servers.heartbeats import seen_lately
from vetro.compute.tables import instances, tasks
from vetro.compute.work.node_tasks import PULL, PULLED, NodeTasks
from vetro.storage import StoredRow, Transaction

log = structlog.get_logger(__name__)

INSTANCE_BEAT_SECONDS = 5.0
KEPT = timedelta(days=30)
#: Groups of a VM's tasks in which a later task replaces an earlier one: sent again, the older task would
#: undo what was requested since. Updates that still run each change only what they name.
_DECIDING = (
    ("machine_boot", "machine_shutdown", "machine_reboot", "machine_kill"),
    ("machine_reprovision", "machine_rollback_snapshot"),
    ("machine_update",),
    ("machine_create",),
)


def _overtaking(task: str) -> tuple[str, ...]:
    """Tasks for the same VM that, requested later, make it wrong to send ``task`` again."""
    group = next((one for one in _DECIDING if task in one), None)
    return (*group, "machine_destroy") if group is not None else ()


class TaskTakeover:
    """Records that this instance is alive, and takes the tasks of those that are not."""

    def __init__(self, tasks_of_nodes: NodeTasks) -> None:
        self._tasks = tasks_of_nodes

    async def show_alive(self) -> None:
        """Record that this instance is alive."""
        now = self._tasks.database.steady_now()
        async with self._tasks.database.transaction() as tx:
            mine = instances.c.name == self._tasks.instance
            changed = await tx.execute(update(instances).where(mine).values(seen=now))
            if changed.rowcount == 0:
                await tx.execute(insert(instances).values(name=self._tasks.instance, seen=now))

    async def take_over(self) -> list[str]:
        """Take over the tasks of dead instances, and our own of an earlier run; their ids."""
        living = select(instances.c.name).where(seen_lately(self._tasks.database.steady_now()))
        async with self._tasks.database.read() as tx:
            alive = {row.name for row in await tx.execute(living)}
            orphaned = [
                row.id
                for row in await tx.execute(
                    select(tasks.c.id, tasks.c.instance)
                    .where(tasks.c.status == "active")
                    .order_by(tasks.c.created, tasks.c.id)
                )
                if row.instance not in (PULL, PULLED)
                and (row.instance not in alive or row.instance == self._tasks.instance)
                and not self._tasks.runs(row.id)
            ]
        taken: list[str] = []
        for id_ in orphaned:
            async with self._tasks.database.transaction() as tx:
                query = select(tasks).where(tasks.c.id == id_).with_for_update()
                row = (await tx.execute(query)).first()
                if row is None or row.status != "active":
                    continue
                if row.instance in alive and row.instance != self._tasks.instance:
                    continue  # another instance took it
                if self._tasks.runs(id_):
                    continue
                newer = await self._overtaken_by(tx, row)
                if newer is not None:
                    text = (
                        f"{newer} was asked of VM {row.vm_uuid} since: {row.task} is not repeated"
                    )
                    log.info("overtaken_node_task_not_repeated", task=row.task, id=id_)
                    await self._tasks.keep_end(
                        tx, id_, False, {"error": text, "details": {"restCode": "Withdrawn"}}
                    )
                    taken.append(id_)
                    continue
                await tx.execute(
                    update(tasks).where(tasks.c.id == id_).values(instance=self._tasks.instance)
                )
            if row.params is None:
                await self._tasks.end(
                    row, False, {"error": "the compute service was restarted meanwhile"}
                )
            else:
                log.info("node_task_taken_up", task=row.task, id=id_)
                await self._tasks.launch(id_)
            taken.append(id_)
        return taken

    async def _overtaken_by(self, tx: Transaction, row: StoredRow) -> str | None:
        """The later task of a VM that an older one would undo if it were sent again now."""
        kinds = _overtaking(row.task)
        if not row.vm_uuid or not kinds:
            return None
        standing = ("complete",) if row.task == "machine_update" else ("active", "complete")
        query = (
            select(tasks.c.task)
            .where(
                tasks.c.vm_uuid == row.vm_uuid,
                tasks.c.server_uuid == row.server_uuid,
                tasks.c.task.in_(kinds),
                tasks.c.created > row.created,
                tasks.c.status.in_(standing),
            )
            .order_by(tasks.c.created.desc())
            .limit(1)
        )
        newer = (await tx.execute(query)).first()
        return newer.task if newer is not None else None

    async def recover(self) -> None:
        """At start: take up what an earlier life of this instance left."""
        await self.show_alive()
        await self.take_over()

    async def watch(self) -> None:
        """Record life, take over tasks, and clean up once an hour, until cancelled."""
        cleaned = self._tasks.database.clock.monotonic()
        while True:
            try:
                await self.show_alive()
                await self.take_over()
                if self._tasks.database.clock.monotonic() - cleaned >= 3600:
                    cleaned = self._tasks.database.clock.monotonic()
                    await self.forget_old()
            except (OSError, TimeoutError) as error:
                log.warning("node_tasks_wait_for_database", error=str(error))
            await asyncio.sleep(INSTANCE_BEAT_SECONDS)

    async def forget_old(self) -> int:
        """Delete tasks of more than 30 days, and instances long gone; how many tasks."""
        old = self._tasks.database.clock.now() - KEPT
        async with self._tasks.database.transaction() as tx:
            gone = await tx.execute(delete(tasks).where(tasks.c.created < old))
            await tx.execute(delete(instances).where(instances.c.seen < old))
        return gone.rowcount
