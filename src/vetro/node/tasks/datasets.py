"""The ``zfs_*`` tasks, on whichever pool the node has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from vetro.node.errors import DriverError, NodeError, TaskFailure
from vetro.node.tasks.parameters import array, text
from vetro.node.tasks.pool_datasets import Datasets
from vetro.node.vm_objects import as_object
from vetro.node.work.queues import TaskContext, TaskKind

Work = Callable[[Mapping[str, object]], Awaitable[object]]


class DatasetTasks:
    """Handlers over the pool's datasets."""

    def __init__(self, datasets: Datasets) -> None:
        self._datasets = datasets

    def kinds(self) -> list[TaskKind]:
        """The tasks. Tasks on a VM's storage wait for the VM's other tasks."""
        pool = self._datasets
        changes: list[tuple[str, str, Work]] = [
            ("zfs_create_dataset", "create ZFS dataset", _with(pool.create, "dataset")),
            ("zfs_destroy_dataset", "destroy ZFS dataset", _with(pool.destroy, "dataset")),
            ("zfs_rename_dataset", "rename ZFS dataset", _with(pool.rename, "dataset", "newname")),
            ("zfs_snapshot_dataset", "snapshot ZFS dataset", _with(pool.snapshot, "dataset")),
            ("zfs_rollback_dataset", "rollback ZFS dataset", _with(pool.rollback, "dataset")),
            ("zfs_clone_dataset", "clone ZFS dataset", _with(pool.clone, "snapshot", "dataset")),
            ("zfs_set_properties", "set properties for ZFS dataset", self._set),
        ]
        queries: list[tuple[str, str, Work]] = [
            ("zfs_list_datasets", "list ZFS datasets", _with(pool.list)),
            ("zfs_list_snapshots", "list ZFS snapshots", self._snapshots),
            ("zfs_list_pools", "list ZFS pools", _with(pool.pools)),
            ("zfs_get_properties", "get properties for ZFS dataset", self._properties),
        ]
        return [
            *(
                TaskKind(name, "zfs_tasks", _task(what, work), target=self._vm)
                for name, what, work in changes
            ),
            *(
                TaskKind(name, "zfs_query", _task(what, work), query=True)
                for name, what, work in queries
            ),
        ]

    def _vm(self, params: Mapping[str, object]) -> str:
        return self._datasets.vm_of(str(params.get("dataset") or "")) or ""

    async def _set(self, params: Mapping[str, object]) -> None:
        properties = as_object(params.get("properties"), "properties")
        await self._datasets.set_properties(text(params, "dataset"), properties)

    async def _snapshots(self, params: Mapping[str, object]) -> object:
        return await self._datasets.snapshots(str(params.get("dataset") or "") or None)

    async def _properties(self, params: Mapping[str, object]) -> object:
        wanted = [str(name) for name in array(params, "properties")]
        return await self._datasets.properties(str(params.get("dataset") or ""), wanted)


def _with(work: Callable[..., Awaitable[object]], *names: str) -> Work:
    """``work``, given the texts that the task must have under ``names``."""
    return lambda params: work(*(text(params, name) for name in names))


def _task(what: str, work: Work) -> Callable[[TaskContext], Awaitable[object]]:
    async def run(context: TaskContext) -> object:
        try:
            return await work(context.params)
        except NodeError as error:
            name = context.params.get("dataset")
            code = error.rest_code if isinstance(error, DriverError) else ""
            details = error.details if isinstance(error, TaskFailure) else {"restCode": code}
            subject = f' "{name}"' if name else ""
            raise TaskFailure(f"failed to {what}{subject}: {error}", **details) from error

    return run
