"""``vetro node``: one machine's node agent as a process of its own (DESIGN §3, "scaled out")."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import structlog

from vetro import tracing
from vetro.http import ConnectionLimits
from vetro.http.tls import MutualTls, TlsError
from vetro.node import (
    ConfigurationError,
    NodeAgent,
    NodeError,
    NodeSettings,
    refuse_other_driver,
    remove_leftovers,
)
from vetro.secrecy import without_credentials
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.isolation import choose_instances, kept_from_plans, others_at_node
from vetro.server.run_log import RunLog
from vetro.server.settings import Settings, TlsSection

log = structlog.get_logger(__name__)


def guest_archive(directory: Path) -> Path:
    """The guest agent's archive, built from this version's sources."""
    from vetro.guest import build_archive

    target = directory / "vetro-guest.pyz"
    build_archive(target)
    # Shipped files can be read and executed by all; files kept here, only by this user.
    target.chmod(0o600)
    return target


async def sweep_builds(data_dir: Path) -> None:
    """Remove the remains of killed image builds; a running build is not touched."""
    try:
        left = await asyncio.to_thread(remove_leftovers, data_dir / "image-cache")
    except OSError as error:
        log.warning("build_leftovers_not_removed", error=str(error))
        return
    if left:
        log.info("build_leftovers_removed", directories=[str(one) for one in left])


def mutual_tls(section: TlsSection) -> MutualTls | None:
    """The TLS files of the section ``tls``; ``None`` when it is empty. Errors: ``StartError``."""
    given = (section.certificate, section.key, section.authority)
    if not any(given):
        return None
    if not all(given):
        raise StartError(
            "[tls] needs certificate, key and authority, all three", "docs/compute/node.md"
        )
    tls = MutualTls(*(Path(file).expanduser().absolute() for file in given))
    try:
        tls.server_context()
    except TlsError as error:
        raise StartError(f"[tls]: {error}", "docs/compute/node.md says what is needed.") from error
    return tls


def connection_limits(limits: ConnectionLimits) -> ConnectionLimits:
    """The section ``connections``, if this process can keep it. Errors: ``StartError``."""
    problem = limits.problem()
    if problem:
        raise StartError(
            f"[connections]: {problem}",
            "Lower it, or raise the limit of open files of the process (ulimit -n, LimitNOFILE= of"
            " systemd). 0 takes what fits.",
        )
    return limits


def check_driver(directory: Path, driver: str) -> None:
    """Before anything is started. Errors: ``StartError``: the node has machines of another driver."""
    try:
        refuse_other_driver(directory, driver)
    except ConfigurationError as error:
        raise StartError(str(error)) from error


def run_node(settings: Settings) -> int:
    """Run the node agent until a signal; the exit code. Errors: ``StartError``.

    It reaches the compute service at ``node.compute_url`` with the key ``node.key`` (by default the
    one in the data directory, created by a ``vetro up`` on the same machine).
    """
    from vetro.http import configure_logging

    configure_logging(settings.server.log_level, settings.server.log_format)
    tracing.configure(settings.tracing, "node")
    directory = settings.data_dir
    key = settings.node.key or data_directory.kept_secret(settings.shared_dir / "node-key")
    if not key:
        raise StartError(
            f"This node has no key, and the compute service at {settings.node.compute_url} accepts"
            " no node without one",
            "Give the key in VETRO_NODE_KEY, [node] key or --key: on the service's machine it is the"
            " file node-key in the data directory; a key for this node alone is what an operator gets"
            " from 'vetro cnapi /servers/UUID/key'.",
        )
    limits = connection_limits(settings.connections)
    instances = choose_instances(settings, others_at_node(settings))
    data_directory.prepare(directory, settings.shared_dir)
    with data_directory.lock(directory / "node"):
        print(f"Vetro node for {without_credentials(settings.node.compute_url)}", flush=True)
        print(f"  instances {instances.driver}: {instances.why}; {instances.holds}", flush=True)
        try:
            agent = NodeAgent(
                NodeSettings(
                    directory / "node",
                    replace(settings.node, key=key, driver=instances.driver),
                    guest_archive=guest_archive(directory / "node"),
                    relay_guests=True,
                    limits=limits,
                    tls=mutual_tls(settings.tls),
                    hidden=kept_from_plans(settings),
                )
            )
            run = RunLog("node")
            run.started(
                service=settings.node.compute_url,
                listens=f"{settings.node.listen_host}:{settings.node.port or 'a free port'}",
                driver=instances.driver,
                data_dir=str(directory),
            )
            asyncio.run(_until_signalled(agent, run))
            tracing.flush()
            run.stopped()
        except NodeError as error:
            raise StartError(str(error), "See 'vetro node --help'.") from error
    return 0


async def _until_signalled(agent: NodeAgent, run: RunLog) -> None:
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        run.stopping(f"signal {number.name}")
        agent.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await agent.run()
