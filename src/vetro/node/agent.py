"""The node agent: puts the parts together and runs them until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from vetro import __version__
from vetro.compute.wire import relay_stamp
from vetro.http import (
    COMPUTE_FAULTS,
    Admission,
    admission,
    raise_descriptor_limit,
    serve_application,
)
from vetro.http.tls import TlsError
from vetro.node.boot_record import is_first_since_boot, keep_boot
from vetro.node.driver_record import REAL_DRIVERS, keep_driver, refuse_other_driver
from vetro.node.drivers import Driver, Hypervisor, Hypervisors
from vetro.node.errors import ConfigurationError, NodeError
from vetro.node.images.store import ImageStore
from vetro.node.migration import Migrations
from vetro.node.network import NetworkApplier
from vetro.node.network.mailbox_proxy import GuestDoor, former_ports
from vetro.node.network.nic_tags import NicTags
from vetro.node.reports.hotplug import file_changes, link_changes
from vetro.node.reports.images import ImageReports
from vetro.node.reports.reporter import Reporter
from vetro.node.reports.status import StatusReader
from vetro.node.reports.sysinfo import (
    PROTOCOL_VERSION,
    NodeFacts,
    default_address,
    gather,
    note_creation,
    server_uuid,
    significant,
)
from vetro.node.service_client import ServiceClient
from vetro.node.settings import NodeSettings
from vetro.node.storage import Pool, open_pool
from vetro.node.storage.volumes import VolumeStore
from vetro.node.streams.servers import Streams
from vetro.node.tasks import NodeParts, register_all
from vetro.node.tasks.agents import installed
from vetro.node.tasks.host import Host, SimulatedHost
from vetro.node.tasks.images import ImageTasks
from vetro.node.vm_objects import MachineStore
from vetro.node.work.api import TaskApi
from vetro.node.work.fences import Fences
from vetro.node.work.history import History
from vetro.node.work.pull import Puller
from vetro.node.work.queues import TaskRunner

log = structlog.get_logger(__name__)

GRACE_SECONDS = 10.0
_COLLECT_SECONDS = 3600.0


class NodeAgent:
    """One node. ``await run()`` until cancelled or ``stop()``; VMs keep running without the agent.

    ``ready`` is set when the task API listens; ``registered`` when the service can place VMs here.
    ``entrance``: a connection limit shared with other servers of this process, if there are any.
    Errors of ``run``: ``ConfigurationError`` when this machine cannot be a node like this.
    """

    def __init__(self, settings: NodeSettings, entrance: Admission | None = None) -> None:
        self.settings = settings
        self._entrance = entrance
        self.ready = asyncio.Event()
        self.registered = asyncio.Event()
        self.server_uuid = ""
        self.port = 0
        self._stop = asyncio.Event()
        self._lanes: list[tuple[str, Coroutine[Any, Any, None]]] = []
        self._machine_changed: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """End ``run`` gracefully: running tasks get some seconds to end."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until stopped."""
        settings = self.settings
        try:
            settings.data_dir.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"The data directory {settings.data_dir} cannot be created: {error.strerror}"
            ) from error
        self.server_uuid = settings.node.server_uuid.lower() or server_uuid(
            Path("/"), settings.data_dir / "server.json"
        )
        note_creation(settings.data_dir)
        tls = _client_tls(settings)
        listener = _listen(settings.node.listen_host, settings.node.port)
        self.port = int(listener.getsockname()[1])
        client = ServiceClient(
            settings.node.compute_url,
            self.server_uuid,
            settings.node.key,
            __version__,
            tls=tls,
        )
        try:
            async with self._parts(client) as (runner, api):
                await self._serve(api, runner, listener)
        finally:
            listener.close()
            await client.close()

    @contextlib.asynccontextmanager
    async def _parts(
        self, client: ServiceClient
    ) -> AsyncGenerator[tuple[TaskRunner, TaskApi], None]:
        settings = self.settings
        history = History(settings.data_dir / "tasks")
        history.open()
        before = refuse_other_driver(settings.data_dir, settings.node.driver)
        store = MachineStore(settings.data_dir / "vms")
        store.open()
        pool = await open_pool(settings.node.pool, settings.data_dir, settings.node.pool_source)
        volumes = VolumeStore(
            settings.data_dir / "volumes", pretend=settings.node.driver not in REAL_DRIVERS
        )
        hypervisors, images = self._hypervisors(store, client, pool, volumes)
        await images.open()
        if before != settings.node.driver:
            if before and settings.node.driver in REAL_DRIVERS:
                # Of another driver they may be records without files.
                await images.collect({str(vm.get("image_uuid")) for vm in store}, 0)
            keep_driver(settings.data_dir, settings.node.driver)
        tags = NicTags(settings.data_dir / "networking.json")
        admin_ip = settings.node.admin_ip or _admin_address(settings.node.listen_host)
        ports = settings.data_dir / "doors.json"
        key = settings.node.key
        door = GuestDoor(
            settings.node.compute_url,
            _client_tls(settings),
            partial(relay_stamp, key, self.server_uuid) if key else None,
        )
        if settings.relay_guests:
            door.former = former_ports(ports, door.port, inhabited=bool(list(store)))
        network = (
            NetworkApplier(
                settings.node.prefix,
                settings.data_dir / "network.json",
                admin_ip,
                tags.interface,
                door.open if settings.relay_guests else None,
            )
            if settings.node.driver in REAL_DRIVERS
            else None
        )
        driver = Driver(hypervisors, store, images, self._vm_facts, volumes)
        facts = self._facts(driver, hypervisors, admin_ip, tags)

        async def sysinfo() -> dict[str, object]:
            stats = await pool.trees.stats()
            return await asyncio.to_thread(gather, facts, stats)

        def agents() -> list[dict[str, object]]:
            own: dict[str, object] = {
                "name": "cn-agent", "version": PROTOCOL_VERSION, "package_version": __version__
            }  # fmt: skip
            return [own, *installed(settings.data_dir / "agents")]

        status = StatusReader(driver, settings.data_dir, settings.pool, pool.trees)
        reporter = Reporter(
            client,
            sysinfo=sysinfo,
            significant=significant,
            status=status.sample,
            changes=status.changes,
            agents=agents,
            heartbeat_seconds=settings.heartbeat_seconds,
            registered=self.registered,
            on_lost=network.forget_version if network is not None else lambda: None,
        )
        self._machine_changed = reporter.machine_changed
        runner = TaskRunner(
            history,
            limit_seconds=settings.task_limit_seconds,
            concurrency=settings.concurrency,
            fences=Fences(settings.data_dir / "fences.json"),
            server_uuid=self.server_uuid,
            log_directory=Path(settings.node.task_log_dir) if settings.node.task_log_dir else None,
        )
        streams, migrations = Streams(admin_ip), Migrations(admin_ip)
        image_tasks = register_all(
            runner,
            NodeParts(
                driver=driver,
                images=images,
                network=network,
                pool=pool,
                pool_name=settings.pool,
                tags=tags,
                streams=streams,
                migrations=migrations,
                sysinfo=sysinfo,
                changed=reporter.machine_changed,
                refresh_agents=reporter.send_agents,
                describe=client.image,
                fetch=client.image_file,
                publish=client.publish_image,
                data_dir=settings.data_dir,
                server_uuid=self.server_uuid,
                host=SimulatedHost()
                if driver.name == "simulated"
                else Host(settings.reboot_command),
                fetch_backup=client.backup_file,
                publish_backup=client.publish_backup,
            ),
        )
        driver.watch(reporter.mark_dirty)

        # Networks first: instances that start with the agent need their bridges.
        if network is not None:
            try:
                await network.restore()
            except NodeError as error:
                log.error("networks_not_restored", error=str(error))
        await driver.open()
        self._lanes = [
            ("reports", reporter.run()),
            ("hot-plug", link_changes(reporter.machine_changed)),
            (
                "files",
                file_changes(
                    [tags.file, settings.data_dir / "setup.json"], reporter.machine_changed
                ),
            ),
            ("images", self._collect_images(image_tasks)),
            ("image reports", ImageReports(client, images, self.registered).run()),
        ]
        if settings.node.pull:
            self._lanes.append(("pull", Puller(client, runner).run()))
        try:
            if settings.autoboot and is_first_since_boot(
                settings.data_dir, inhabited=await driver.runs_any()
            ):
                await driver.autoboot()
            # Afterwards: an agent that is killed in between goes on with the rest.
            keep_boot(settings.data_dir)
            yield (
                runner,
                TaskApi(runner, self.server_uuid, settings.node.key, __version__, images),
            )
        finally:
            for _name, lane in self._lanes:
                # Lanes that were never started, because the agent failed before.
                lane.close()
            await door.close()
            await streams.close()
            await migrations.close()
            await runner.close(GRACE_SECONDS if self._stop.is_set() else 0)
            if network is not None and not list(store):
                # No instance needs the networks: an agent that ends leaves an idle machine as it
                # found it.
                await network.withdraw()
            await driver.close()

    async def _collect_images(self, tasks: ImageTasks) -> None:
        """Remove images that were not used for long, at intervals."""
        keep = self.settings.node.image_keep_days * 86400
        while keep > 0:
            await asyncio.sleep(min(_COLLECT_SECONDS, keep))
            try:
                await tasks.collect_unused(keep)
            except NodeError as error:
                log.error("unused_images_not_removed", error=str(error))

    def _hypervisors(
        self, store: MachineStore, client: ServiceClient, pool: Pool, volumes: VolumeStore
    ) -> tuple[Hypervisors, ImageStore]:
        settings = self.settings
        archive = settings.guest_archive
        if archive is not None and not archive.is_file():
            raise ConfigurationError(
                f"The guest agent {archive} is missing: 'make guest' builds it"
            )
        directory = settings.data_dir / "images"
        if settings.node.driver in REAL_DRIVERS:
            return self._real_hypervisors(store, client, pool, volumes)
        images = ImageStore(directory, describe=client.image, fetch=client.image_file, id_base=None)
        if settings.node.driver == "process":
            from vetro.node.drivers.process import ProcessHypervisor

            return Hypervisors(
                store, ProcessHypervisor(store, archive, hidden=settings.hidden)
            ), images
        from vetro.node.drivers.simulated import SimulatedHypervisor

        return Hypervisors(store, SimulatedHypervisor(store)), images

    def _real_hypervisors(
        self, store: MachineStore, client: ServiceClient, pool: Pool, volumes: VolumeStore
    ) -> tuple[Hypervisors, ImageStore]:
        """The hypervisors for containers, virtual machines or both; imports only what is used."""
        settings = self.settings
        names = settings.node.driver.split("+")
        host = None
        vm_group = None
        if "lxc" in names:
            from vetro.node.drivers.lxc.host import inspect

            host = inspect(
                settings.node.prefix,
                settings.data_dir,
                allow_privileged=settings.node.allow_privileged,
            )
        if "qemu" in names:
            from vetro.node.drivers.qemu.daemon import QEMU_UID as vm_group
        images = ImageStore(
            settings.data_dir / "images",
            describe=client.image,
            fetch=client.image_file,
            fetch_from=client.image_from_node,
            id_base=host.id_base if host is not None else None,
            trees=pool.trees,
            layered=pool.layered,
            keep_files=settings.share_images,
            vm_group=vm_group,
            nearby=settings.nearby_images,
        )
        hypervisors: list[Hypervisor] = []
        if host is not None:
            from vetro.node.drivers.lxc.hypervisor import LxcHypervisor

            hypervisors.append(
                LxcHypervisor(host, store, images, settings.guest_archive, pool, volumes)
            )
        if "qemu" in names:
            from vetro.node.drivers.qemu.hypervisor import QemuHypervisor

            hypervisors.append(
                QemuHypervisor(
                    settings.data_dir / "qemu",
                    store,
                    images,
                    prefix=settings.node.prefix,
                    guest_archive=settings.guest_archive,
                    vnc_host=settings.node.admin_ip or _admin_address(settings.node.listen_host),
                    found_out=lambda: self._machine_changed(),
                    volumes=volumes,
                )
            )
        return Hypervisors(store, *hypervisors), images

    def _vm_facts(self) -> dict[str, object]:
        return {
            "server_uuid": self.server_uuid,
            "datacenter_name": self.settings.datacenter_name,
            "zpool": self.settings.pool,
        }

    def _facts(
        self, driver: Driver, hypervisors: Hypervisors, admin_ip: str, tags: NicTags
    ) -> NodeFacts:
        settings = self.settings
        return NodeFacts(
            uuid=self.server_uuid,
            datacenter_name=settings.datacenter_name,
            dns_domain=settings.dns_domain,
            admin_ip=admin_ip,
            tags=tags,
            port=self.port,
            pool=settings.pool,
            prefix=settings.node.prefix,
            brands=tuple(driver.brands),
            driver=driver.name,
            features=tuple(hypervisors.features),
            package_version=__version__,
            headnode=settings.headnode,
            data_dir=settings.data_dir,
            about=hypervisors.about,
        )

    async def _serve(self, api: TaskApi, runner: TaskRunner, listener: socket.socket) -> None:
        limits = self.settings.limits
        if self._entrance is None:
            raise_descriptor_limit()
            self._entrance = admission(limits, each_address=True)
        closing = asyncio.Event()
        serving = serve_application(
            api,
            [listener],
            closing,
            entrance=self._entrance,
            limits=limits,
            drain_seconds=GRACE_SECONDS + 2,
            faults=COMPUTE_FAULTS,
            tls=self.settings.tls,
        )
        work = {
            asyncio.create_task(serving, name="task API"),
            *(asyncio.create_task(lane, name=name) for name, lane in self._lanes),
        }
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        log.info("node_ready", server=self.server_uuid, port=self.port)
        self.ready.set()
        try:
            done, _ = await asyncio.wait({*work, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
        finally:
            api.closing = True
            stopping.cancel()
            await runner.close(GRACE_SECONDS if self._stop.is_set() else 0)
            closing.set()
            for task in work:
                if task.get_name() != "task API":
                    task.cancel()
            await asyncio.wait({*work, stopping})
            for task in work:
                error = None if task.cancelled() else task.exception()
                if error is not None:
                    log.error("part_ended", part=task.get_name(), error=repr(error))


def _client_tls(settings: NodeSettings) -> ssl.SSLContext | None:
    if settings.tls is None:
        return None
    try:
        settings.tls.server_context()  # also checks what the listener will need
        return settings.tls.client_context()
    except TlsError as error:
        raise ConfigurationError(f"TLS: {error}") from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay (40 ms per answer) off only for sockets with an explicit protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(256)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigurationError(
            f"The task API cannot listen on {host} port {port}: {error.strerror};"
            " choose another address or port 0"
        ) from error
    return listener


def _admin_address(listen_host: str) -> str:
    try:
        address = ipaddress.ip_address(listen_host)
    except ValueError:
        return socket.gethostbyname(listen_host)
    return default_address() if address.is_unspecified else str(address)
