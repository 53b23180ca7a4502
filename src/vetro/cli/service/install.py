"""``vetro install``: the service under systemd."""

from __future__ import annotations

from pathlib import Path

import click

from vetro.cli.terminal.output import PrintingCommand, emit_json, fail, wants_json

_PARTS = ("up", "api", "engine", "compute", "repository", "broker", "node")
_DIRECTORY: click.Path = click.Path(path_type=Path)


@click.command("install", cls=PrintingCommand)
@click.argument("parts", nargs=-1, type=click.Choice(_PARTS))
@click.option("--config-dir", type=_DIRECTORY, default=Path("/etc/vetro"), help="For vetro.toml.")
@click.option("--data-dir", type=_DIRECTORY, default=Path("/var/lib/vetro"), help="For all data.")
@click.option("--unit-dir", type=_DIRECTORY, default=Path("/etc/systemd/system"), help="For units.")
@click.option("--user", default="vetro", help="Whom parts without root's rights run as [vetro].")
def install(
    parts: tuple[str, ...], config_dir: Path, data_dir: Path, unit_dir: Path, user: str
) -> None:
    """Write systemd units for PARTS of Vetro [up], their directories and a first settings file.

    'up' is everything in one process. The other parts work together on one PostgreSQL
    (docs/several-services.md): api, engine, compute, repository and broker run as a user of their own,
    without rights; a node needs root's. Settings that exist are not changed. The first start makes the
    administrator, and writes its login to admin-openrc in the data directory.
    """
    from vetro.server.errors import StartError
    from vetro.server.systemd import Places
    from vetro.server.systemd import install as write_units

    wanted = list(dict.fromkeys(parts or ("up",)))
    try:
        done = write_units(wanted, Places(config_dir, data_dir, unit_dir, user))
    except StartError as error:
        fail(str(error), error.hint)
    names = ["vetro" if part == "up" else f"vetro-{part}" for part in wanted]
    if wants_json():
        emit_json({"done": done, "units": [f"{name}.service" for name in names]})
        return
    for line in done:
        click.echo(line)
    click.echo(
        f"Look at {config_dir / 'vetro.toml'}, then: systemctl enable --now {' '.join(names)}"
    )
