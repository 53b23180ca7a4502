"""The compute service: its stores, its watches and its life span."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import uuid as uuids
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

import structlog

from vetro.blobs import BlobStore, open_blobs
from vetro.compute.networks.fabric import Fabric
from vetro.compute.networks.reconciler import NetworkReconciler
from vetro.compute.operations import evacuation, migration
from vetro.compute.operations.evacuation import watch_returning
from vetro.compute.operations.leaving import ProjectObjects
from vetro.compute.operations.parts import ServiceParts
from vetro.compute.operations.server_jobs import FACTORY_RESET, REBOOT, SETUP, UPDATE_NICS
from vetro.compute.placement.metadata import Metadata
from vetro.compute.placement.placement import Placement
from vetro.compute.servers.boot import BootParameters
from vetro.compute.servers.heartbeats import Heartbeats
from vetro.compute.servers.nics import NicRegistry
from vetro.compute.servers.samples import Samples
from vetro.compute.servers.store import ServerStore
from vetro.compute.settings import ComputeSettings
from vetro.compute.values.metrics import read_stored
from vetro.compute.values.project_use import quotas_of
from vetro.compute.values.records import Record
from vetro.compute.vms.guest_addresses import GuestMachines
from vetro.compute.vms.image_copies import ImageCopies
from vetro.compute.vms.image_store import ImageStore
from vetro.compute.vms.lifecycle import Machines
from vetro.compute.vms.unknown_vms import Strays
from vetro.compute.vms.volumes import Volumes
from vetro.compute.waitlist.tickets import TicketStore
from vetro.compute.wire import node_key
from vetro.compute.work.agents import AgentClient
from vetro.compute.work.jobs import JobRunner
from vetro.compute.work.node_tasks import NodeTasks
from vetro.compute.work.pulled import PulledTasks
from vetro.compute.work.takeover import TaskTakeover
from vetro.http import unless_closing
from vetro.http.endpoint import AnyRequest
from vetro.storage import Database, Transaction

log = structlog.get_logger(__name__)
T = TypeVar("T")
CLEAN_SECONDS = 3600.0


class ComputeService:
    """All of the room on one database."""

    def __init__(self, database: Database, settings: ComputeSettings) -> None:
        self.database = database
        self.settings = settings
        self.instance = settings.instance or f"{socket.gethostname()}/{secrets.token_hex(4)}"
        self.started = database.clock.now()
        self.log_level = "info"
        self.guests = GuestMachines(database, settings.node_key)
        self.heartbeats = Heartbeats(database, self.instance)
        self.metadata = Metadata(database, settings.metadata)
        self.servers = ServerStore(
            database,
            self.heartbeats,
            datacenter=settings.compute.datacenter_name,
            master_key=settings.node_key,
            generated=self._kernel_args,
        )
        self.samples = Samples(database, self.servers)
        self.tickets = TicketStore(
            database, expired_wait_status=settings.compute.expired_wait_status
        )
        self.work = NodeTasks(
            database,
            self.servers,
            instance=self.instance,
            agents=AgentClient(settings.agent_tls),
        )
        self.pulled = PulledTasks(self.work)
        self.takeover = TaskTakeover(self.work)
        self.quotas = quotas_of(settings.quotas)
        self.fabric = Fabric(database, settings.external, self.quotas)
        self.networks = NetworkReconciler(database, self.fabric, self.servers, self.work)
        self.placement = Placement(
            database,
            self.servers,
            settings.placement,
            metadata=self.metadata.read,
            quotas=self.quotas,
        )
        self.machines = Machines(
            database, self.servers, self.work, self.networks, self.quotas, self.placement
        )
        self.strays = Strays(
            database, self.servers, self.machines, settings.compute.unknown_vm_seconds
        )

        def files_of(purpose: str) -> BlobStore:
            images = settings.image_dir
            directory = images if purpose == "images" else images.parent / purpose
            return open_blobs(settings.blobs, purpose, directory, database)

        self.images = ImageStore(database, files_of("images"))
        self.copies = ImageCopies(
            database, self.servers, self.work, settings.compute.prefetch_images
        )
        self.volumes = Volumes(
            database,
            self.servers,
            self.work,
            files_of("volume-backups"),
            self.quotas,
        )
        self.projects = ProjectObjects(
            self.machines, self.servers, self.fabric, self.images, self.copies, self.volumes
        )
        self.nics = NicRegistry(database)
        self.boot = BootParameters(
            database,
            self.servers,
            platforms=settings.platforms,
            generated=self._kernel_args,
        )
        self.jobs: JobRunner[ServiceParts] = JobRunner(
            self,
            (
                SETUP,
                REBOOT,
                FACTORY_RESET,
                UPDATE_NICS,
                *migration.WORKFLOWS,
                *evacuation.WORKFLOWS,
            ),
        )
        self.work.note = self.jobs.note

    async def read_stored(self, tx: Transaction) -> None:
        """Set the metrics of what the database holds."""
        await read_stored(tx)

    async def _kernel_args(self, tx: Transaction) -> Record:
        """Kernel arguments of nodes that have none of their own: whether processors' threads are used."""
        default = self.settings.compute.smt_enabled_default
        return {"smt_enabled": await self.metadata.boolean_in(tx, "SMT_ENABLED_DEFAULT", default)}

    @property
    def reboots_after_setup(self) -> bool:
        """Whether a server restarts at the end of its setup."""
        return self.settings.compute.setup_reboot

    def new_uuid(self) -> str:
        """A random uuid."""
        return str(uuids.uuid4())

    def node_key(self, server_uuid: str) -> str:
        """The key of one server's agent."""
        return node_key(self.settings.node_key, server_uuid)

    async def with_capacity(self, records: list[Record]) -> list[Record]:
        """Records with ``unreserved_*``, ``score`` and the ratios that were used (§3)."""
        return await self.placement.with_capacity(records)

    async def until_closing(
        self, request: AnyRequest, waiting: Coroutine[object, object, T]
    ) -> T | None:
        """The result of a long wait; ``None`` when the process is closing."""
        return await unless_closing(request, waiting)

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None, None]:
        """Run the watches while the face is served."""
        await self.fabric.prepare()
        await self.boot.prepare()
        await self.heartbeats.load()
        await self.takeover.recover()
        watches = [
            asyncio.create_task(watch, name=name)
            for name, watch in (
                ("heartbeats", self.heartbeats.watch()),
                ("status samples", self.samples.watch()),
                ("ticket expiry", self.tickets.watch()),
                ("node networks", self.networks.watch()),
                ("networks of several nodes", self.networks.spread()),
                ("node tasks", self.takeover.watch()),
                ("jobs", self.jobs.watch()),
                ("evacuated servers", watch_returning(self)),
                ("image copies", self.copies.watch()),
                ("unknown machines", self.strays.watch()),
                ("cleaning", self._clean()),
            )
        ]
        for watch in watches:
            watch.add_done_callback(_ended)
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            await self.work.close()

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_SECONDS)
            with contextlib.suppress(OSError, TimeoutError):
                await self.tickets.forget_old()


def _ended(watch: asyncio.Task[None]) -> None:
    error = None if watch.cancelled() else watch.exception()
    if error is not None:
        log.error("part_ended", part=watch.get_name(), exc_info=error)
