"""A compute service whose lists are read once: for evaluating many outputs at one moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from vetro.stacks.compute_port import (
    ComputePort,
    FloatingIpInfo,
    NetworkInfo,
    PortInfo,
    RouterInfo,
    SubnetInfo,
)

T = TypeVar("T")


def snapshot_of(compute: ComputePort, project_id: str) -> ComputePort:
    """`compute` with the project's networks, ports and addresses as they are at first use."""
    return cast("ComputePort", _Snapshot(compute, project_id))


class _Snapshot:
    def __init__(self, compute: ComputePort, project_id: str) -> None:
        self._compute = compute
        self._project_id = project_id
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compute, name)

    async def networks(self, project_id: str) -> list[NetworkInfo]:
        return await self._once("networks", self._compute.networks)

    async def subnets(self, project_id: str) -> list[SubnetInfo]:
        return await self._once("subnets", self._compute.subnets)

    async def routers(self, project_id: str) -> list[RouterInfo]:
        return await self._once("routers", self._compute.routers)

    async def ports(self, project_id: str) -> list[PortInfo]:
        return await self._once("ports", self._compute.ports)

    async def floating_ips(self, project_id: str) -> list[FloatingIpInfo]:
        return await self._once("floating_ips", self._compute.floating_ips)

    async def port(self, uuid: str) -> PortInfo | None:
        found = await self.ports(self._project_id)
        return next((one for one in found if one.uuid == uuid), None)

    async def floating_ip(self, uuid: str) -> FloatingIpInfo | None:
        found = await self.floating_ips(self._project_id)
        return next((one for one in found if one.uuid == uuid), None)

    async def _once(self, name: str, read: Callable[[str], Awaitable[list[T]]]) -> list[T]:
        if name not in self._read:
            self._read[name] = await read(self._project_id)
        return self._read[name]
