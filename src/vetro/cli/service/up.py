"""``vetro up``: every service in one process."""

from __future__ import annotations

from pathlib import Path

import click

from vetro.cli.terminal.output import fail


@click.command("up")
@click.option("--host", help="Address to listen on [127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on [8082].")
@click.option("--data-dir", help="Where everything is kept.")
@click.option(
    "--driver",
    type=click.Choice(["lxc", "qemu", "lxc+qemu", "process", "simulated"]),
    help="How instances are run [what this machine can].",
)
@click.option("--config", "config", type=click.Path(path_type=Path), help="A vetro.toml.")
@click.pass_context
def up(
    ctx: click.Context,
    host: str | None,
    port: int | None,
    data_dir: str | None,
    driver: str | None,
    config: Path | None,
) -> None:
    """Start everything in one process: all HTTP faces, an engine pool, a local node agent."""
    from vetro.server.settings import SettingsError, load_settings
    from vetro.server.up import StartError, run_up

    try:
        settings = load_settings(
            {
                "server.host": host,
                "server.port": port,
                "server.data_dir": data_dir or ctx.find_root().meta.get("vetro.data_dir"),
                "node.driver": driver,
            },
            config_file=config,
        )
        raise SystemExit(run_up(settings))
    except (SettingsError, StartError) as error:
        fail(str(error), getattr(error, "hint", None))
