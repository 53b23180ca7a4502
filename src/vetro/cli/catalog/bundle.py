"""``vetro bundle``: several packages at once, with what they require."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vetro.cli.catalog.importing import OUTCOMES, PackageImport
from vetro.cli.catalog.repository import Repository, SourceError
from vetro.cli.client.connection import Connection
from vetro.cli.client.name_completion import CATEGORY
from vetro.cli.terminal.output import done, emit_rows, fail, json_option, say

if TYPE_CHECKING:
    from vetro.packages import Package

WHERE = "Name a file, an address, or a bundle of a repository (--repo-url)."
REPO_URL = click.option(
    "--repo-url",
    envvar=["VETRO_REPO_URL", "MURANO_REPO_URL"],
    help="The address of a repository of packages.",
)
NO_IMAGES = click.option("--no-images", is_flag=True, help="Leave the images of images.lst out.")


@click.group()
def bundle() -> None:
    """Bundles of packages, and the repositories that they come from."""


@bundle.command("import", short_help="Import the packages of bundles, and what they require.")
@click.argument("sources", nargs=-1, required=True)
@REPO_URL
@NO_IMAGES
@click.option("--public", is_flag=True, help="Every project may use the packages.")
@click.option(
    "--category", "-c", multiple=True, type=CATEGORY, help="A category they stand in (repeatable)."
)
@click.option(
    "--exists-action",
    type=click.Choice(["abort", "skip", "update"]),
    default="skip",
    show_default=True,
    help="What to do with a package that is in the catalog already.",
)
@json_option
def import_(
    sources: tuple[str, ...],
    repo_url: str | None,
    no_images: bool,
    public: bool,
    category: tuple[str, ...],
    exists_action: str,
) -> None:
    """Import the packages of bundles (SOURCES: files, addresses, or names in a repository).

    A package is taken from the directory of the bundle's file, else from the address that the
    bundle gives, else from the repository; what it requires likewise, unless the catalog has it.
    Exit code 1 when a package, a requirement or an image could not be had.
    """
    from vetro.packages import DataError, parse_bundle

    with Connection() as connection, Repository(repo_url) as repository:
        work = PackageImport(
            connection, repository, exists_action, public, category, images=not no_images
        )
        for source in sources:
            try:
                content, name, repository.beside = repository.bundle(source)
                entries, skipped = parse_bundle(content, name)
            except (SourceError, DataError) as error:
                work.note(source, None, "failed", str(error))
                continue
            for text in skipped:
                say(text)
            roots: list[Package] = []
            for entry in entries:
                found = work.find(entry.name, entry.version, url=entry.url, sha256=entry.sha256)
                if found is not None:
                    roots.append(found)
            work.run(roots)
        finish(work)


def finish(work: PackageImport) -> None:
    """Show what came of an import; a failure is the command's."""
    emit_rows(work.outcomes, OUTCOMES)
    if work.has_failed:
        bad = [one["package"] for one in work.outcomes if one["result"] in ("failed", "missing")]
        fail(f"Not everything was imported: {', '.join(bad)}", "The reasons are in the table.")


@bundle.command("index", short_help="Write the index of a repository.")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@json_option
def index(directory: Path) -> None:
    """Write DIRECTORY/index.json: the archives below DIRECTORY/apps with their versions and hashes.

    With it, importing finds versions that satisfy a condition, and damaged archives are refused.
    """
    from vetro.packages import INDEX, PackageError, write_index

    try:
        content = write_index(directory)
    except PackageError as error:
        fail(str(error), "'vetro check' lists everything that is wrong.")
    (directory / INDEX).write_bytes(content)
    done(f"Wrote {directory / INDEX}", file=str(directory / INDEX))
