"""``vetro engine``: an engine pool in a process of its own (DESIGN §3, "scaled out")."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from dataclasses import asdict, replace
from pathlib import Path

from vetro import tracing
from vetro.engine import EnginePool, EngineSettings
from vetro.identity import place_of
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.installation import KEYS, open_database
from vetro.server.listeners import listen
from vetro.server.node import connection_limits
from vetro.server.notifying import Notifying
from vetro.server.policies import check_broker, check_model_rules
from vetro.server.readiness import Readiness
from vetro.server.run_log import RunLog, database_of
from vetro.server.settings import Settings
from vetro.server.starting import explained_errors

OF_A_DEPLOYMENT = 4
"""Connections to PostgreSQL that one deployment has at most: it waits for most of its time."""


def engine_settings(settings: Settings, compute_url: str, mailbox_url: str) -> EngineSettings:
    """The settings of the engines of this process. Errors: ``StartError``."""
    check_model_rules(settings)
    check_broker(settings)
    shared = settings.shared_dir
    return EngineSettings(
        database_url=settings.database_url,
        database_connections=min(settings.server.database_connections, OF_A_DEPLOYMENT),
        database_listen_url=settings.server.database_listen_url,
        data_dir=settings.data_dir,
        compute_url=compute_url,
        service_key=data_directory.secret(shared / "service-key"),
        mailbox_url=settings.mailbox.url or mailbox_url,
        package_dir=settings.blob_directory("packages"),
        signing_key=shared / "engine-signing.pem",
        key_file=shared / KEYS,
        engine=settings.engine,
        network=replace(
            settings.network, default_dns=settings.network.default_dns or system_name_servers()
        ),
        heat=settings.heat,
        mailbox=settings.mailbox,
        rabbitmq=settings.rabbitmq,
        keystone=place_of(settings.identity),
        openstack=settings.openstack,
        tracing=settings.tracing,
        blobs=asdict(settings.blobs),
        log_level=settings.server.log_level,
        log_format=settings.server.log_format,
    )


def gateway_url(settings: Settings) -> str:
    """Where guests reach their mailboxes on every node: the external network's first address."""
    gateway = ipaddress.IPv4Network(settings.network.external_cidr)[1]
    return f"http://{gateway}:{settings.server.port}"


def check_network(settings: Settings) -> None:
    """Check that ``[network]`` has valid networks. Errors: ``StartError``."""
    given = settings.network.external_cidr
    try:
        roomy = ipaddress.IPv4Network(given).num_addresses >= 4
    except ValueError as error:
        raise StartError(
            f"[network] external_cidr: {error}",
            "Give an IPv4 network such as 172.24.4.0/24: addresses of instances come from it.",
        ) from error
    if not roomy:
        raise StartError(
            f"[network] external_cidr: {given} has no address for instances",
            "Give an IPv4 network such as 172.24.4.0/24: addresses of instances come from it.",
        )


def system_name_servers() -> list[str]:
    """The machine's name servers that a guest can reach too (none on loopback)."""
    try:
        lines = Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = [words[1] for line in lines if (words := line.split())[:1] == ["nameserver"]]
    usable: list[str] = []
    for text in found:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if address.version == 4 and not address.is_loopback:
            usable.append(text)
    return usable


def refuse_file_database(settings: Settings, command: str) -> None:
    """Refuse SQLite for a part that other processes work with. Errors: ``StartError``."""
    if settings.database_url.startswith("sqlite"):
        raise StartError(
            f"{command} works with other processes on one PostgreSQL database, and"
            f" server.database_url is {'not set' if not settings.server.database_url else 'SQLite'}",
            "Set server.database_url and server.shared_dir, the same for all processes"
            " (docs/several-services.md); one process on SQLite is 'vetro up'.",
        )


def run_engine(settings: Settings) -> int:
    """Run deployments until a signal; the exit code. Errors: ``StartError``."""
    from vetro.http import configure_logging

    with explained_errors(settings):
        configure_logging(settings.server.log_level, settings.server.log_format)
        tracing.configure(settings.tracing, "engine")
        refuse_file_database(settings, "vetro engine")
        check_network(settings)
        data_directory.prepare(settings.data_dir, settings.shared_dir)
        with data_directory.lock(settings.data_dir), contextlib.ExitStack() as sockets:
            page: socket.socket | None = None
            if settings.server.metrics_port:
                host = settings.server.metrics_host or settings.server.host
                page = sockets.enter_context(listen(host, settings.server.metrics_port))
            made = engine_settings(settings, settings.engine.compute_url, gateway_url(settings))
            pool = EnginePool(made)
            # Fork now: later this process has threads, and a fork would copy their locks.
            pool.prepare()
            try:
                asyncio.run(_work(settings, made, pool, page))
            finally:
                pool.close()
    return 0


async def _work(
    settings: Settings, made: EngineSettings, pool: EnginePool, page: socket.socket | None
) -> None:
    from vetro.http import admission, assemble, serve

    run, stop, hurry, over = RunLog("engine"), *(asyncio.Event() for _ in range(3))

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            hurry.set()
        else:
            run.stopping(f"signal {number.name}")
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    async with open_database(settings) as database:
        run.started(
            workers=settings.engine.workers,
            database=database_of(settings),
            compute=made.compute_url,
            mailboxes=made.mailbox_url,
            data_dir=str(settings.data_dir),
            metrics="" if page is None else ":".join(str(x) for x in page.getsockname()[:2]),
        )
        notifying = Notifying(settings)
        print(f"Vetro engine: {settings.engine.workers} deployments at a time", flush=True)
        async with asyncio.TaskGroup() as parts:
            engine = parts.create_task(pool.run(database), name="engine")
            ending = [engine]
            # Engines send the notifications of ended deployments, `vetro api` those of what exists.
            if notifying.notifications is not None:
                ending.append(parts.create_task(notifying.notifications.run()))
            if page is not None:
                # Neither faces nor users: only /metrics, /healthz and /readyz.
                limits = connection_limits(settings.connections)
                watched = serve(
                    assemble([], readiness=Readiness(settings, database, ("packages",))),
                    [page],
                    over,
                    drain_seconds=1,
                    limits=limits,
                    entrance=admission(limits, each_address=False),
                )
                parts.create_task(watched, name="metrics")
            with notifying.of_endings():
                await stop.wait()
                # Others take the deployments that wait; those that run here end here.
                pool.drain()
                second = asyncio.create_task(hurry.wait())
                await asyncio.wait(
                    (engine, second),
                    timeout=settings.engine.drain_seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            for one in (*ending, second):
                one.cancel()
            over.set()
        run.stopped()
