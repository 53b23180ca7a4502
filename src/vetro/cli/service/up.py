"""``vetro up``, and its parts as processes of their own: ``vetro api``, ``engine``, ``compute``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vetro.cli.terminal.installation import installation_options, local_settings

if TYPE_CHECKING:
    from vetro.server.settings import Settings


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
def up(
    host: str | None,
    port: int | None,
    driver: str | None,
    data_dir: str | None,
    config: Path | None,
) -> None:
    """Start everything in one process: all HTTP faces, an engine pool, a local node agent."""
    from vetro.server.up import run_up

    flags = {"server.host": host, "server.port": port, "node.driver": driver}
    _run(run_up, data_dir, config, flags)


@click.command("api")
@listening(8082)
@installation_options
def api(host: str | None, port: int | None, data_dir: str | None, config: Path | None) -> None:
    """Serve all HTTP faces: 'vetro up' without engines and without a node.

    Any number of them works on one PostgreSQL database, behind a load balancer
    (docs/several-services.md). Deployments are run by 'vetro engine', instances by 'vetro node'.
    """
    from vetro.server.up import run_api

    _run(run_api, data_dir, config, {"server.host": host, "server.port": port})


@click.command("engine")
@click.option("--workers", type=int, help="Deployments at a time [4].")
@click.option("--compute-url", help="The compute service [http://127.0.0.1:8082/compute].")
@installation_options
def engine(
    workers: int | None, compute_url: str | None, data_dir: str | None, config: Path | None
) -> None:
    """Run deployments: an engine pool that takes tasks from the database.

    Any number of them works on one PostgreSQL database (docs/several-services.md).
    """
    from vetro.server.engine import run_engine

    flags = {"engine.workers": workers, "engine.compute_url": compute_url}
    _run(run_engine, data_dir, config, flags)


@click.command("compute")
@listening(8083)
@installation_options
def compute(host: str | None, port: int | None, data_dir: str | None, config: Path | None) -> None:
    """Serve the compute node API alone, at /, and the mailboxes of its nodes' guests.

    Any number of them works on one PostgreSQL database (docs/several-services.md).
    """
    from vetro.server.compute import run_compute

    _run(run_compute, data_dir, config, {"compute.host": host, "compute.port": port})


def _run(
    process: Callable[[Settings], int],
    data_dir: str | None,
    config: Path | None,
    flags: Mapping[str, object],
) -> None:
    with local_settings(data_dir, config, flags) as settings:
        raise SystemExit(process(settings))
