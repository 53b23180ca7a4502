"""``vetro up``, and its parts as processes of their own: ``vetro api``, ``engine``, ``compute``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from vetro.cli.terminal.installation import installation_options, local_settings, run_process


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
    type=click.Choice(["lxc", "qemu", "lxc+qemu", "process", "simulated"]),
    help="How instances are run [what this machine can].",
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
