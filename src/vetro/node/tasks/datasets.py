"""The ``zfs_*`` tasks, on whichever pool the node has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from vetro.node.errors import DriverError, NodeError, TaskFailure
from vetro.node.tasks.parameters import array, text
from vetro.node.tasks.pool_datasets import Datasets
from vetro.node.vm_objects import as_object
from vetro.node.work.queues import TaskContext, TaskKind


class DatasetTasks:
    """Handlers over the pool's datasets."""

    def __init__(self, datasets: Datasets) -> None:
        self._datasets = datasets

    def kinds(self) -> list[TaskKind]:
        """The tasks. Tasks on a VM's storage wait for the VM's other tasks."""
        changes: list[tuple[str, str, Callable[[Mapping[str, object]], Awaitable[None]]]] = [
            ("zfs_create_dataset", "create ZFS dataset", self._create),
            ("zfs_destroy_dataset", "destroy ZFS dataset", self._destroy),
            ("zfs_rename_dataset", "rename ZFS dataset", self._rename),
            ("zfs_snapshot_dataset", "snapshot ZFS dataset", self._snapshot),
            ("zfs_rollback_dataset", "rollback ZFS dataset", self._rollback),
            ("zfs_clone_dataset", "clone ZFS dataset", self._clone),
            ("zfs_set_properties", "set properties for ZFS dataset", self._set),
        ]
        queries: list[tuple[str, str, Callable[[Mapping[str, object]], Awaitable[object]]]] = [
            ("zfs_list_datasets", "list ZFS datasets", self._list),
            ("zfs_list_snapshots", "list ZFS snapshots", self._snapshots),
            ("zfs_list_pools", "list ZFS pools", self._pools),
            ("zfs_get_properties", "get properties for ZFS dataset", self._properties),
        ]
        return [
            *(
                TaskKind(name, "zfs_tasks", self._task(what, work), target=self._vm)
                for name, what, work in changes
            ),
            *(
                TaskKind(name, "zfs_query", self._task(what, work), query=True)
                for name, what, work in queries
            ),
        ]

    def _vm(self, params: Mapping[str, object]) -> str:
        return self._datasets.vm_of(str(params.get("dataset") or "")) or ""

    def _task(
        self, what: str, work: Callable[[Mapping[str, object]], Awaitable[object]]
    ) -> Callable[[TaskContext], Awaitable[object]]:
        async def run(context: TaskContext) -> Any:
            try:
                result = await work(context.params)
            except NodeError as error:
                name = context.params.get("dataset")
                code = error.rest_code if isinstance(error, DriverError) else ""
                details = error.details if isinstance(error, TaskFailure) else {"restCode": code}
                subject = f' "{name}"' if name else ""
                raise TaskFailure(f"failed to {what}{subject}: {error}", details) from error
            return {} if result is None else result

        return run

    async def _create(self, params: Mapping[str, object]) -> None:
        await self._datasets.create(text(params, "dataset"))

    async def _destroy(self, params: Mapping[str, object]) -> None:
        await self._datasets.destroy(text(params, "dataset"))

    async def _rename(self, params: Mapping[str, object]) -> None:
        await self._datasets.rename(text(params, "dataset"), text(params, "newname"))

    async def _snapshot(self, params: Mapping[str, object]) -> None:
        await self._datasets.snapshot(text(params, "dataset"))

    async def _rollback(self, params: Mapping[str, object]) -> None:
        await self._datasets.rollback(text(params, "dataset"))

    async def _clone(self, params: Mapping[str, object]) -> None:
        await self._datasets.clone(text(params, "snapshot"), text(params, "dataset"))

    async def _set(self, params: Mapping[str, object]) -> None:
        properties = as_object(params.get("properties"), "properties")
        await self._datasets.set_properties(text(params, "dataset"), properties)

    async def _list(self, _params: Mapping[str, object]) -> Any:
        return await self._datasets.list()

    async def _snapshots(self, params: Mapping[str, object]) -> Any:
        return await self._datasets.snapshots(str(params.get("dataset") or "") or None)

    async def _pools(self, _params: Mapping[str, object]) -> object:
        return await self._datasets.pools()

    async def _properties(self, params: Mapping[str, object]) -> object:
        wanted = [str(name) for name in array(params, "properties")]
        return await self._datasets.properties(str(params.get("dataset") or ""), wanted)
