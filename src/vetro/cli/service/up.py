"""``vetro up``, and its parts as processes of their own.

``vetro api``, ``engine``, ``compute``, ``node`` and ``broker``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from vetro.cli.terminal.installation import installation_options, local_settings, run_process

_DRIVERS = click.Choice(["lxc", "qemu", "lxc+qemu", "process", "simulated"])


def listening(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options --host and --port."""

    def options(command: Callable[..., object]) -> Callable[..., Any]:
        command = click.option("--port", type=int, help=f"Port to listen on [{port}].")(command)
        return click.option("--host", help="Address to listen on [127.0.0.1].")(command)

    return options


@click.command("up")
@listening(8082)
@click.option(
    "--driver",
    type=_DRIVERS,
    help="How instances are run [lxc for root; else process, if only this machine can come in].",
)
@installation_options
def up(host: str | None, port: int | None, driver: str | None) -> None:
    """Start everything in one process: all HTTP faces, an engine pool, a local node agent."""
    from vetro.server.up import run_up

    flags = {"server.host": host, "server.port": port, "node.driver": driver}
    with local_settings(flags) as settings:
        raise SystemExit(run_up(settings))


@click.command("api")
@listening(8082)
@installation_options
def api(**options: object) -> None:
    """Serve all HTTP faces: 'vetro up' without engines and without a node.

    Any number of them works on one PostgreSQL database, behind a load balancer
    (docs/several-services.md). Deployments are run by 'vetro engine', instances by 'vetro node'.
    """
    from vetro.server.up import run_api

    run_process(run_api, "server", **options)


@click.command("engine")
@click.option("--workers", type=int, help="Deployments at a time [4].")
@click.option("--compute-url", help="The compute service [http://127.0.0.1:8082/compute].")
@installation_options
def engine(**options: object) -> None:
    """Run deployments: an engine pool that takes tasks from the database.

    Any number of them works on one PostgreSQL database (docs/several-services.md).
    """
    from vetro.server.engine import run_engine

    run_process(run_engine, "engine", **options)


@click.command("compute")
@listening(8083)
@installation_options
def compute(**options: object) -> None:
    """Serve the compute node API alone, at /, and the mailboxes of its nodes' guests.

    Any number of them works on one PostgreSQL database (docs/several-services.md).
    """
    from vetro.server.compute import run_compute

    run_process(run_compute, "compute", **options)


@click.command("node")
@click.option("--compute-url", help="The compute service [http://127.0.0.1:8082/compute].")
@click.option("--key", help="The node key; better in VETRO_NODE_KEY or the settings file.")
@click.option("--listen-host", help="Address the task API listens on [127.0.0.1].")
@click.option("--port", type=int, help="Port the task API listens on [a free one].")
@click.option("--admin-ip", help="Where the service reaches this node [its own address].")
@click.option("--mailbox-url", help="Where guests reach their mailboxes (shown in sysinfo).")
@click.option("--prefix", help="First letters of every interface this agent makes [vt].")
@click.option("--driver", type=_DRIVERS, help="How instances are run.")
@click.option("--server-uuid", help="This node's uuid [the machine's own].")
@click.option("--pull", is_flag=True, default=None, help="Ask for tasks: for nodes behind NAT.")
@click.option(
    "--allow-privileged",
    is_flag=True,
    default=None,
    help="Let operators make containers with the machine's own root.",
)
@installation_options
def node(**options: object) -> None:
    """Run this machine's node agent: it takes instances from a compute service elsewhere."""
    from vetro.server.node import run_node

    run_process(run_node, "node", **options)


@click.command("broker")
@listening(8083)
@click.option("--tenant", help="The project that the environments of all spaces are in [admin].")
@click.option("--auth-url", help="The identity service [http://127.0.0.1:8082/identity/v3].")
@installation_options
def broker(**options: object) -> None:
    """Run the service broker: it offers the applications of a catalog to a Cloud Foundry.

    It speaks the Open Service Broker API to the platform, and HTTP to a Vetro ('vetro up') that may
    be on another machine. Name and password that the platform is given are those of a user of Vetro
    with a role in the project --tenant (docs/broker.md).
    """
    from vetro.server.service_broker import run_broker

    run_process(run_broker, "cfapi", **options)
