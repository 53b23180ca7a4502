"""``vetro key``: the keys that seal secrets in the database of a Vetro on this machine."""

from __future__ import annotations

import click

from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingGroup, done, remark, wants_json


@click.group("key", cls=PrintingGroup)
def key() -> None:
    """Keys that seal secrets in the database.

    Models, user data, plans and what deployments leave behind are stored encrypted, with a key from
    the file 'keys' in the data directory (or in server.shared_dir). Who has a copy of the database
    alone cannot read them; without the file they are lost: back it up, apart from the database.
    """


@key.command("rotate", short_help="Seal everything with a new key, and remove the old one.")
@installation_options
@yes_option
def rotate() -> None:
    """Make a new key and encrypt everything with it again; the old key is removed at the end.

    Works on this machine's files, as the user of the service, while the service runs or not.
    Stopped half-way, nothing is lost: run it again, or start the service, and it continues.
    Backups of the database from before need the key file of that time.
    """
    import asyncio

    from vetro.server.installation import KEYS
    from vetro.server.installation import rotate as rotate_keys

    def progress(table: str, rows: int) -> None:
        if not wants_json():
            remark(f"  {table}: {rows} rows")

    with local_settings() as settings:
        agree(
            f"The key that is in {settings.shared_dir / KEYS} now would be removed: backups of the database"
            " from before cannot be read without the key file of that time",
            "Rotate",
        )
        rows = asyncio.run(rotate_keys(settings, progress))
    file = settings.shared_dir / KEYS
    done(
        f"{rows} rows are sealed with a new key; the old one is gone from {file}.\n"
        "Backups of the database from before need the key file of that time.",
        rows=rows,
        file=str(file),
    )
