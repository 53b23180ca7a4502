"""``vetro blobs``: the files of a Vetro on this machine."""

from __future__ import annotations

import click

from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingGroup, done, emit_json, remark, wants_json


@click.group("blobs", cls=PrintingGroup)
def blobs() -> None:
    """The files of a service: archives of packages, images, backups of volumes.

    They are in the shared directory, in the database or in a bucket of an S3-compatible store, as the
    setting blobs.store says (docs/several-services.md).
    """


@blobs.command("copy", short_help="Copy the files from another store to the one of the settings.")
@click.option(
    "--from",
    "source",
    type=click.Choice(["directory", "database", "s3"]),
    required=True,
    help="Where the files are now.",
)
@installation_options
def copy(source: str) -> None:
    """Copy the files that the database refers to from another store to the one of the settings.

    First set blobs.store to the new store, and leave the settings of the old one; then copy, and restart the
    services. Files that are there already are not copied again; the old ones are not removed.
    """
    import asyncio

    from vetro.server.blobs import copy_files

    def progress(purpose: str, name: str) -> None:
        if not wants_json():
            remark(f"  {purpose}/{name}")

    with local_settings() as settings:
        copied = asyncio.run(copy_files(settings, source, progress))
        store = settings.blobs.store
    done(f"{copied} files are copied from {source} to {store}.", files=copied)


@blobs.command("sweep", short_help="Find files that nothing refers to, and remove them.")
@click.option("--remove", is_flag=True, help="Remove them; without it they are only listed.")
@installation_options
def sweep(remove: bool) -> None:
    """List the files that nothing in the database refers to and that are older than a day.

    A process that is killed between two steps leaves such files. Services may run meanwhile.
    """
    import asyncio

    from vetro.server.blobs import sweep as sweep_files

    with local_settings() as settings:
        found = asyncio.run(sweep_files(settings, remove=remove))
    if wants_json():
        emit_json([{"file": f"{what}/{one.name}", "bytes": one.bytes} for what, one in found])
        return
    for what, one in found:
        click.echo(f"{what}/{one.name}  {one.bytes} bytes  {one.stored:%Y-%m-%d %H:%M}")
    what_now = "removed" if remove else "found; --remove removes them"
    click.echo(f"{len(found)} unused files {what_now}.")
