"""A compute service whose lists are read once: for evaluating many outputs at one moment."""

from __future__ import annotations

from typing import Any, cast

from vetro.compute.client.calls import FLOATING_IPS, PORTS, AnyKind
from vetro.stacks.compute_service.port import ComputePort


def snapshot_of(compute: ComputePort, project_id: str) -> ComputePort:
    """`compute` with the project's networks, ports and addresses as they are at first use."""
    return cast("ComputePort", _Snapshot(compute, project_id))


class _Snapshot:
    def __init__(self, compute: ComputePort, project_id: str) -> None:
        self._compute = compute
        self._project_id = project_id
        self._read: dict[str, list[Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compute, name)

    async def all(self, kind: AnyKind, project_id: str) -> list[Any]:
        if kind.path not in self._read:
            self._read[kind.path] = await self._compute.all(kind, self._project_id)
        return self._read[kind.path]

    async def find(self, kind: AnyKind, uuid: str) -> Any:
        if kind not in (PORTS, FLOATING_IPS):
            return await self._compute.find(kind, uuid)
        found = await self.all(kind, self._project_id)
        return next((one for one in found if one.uuid == uuid), None)
