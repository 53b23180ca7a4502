"""``vetro bundle``: several packages at once, with what they require."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vetro.cli.catalog.importing import CATEGORIES, PUBLIC, PackageImport, exists_option
from vetro.cli.catalog.repository import Repository
from vetro.cli.catalog.saving import PackageSaving
from vetro.cli.terminal.output import PrintingGroup, done, fail
from vetro.cli.terminal.paths import DIRECTORY

REPO_URL = click.option(
    "--repo-url",
    envvar=["VETRO_REPO_URL", "MURANO_REPO_URL"],
    help="The address of a repository of packages.",
)
OUTPUT = click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The directory; made when it is not there [this one].",
)
NO_IMAGES = click.option("--no-images", is_flag=True, help="Leave the images of images.lst out.")


@click.group(cls=PrintingGroup)
def bundle() -> None:
    """Bundles of packages, and the repositories that they come from."""


@bundle.command("import", short_help="Import the packages of bundles, and what they require.")
@click.argument("sources", nargs=-1, required=True)
@REPO_URL
@NO_IMAGES
@PUBLIC
@CATEGORIES
@exists_option("skip")
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
    Exit code 1 when a package, a requirement or an image could not be fetched.
    """
    with PackageImport.opened(
        repo_url, exists_action, "skip", public, category, not no_images
    ) as work:
        for source in sources:
            work.run(work.find_all(source))
        work.finish("imported")


@bundle.command("save", short_help="Save the packages of bundles in a directory.")
@click.argument("sources", nargs=-1, required=True)
@REPO_URL
@NO_IMAGES
@OUTPUT
def save(sources: tuple[str, ...], repo_url: str | None, no_images: bool, output: Path) -> None:
    """Save bundles (SOURCES: files, addresses, or names in a repository) with all their packages.

    What they require and their images come along, so that 'vetro bundle import DIRECTORY/NAME.bundle'
    needs no repository.
    """
    with Repository(repo_url) as repository:
        work = PackageSaving(repository, directory=directory_for(output), images=not no_images)
        for source in sources:
            roots = work.find_all(source)
            work.run(roots)
            if roots:
                stem = source.rstrip("/").rpartition("/")[2].removesuffix(".bundle")
                entries = [{"Name": one.full_name, "Version": str(one.version)} for one in roots]
                text = json.dumps({"Packages": entries}, indent=2) + "\n"
                (output / f"{stem}.bundle").write_text(text, encoding="utf-8")
        work.finish("saved")


def directory_for(output: Path) -> Path:
    """The directory, made when it is not there. Ends the command when it cannot be."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{output}: {error.strerror}", "Choose another directory with --output.")
    return output


@bundle.command("index", short_help="Write the index of a repository.")
@click.argument("directory", type=DIRECTORY)
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
