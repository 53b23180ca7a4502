"""``vetro backup`` and ``vetro restore``: an installation of this machine as one file."""

from __future__ import annotations

from pathlib import Path

import click

from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingCommand, done
from vetro.cli.terminal.paths import FILE


@click.command("backup", cls=PrintingCommand)
@click.argument("file", type=click.Path(path_type=Path))
@installation_options
def backup(file: Path) -> None:
    """Write the database, packages, images and keys of an installation to FILE.

    The services may run meanwhile: the database is read at one moment. Works on this machine's files,
    as the user of the service. Instances are not in it (docs/operating.md).

    FILE gives access to everything: only you can read it, and holds the keys that the
    database's secrets are encrypted with.
    """
    import asyncio

    from vetro.server.backup import back_up

    with local_settings() as settings:
        made = asyncio.run(back_up(settings, file))
    facts = {"file": str(file), "made": made.made, "files": made.files, "bytes": made.bytes}
    done(f"{made.files} files with {made.bytes} bytes are in {file}.", **facts)


@click.command("restore", cls=PrintingCommand)
@click.argument("file", type=FILE)
@installation_options
def restore(file: Path) -> None:
    """Restore an installation from FILE, which 'vetro backup' wrote.

    The data directory must have no installation. With server.database_url the database is restored
    there: it may be of the other kind than the one that was backed up, and must be empty. Everything in
    FILE is checked before anything is changed. Start the service afterwards.
    """
    import asyncio

    from vetro.server.backup import restore as restore_installation

    with local_settings() as settings:
        found = asyncio.run(restore_installation(settings, file))
        place = settings.data_dir
    done(
        f"The installation of {found.made} is restored in {place}; start it now.",
        directory=str(place),
        made=found.made,
        files=found.files,
        bytes=found.bytes,
    )
