"""``vetro database``: the database of a Vetro on this machine."""

from __future__ import annotations

import click

from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingGroup, done, remark, wants_json


@click.group("database", cls=PrintingGroup)
def database() -> None:
    """The database of a service.

    One process on one machine keeps everything in a file (SQLite). Several processes, or several
    machines, work on one PostgreSQL (docs/several-services.md).
    """


@database.command("copy", short_help="Copy the database to an empty one, such as PostgreSQL.")
@click.option(
    "--to",
    "target",
    metavar="URL",
    required=True,
    envvar="VETRO_COPY_TO",
    help="postgresql://USER:PASSWORD@HOST/NAME or sqlite:///PATH: an empty database.",
    show_envvar=True,
)
@installation_options
def copy(target: str) -> None:
    """Copy the database of a stopped service to an empty one of either kind.

    Works on this machine's files, as the user of the service. All rows are copied in one transaction,
    secrets as they are sealed; the old database is not changed. Files (packages, images, keys) stay where
    they are. Afterwards the setting server.database_url names the new one.

    A password in --to can be seen by the machine's other users: VETRO_COPY_TO is for that.
    """
    import asyncio

    from vetro.server.installation import copy as copy_installation

    def progress(table: str, rows: int) -> None:
        if rows and not wants_json():
            remark(f"  {table}: {rows} rows")

    with local_settings() as settings:
        rows = asyncio.run(copy_installation(settings, target, progress))
    done(
        f"{rows} rows are copied, every table completely.\n"
        "Set server.database_url (or VETRO_DATABASE_URL) to the new one, and start.",
        rows=rows,
    )
