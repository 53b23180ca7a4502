"""``vetro up``: every service, an engine pool and a local node agent in one process (DESIGN §3)."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

import vetro
from vetro import tracing
from vetro.engine import EnginePool, EngineSettings, owner_of
from vetro.ipv6_door import embedded
from vetro.node import NodeError
from vetro.server import data_directory
from vetro.server.compute import compute_face, compute_service
from vetro.server.definitions import definitions_of
from vetro.server.engine import check_network, engine_settings, refuse_file_database
from vetro.server.errors import StartError
from vetro.server.first_login import say_first_login
from vetro.server.former_doors import open_former
from vetro.server.installation import open_database, refuse_missing, stored_readings
from vetro.server.isolation import (
    PLAIN,
    Instances,
    choose_instances,
    kept_from_plans,
    others_at_service,
)
from vetro.server.listeners import listen, machine_has_ipv6, port_of, reachable, url_at
from vetro.server.memory import freeze_collector, keep_on_huge_pages
from vetro.server.node import (
    check_driver,
    connection_limits,
    guest_archive,
    mutual_tls,
    sweep_builds,
)
from vetro.server.notifying import Notifying
from vetro.server.openstack import (
    cloud_quotas_of,
    delegations_of,
    network_driver_of,
    platform_of,
)
from vetro.server.policies import networks_of, policy_of
from vetro.server.readiness import Readiness
from vetro.server.registration import services
from vetro.server.run_log import RunLog, database_of
from vetro.server.settings import Settings
from vetro.server.starting import explained_errors
from vetro.storage import StorageError

if TYPE_CHECKING:
    from vetro.environments import TaskStore
    from vetro.http import (
        Admission,
        Assembly,
        ConnectionLimits,
        Customs,
        Face,
        Readings,
        ServicePart,
    )
    from vetro.identity import ProjectRemoval
    from vetro.storage import Database

__all__ = ["StartError", "run_up"]

log = structlog.get_logger(__name__)


def run_up(settings: Settings) -> int:
    """Run until a signal; the exit code. Errors: ``StartError``."""
    with explained_errors(settings):
        return _run(settings, engines=True)


def run_api(settings: Settings) -> int:
    """``vetro api``: all faces, without engines and without a node. Errors: ``StartError``."""
    refuse_file_database(settings, "vetro api")
    with explained_errors(settings):
        return _run(replace(settings, node=replace(settings.node, enabled=False)), engines=False)


def _run(settings: Settings, *, engines: bool) -> int:
    import uvloop

    from vetro.http import configure_logging

    configure_logging(settings.server.log_level, settings.server.log_format)
    tracing.configure(settings.tracing, "up" if engines else "api")
    check_network(settings)
    limits = connection_limits(settings.connections)
    instances = choose_instances(settings, others_at_service(settings))
    directory, shared = settings.data_dir, settings.shared_dir
    data_directory.prepare(directory, shared)
    with data_directory.lock(directory), contextlib.ExitStack() as sockets:
        if settings.node.enabled:
            check_driver(directory / "node", instances.driver)
        main = sockets.enter_context(listen(settings.server.host, settings.server.port))
        port = port_of(main)
        metrics: socket.socket | None = None
        if settings.server.metrics_port:
            host = settings.server.metrics_host or settings.server.host
            metrics = sockets.enter_context(listen(host, settings.server.metrics_port))
        guests: list[socket.socket] = []
        appearing: list[str] = []
        mailbox_url = f"http://127.0.0.1:{port}"
        if instances.driver not in PLAIN:
            # Guests reach the node at the external network's first address, and only /agents there.
            gateway = str(ipaddress.IPv4Network(settings.network.external_cidr)[1])
            # Other nodes relay there themselves; a main socket for all addresses has that one already.
            doors = [gateway] if settings.server.host not in ("0.0.0.0", "::") else []  # noqa: S104
            appearing = [gateway, *([embedded(gateway)] if machine_has_ipv6() else [])]
            if settings.server.host != "::" and machine_has_ipv6():
                doors.append(embedded(gateway))
            for address in doors if engines else ():
                listener = listen(address, port, before_address_exists=True)
                guests.append(sockets.enter_context(listener))
            mailbox_url = f"http://{gateway}:{port}"
        elif settings.server.host != "localhost":
            mailbox_url = url_at(reachable(settings.server.host), port)
        compute_url = f"{url_at(reachable(settings.server.host), port)}/compute"
        engine = engine_settings(settings, compute_url, mailbox_url)
        pool = EnginePool(engine) if engines else None
        if pool is not None:
            # Fork now: later this process has threads, and a fork would copy their locks.
            pool.prepare()
        try:
            up = _Up(settings, engine, pool, instances, limits, appearing)
            # uvloop takes less processor time for a request, but a command whose child keeps its
            # pipes never ends there: a process with a node has asyncio's loop (decision 0222).
            loop = None if settings.node.enabled else uvloop.new_event_loop
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(up.serve(main, guests, metrics))
        finally:
            tracing.flush()
            if pool is not None:
                pool.close()
    return 0


@dataclass(eq=False, repr=False)
class _Up:
    """The running process."""

    settings: Settings
    engine: EngineSettings
    pool: EnginePool | None
    instances: Instances
    limits: ConnectionLimits
    appearing: Sequence[str]
    """Addresses of this machine that its node makes, for guests to come to."""

    def __post_init__(self) -> None:
        self.owner = owner_of(self.settings.data_dir) if self.pool is None else self.pool.owner
        self._ready = Readiness(self.settings, None)
        """Of the database too, once it is open."""
        self._work: TaskStore | None = None
        self._customs: Customs | None = None
        self._readings: Readings | None = None
        self._run = RunLog("service")
        self._failed: tuple[str, BaseException | None] | None = None
        """The part that ended, and its error."""
        self._notifying = Notifying(self.settings)
        self.missing: dict[str, str] = {"node": "the local node agent has not registered yet"}

    async def serve(
        self,
        main: socket.socket,
        guests: list[socket.socket],
        metrics: socket.socket | None = None,
    ) -> None:
        """Assemble, serve, and run until a signal."""
        from vetro import identity
        from vetro.blobs import BLOB_SUFFIXES
        from vetro.http import (
            Cors,
            admission,
            assemble,
            dashboard_face,
            raise_descriptor_limit,
            serve,
        )
        from vetro.http.client import HttpClient

        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            stop.set()
            self._run.stopping(f"signal {number.name}")

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal, number)
        raise_descriptor_limit()
        # One for all ports: they share the descriptors of this process.
        entrance = admission(self.limits, each_address=not self.settings.server.trust_proxy)
        key = data_directory.secret(self.settings.shared_dir / "dashboard-key")
        async with AsyncExitStack() as stack:
            rooms = await stack.enter_async_context(self._rooms(port_of(main)))
            faces, agents, database, removal = rooms
            self._ready = Readiness(
                self.settings, database, BLOB_SUFFIXES, has_node=self.settings.node.enabled
            )
            origins = self.settings.server.allowed_origins
            shown = [*faces]
            if known := self.settings.identity.url:
                seconds = self.settings.identity.answer_seconds
                client = await stack.enter_async_context(HttpClient(timeout_seconds=seconds))
                shown.append(identity.forwarding_face(known, client))
            directory = Path(vetro.__file__).parent / "_dashboard"
            dashboard = dashboard_face(shown, directory, key, self._parts, self._customs)
            serving = asyncio.create_task(
                serve(
                    assemble(
                        [*faces, agents, dashboard],
                        readiness=self._readiness,
                        isolation=self.instances.holds,
                        cors=Cors(origins) if origins else None,
                        trust_proxy=self.settings.server.trust_proxy,
                        readings=self._readings,
                    ),
                    [main],
                    stop,
                    drain_seconds=self.settings.server.drain_seconds,
                    announce_seconds=self.settings.server.announce_seconds,
                    limits=self.limits,
                    entrance=entrance,
                ),
                name="http",
            )
            others: list[asyncio.Task[None]] = [
                asyncio.create_task(sweep_builds(self.settings.data_dir), name="build leftovers"),
                asyncio.create_task(keep_on_huge_pages(), name="huge pages"),
                self._task(self._history(database), "history", stop),
                self._task(removal.worker(self.owner).work(), "projects", stop),
            ]
            if self.pool is not None:
                others.append(self._task(self.pool.run(database), "engine", stop))
            if self.engine.engine.task_timeout:
                others.append(self._task(self._unanswered(), "unanswered deployments", stop))
            stack.enter_context(self._notifying.of_endings())
            for name, work in self._notifying.works(database, self.owner).items():
                others.append(self._task(work, name, stop))
            former = await self._former_doors(database, [main, *guests], stack)
            self._say_started(main, guests, metrics)
            stack.callback(self._run.stopped)
            guests = [*guests, *former]
            if guests:
                # The agents' face is alive already; these sockets only expose it to the guests.
                door = _Door(assemble([agents]), self.limits, entrance)
                others.append(self._task(door.serve(guests, stop), "guests", stop))
            if metrics is not None:
                # No faces: only /metrics, /healthz and /readyz.
                operations = assemble(
                    [],
                    readiness=self._readiness,
                    isolation=self.instances.holds,
                    readings=self._readings,
                )
                page = _Door(operations, self.limits, entrance)
                others.append(self._task(page.serve([metrics], stop), "metrics", stop))
            if self.settings.node.enabled:
                others.append(self._task(self._node(port_of(main), entrance), "node", stop))
            try:
                await serving
            finally:
                stop.set()
                for other in others:
                    other.cancel()
                await asyncio.gather(*others, return_exceptions=True)
        if self._failed is not None:
            # Who watches it (systemd) starts again what failed, not what ended in order.
            why, error = self._failed
            if isinstance(error, OSError | StorageError):
                raise error
            raise StartError(f"The service has stopped: {why}") from error

    async def _former_doors(
        self, database: Database, served: list[socket.socket], stack: AsyncExitStack
    ) -> list[socket.socket]:
        """The sockets of doors where guests come that are not served any more."""
        from vetro import messaging

        doors = await messaging.Mailboxes(database).doors()
        bound = {(str(host), int(port)) for host, port, *_ in (x.getsockname() for x in served)}
        sockets = stack.enter_context(contextlib.ExitStack())
        return open_former(doors, bound, self.appearing, sockets)

    def _task(
        self, work: Coroutine[object, object, None], name: str, stop: asyncio.Event
    ) -> asyncio.Task[None]:
        """Run a part of the process; if it fails, the process ends, with the reason in the log."""
        task = asyncio.create_task(work, name=name)

        def ended(done: asyncio.Task[None]) -> None:
            if done.cancelled() or stop.is_set():
                return
            error = done.exception()
            # Errors of the machine, the database and the settings are said in one line at the end.
            known = isinstance(error, OSError | StorageError | NodeError | StartError)
            log.error(
                "part_ended",
                part=name,
                error=str(error) or repr(error),
                exc_info=None if known else error,
            )
            why = f"its part {name} ended: {str(error) or repr(error)}"
            self._failed = self._failed or (why, error)
            self._run.stopping(why)
            stop.set()

        task.add_done_callback(ended)
        return task

    def _say_started(
        self, main: socket.socket, guests: list[socket.socket], metrics: socket.socket | None
    ) -> None:
        def shown(listener: socket.socket | None) -> str:
            return "" if listener is None else ":".join(str(x) for x in listener.getsockname()[:2])

        self._run.started(
            listens=shown(main),
            guests=shown(next(iter(guests), None)),
            metrics=shown(metrics),
            database=database_of(self.settings),
            data_dir=str(self.settings.data_dir),
            driver=self.instances.driver if self.settings.node.enabled else "none",
            workers=None if self.pool is None else self.engine.engine.workers,
            broker=self.settings.rabbitmq.host,
        )

    async def _history(self, database: Database) -> None:
        from vetro.environments import HistoryPruning

        pruning = HistoryPruning(database, self.settings.history)
        await (await pruning.worker(self.owner)).work()

    async def _unanswered(self) -> None:
        from vetro.engine import kept_attributes
        from vetro.environments import UnansweredTasks

        assert self._work is not None
        kept = partial(kept_attributes, self._work.database)
        failing = UnansweredTasks(self._work, self.engine.engine.task_timeout, kept)
        await (await failing.worker(self.owner)).work()

    @asynccontextmanager
    async def _rooms(
        self, port: int
    ) -> AsyncGenerator[tuple[list[Face], Face, Database, ProjectRemoval], None]:
        from vetro import environments, guest, identity, messaging, repository, stacks
        from vetro.blobs import BLOB_SUFFIXES
        from vetro.http import Customs, discard_abandoned_uploads
        from vetro.quotas import ProjectQuotas
        from vetro.server.packages import catalog_of
        from vetro.server.projects import Holdings

        settings = self.settings
        async with open_database(settings) as database:
            url = url_at(reachable(settings.server.host), port)
            service = compute_service(settings, database)
            for purpose in BLOB_SUFFIXES:
                discard_abandoned_uploads(settings.blob_directory(purpose))
            policy = policy_of(settings, environments.catalog_policy)
            self._customs = Customs(
                settings.dashboard,
                settings.api.package_size_limit,
                partial(environments.allowed_rules, policy),
            )
            packages = catalog_of(settings, database)
            await refuse_missing("packages", await packages.archives(), packages.blobs)
            await refuse_missing("images", await service.images.files(), service.images.blobs)
            rooms = environments.Environments(
                database,
                environments.EnvironmentSettings(
                    model_limit=settings.engine.model_limit,
                    network_driver=settings.network.driver or "neutron",
                    network_driver_of=network_driver_of(settings),
                    networks=networks_of(settings),
                    quotas=settings.quotas,
                ),
                delegations_of(settings),
            )
            self._work = rooms.tasks
            definitions = definitions_of(settings, database)
            limited = [rooms.store.quotas]
            if settings.openstack.stacks == "native":
                # Heat's instances are OpenStack's, and so are their quotas.
                limited.append(service.quotas)
            quotas = ProjectQuotas(database, limited, lambda project: exists(project))
            known = identity.Identity(
                database,
                settings.identity,
                Holdings(database, rooms.tasks, packages, service, quotas),
            )

            async def exists(project: str) -> bool:
                # Keystone's projects are its own: limits may be given before it is asked for any.
                return known.keystone is not None or await known.project(project) is not None

            tokens = known.authenticator()
            identity_url = settings.identity.url or f"{url}/identity/v3"
            mailboxes = messaging.Mailboxes(
                database,
                settings=messaging.MailboxSettings(sizes=settings.mailbox),
            )
            faces = [
                environments.environments_face(
                    packages,
                    rooms.tasks,
                    tokens,
                    identity_url=identity_url,
                    static_call_timeout=settings.engine.static_call_timeout,
                    debug=settings.server.debug,
                    api=settings.api,
                    service_types=definitions.service_types,
                    service_form=definitions.service_form,
                    policy=policy,
                    stats=settings.stats,
                    audit=self._notifying.audit(),
                    quotas=quotas,
                    cloud_quotas=cloud_quotas_of(settings),
                    platform=platform_of(
                        settings, stacks.ComputeOffers(f"{url}/compute", self.engine.service_key)
                    ),
                ),
                known.face(
                    [
                        identity.CatalogEndpoint(
                            "identity", "vetro-identity", f"{url}/identity/v3"
                        ),
                        *services(url),
                    ]
                ),
                repository.repository_face(
                    definitions,
                    tokens,
                    policy=policy_of(settings, repository.repository_policy),
                    identity_url=identity_url,
                    debug=settings.server.debug,
                ),
                compute_face(settings, service, tokens),
            ]
            if known.keystone is not None:
                faces = [one for one in faces if one.name != "identity"]
            door = urlsplit(self.engine.mailbox_url).netloc
            agents = mailboxes.face(guest.archive_bytes, door, service.guests)
            self._readings = stored_readings(
                database,
                [
                    rooms.read_stored,
                    mailboxes.read_stored,
                    stacks.read_stored,
                    service.read_stored,
                ],
            )
            # Last of all: the line that says that Vetro listens implies valid settings.
            await say_first_login(settings, known, url, self.instances)
            freeze_collector()
            yield faces, agents, database, known.removal

    async def _node(self, port: int, entrance: Admission) -> None:
        from vetro.node import NodeAgent, NodeSettings

        directory = self.settings.data_dir
        agent = NodeAgent(
            NodeSettings(
                directory / "node",
                replace(
                    self.settings.node,
                    compute_url=f"{url_at(reachable(self.settings.server.host), port)}/compute",
                    key=data_directory.secret(self.settings.shared_dir / "node-key"),
                    driver=self.instances.driver,
                ),
                nearby_images=self.settings.blob_directory("images"),
                guest_archive=await asyncio.to_thread(guest_archive, directory),
                tls=mutual_tls(self.settings.tls),
                limits=self.limits,
                hidden=kept_from_plans(self.settings),
            ),
            entrance,
        )

        async def ready() -> None:
            await agent.registered.wait()
            self.missing.pop("node", None)

        watching = asyncio.create_task(ready(), name="node registration")
        try:
            await agent.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _parts(self) -> list[ServicePart]:
        from vetro.server.parts import parts_of

        workers = None if self.pool is None else self.engine.engine.workers
        wrong = await self._readiness()
        return parts_of(self.settings, wrong, workers=workers, instances=self.instances)

    async def _readiness(self) -> Mapping[str, str]:
        waited_for = self.missing if self.settings.node.enabled else {}
        return waited_for | await self._ready()


class _Door:
    """Further sockets for faces whose life spans run elsewhere."""

    def __init__(self, assembly: Assembly, limits: ConnectionLimits, entrance: Admission) -> None:
        self.assembly = assembly
        self.limits = limits
        self.entrance = entrance

    async def serve(self, listeners: list[socket.socket], stop: asyncio.Event) -> None:
        """Serve until ``stop``."""
        from vetro.http import serve

        await serve(
            self.assembly,
            listeners,
            stop,
            drain_seconds=1,
            limits=self.limits,
            entrance=self.entrance,
            alive=True,
        )
