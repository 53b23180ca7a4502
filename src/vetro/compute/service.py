"""The compute service: its stores, its watches and its life span."""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vetro.compute.fabric import ExternalNetwork, Fabric
from vetro.compute.images import ImageStore
from vetro.compute.machines import Machines
from vetro.compute.netstate import NetworkReconciler
from vetro.compute.nodetasks import NodeTasks
from vetro.compute.servers import ServerStore
from vetro.compute.tickets import TicketStore
from vetro.storage import Database


@dataclass(frozen=True)
class ComputeSettings:
    """``node_key`` is what service and nodes show each other; images are kept in ``image_dir``."""

    image_dir: Path
    node_key: str
    external_network: str = "ext-net"
    external_cidr: str = "172.24.4.0/24"


class ComputeService:
    """All of the room on one database."""

    def __init__(self, database: Database, settings: ComputeSettings) -> None:
        self.database = database
        self.settings = settings
        self.servers = ServerStore(database)
        self.tickets = TicketStore(database)
        self.work = NodeTasks(database, self.servers, settings.node_key)
        self.fabric = Fabric(
            database, ExternalNetwork(settings.external_network, settings.external_cidr)
        )
        self.networks = NetworkReconciler(database, self.fabric, self.servers, self.work)
        self.machines = Machines(database, self.servers, self.work, self.networks)
        self.images = ImageStore(database, settings.image_dir)

    def new_uuid(self) -> str:
        """A random uuid."""
        return str(uuids.uuid4())

    @asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncGenerator[None, None]:
        """Run the watches while the face is served."""
        await self.fabric.prepare()
        await self.work.recover()
        watches = [
            asyncio.create_task(self.servers.reconcile(), name="silent servers"),
            asyncio.create_task(self.tickets.watch(), name="ticket expiry"),
            asyncio.create_task(self.networks.watch(), name="node networks"),
        ]
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await self.work.close()
