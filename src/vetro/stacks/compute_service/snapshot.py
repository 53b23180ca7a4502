"""A compute service whose objects are read once: for evaluating many outputs at one moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from vetro.compute.client.calls import FLOATING_IPS, NETWORKS, PORTS, AnyKind
from vetro.compute.wire import Port
from vetro.stacks.compute_service.port import ComputePort

_LISTS: tuple[AnyKind, ...] = (NETWORKS, PORTS, FLOATING_IPS)


def snapshot_of(compute: ComputePort, project_id: str) -> ComputePort:
    """`compute` with the project's networks, ports, addresses and servers as at their first use."""
    return cast("ComputePort", _Snapshot(compute, project_id))


class _Snapshot:
    def __init__(self, compute: ComputePort, project_id: str) -> None:
        self._compute = compute
        self._project_id = project_id
        self._read: dict[str, asyncio.Future[Any]] = {}
        self._ports: dict[str | None, list[Port]] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._compute, name)

    async def all(self, kind: AnyKind, project_id: str) -> list[Any]:
        if kind.path not in self._read:
            # The attributes of a server need all of them: they are read side by side.
            await asyncio.gather(
                *(
                    self._begin(each.path, partial(self._compute.all, each, self._project_id))
                    for each in dict.fromkeys((kind, *_LISTS))
                )
            )
        return await self._read[kind.path]

    async def ports_of(self, project_id: str, server: str) -> list[Port]:
        if self._ports is None:
            ports: list[Port] = await self.all(PORTS, project_id)
            self._ports = {}
            for port in ports:
                self._ports.setdefault(port.device_uuid, []).append(port)
        return self._ports.get(server, [])

    async def server(self, uuid: str) -> Any:
        return await self._begin(uuid, partial(self._compute.server, uuid))

    async def find(self, kind: AnyKind, uuid: str) -> Any:
        if kind not in (PORTS, FLOATING_IPS):
            return await self._compute.find(kind, uuid)
        found = await self.all(kind, self._project_id)
        return next((one for one in found if one.uuid == uuid), None)

    def _begin(
        self, key: str, read: Callable[[], Coroutine[object, object, object]]
    ) -> asyncio.Future[object]:
        """The answer to the first request with this key; outputs that ask meanwhile wait for it."""
        if key not in self._read:
            self._read[key] = asyncio.ensure_future(read())
        return self._read[key]
