"""``vetro repository``: definitions of v0.3 services (docs/v03.md)."""

from __future__ import annotations

from pathlib import Path

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.repository.services import service
from vetro.cli.repository.trees import pack_tree, unpack_tree, write_file
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.installation import installation_options, run_process
from vetro.cli.terminal.output import (
    PrintingGroup,
    counted,
    done,
    emit_json,
    fail,
    remark,
    wants_json,
)
from vetro.cli.terminal.paths import DIRECTORY, FILE

ADMIN = "/repository/v1/admin"
OCTETS = {"Content-Type": "application/octet-stream"}
TYPES = ("manifests", "ui", "workflows", "heat", "agent", "scripts")


@click.group(cls=PrintingGroup)
def repository() -> None:
    """Service definitions of the v0.3 world: manifests, workflows, templates, forms."""


repository.add_command(service)


def address(place: str) -> str:
    """The path of TYPE or TYPE/PATH in the API."""
    kind, *rest = [part for part in place.split("/") if part] or [""]
    if kind not in (*TYPES, "workflow"):
        fail(f"There is no type '{kind}'", f"Types: {', '.join(TYPES)}.", 2)
    return "/".join([ADMIN, kind, *(segment(part) for part in rest)])


@repository.command("list")
@click.argument("place")
def list_(place: str) -> None:
    """List the files of PLACE: a type, or TYPE/DIRECTORY."""
    with Connection() as connection:
        body = connection.get(address(place))
    files: list[str] = next(iter(body.values()))
    if wants_json():
        emit_json(files)
    else:
        for one in files:
            click.echo(one)


@repository.command("show", cls=click.Command)
@click.argument("place")
def show(place: str) -> None:
    """Print the file TYPE/PATH as it is."""
    with Connection() as connection:
        answer = connection.request("GET", address(place))
    if answer.headers.get("content-type", "").startswith("application/json"):
        fail(f"{place} is a directory", f"'vetro repository list {place}' lists it.")
    click.echo(answer.content, nl=False)


@repository.command("upload")
@click.argument("place")
@click.argument("file", type=FILE)
@click.option("--name", help="Name to store it under [the file's].")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
@click.option("--strict", is_flag=True, help="Refuse what cannot be parsed.")
def upload(place: str, file: Path, name: str | None, overwrite: bool, strict: bool) -> None:
    """Store FILE in PLACE.

    PLACE is a type, or TYPE/DIRECTORY, which is made when it is not there."""
    path = address(place)
    stored = name or file.name
    with Connection() as connection:
        if path.count("/") > ADMIN.count("/") + 1:
            connection.request("PUT", path)
        body = connection.request(
            "POST",
            path,
            content=file.read_bytes(),
            params={"filename": stored, "overwrite": overwrite, "strict": strict},
            headers=OCTETS,
        ).json()
    _warn(body.get("warnings", []))
    done(f"Stored {place.rstrip('/')}/{stored}", **body)


def _warn(warnings: list[str]) -> None:
    for one in warnings:
        remark(f"Warning: {one}")


@repository.command("download")
@click.argument("what")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
def download(what: str, output: Path | None) -> None:
    """Write a file, or an archive, of definitions.

    WHAT is TYPE/PATH, or the archive of a client: 'ui' or 'conductor'."""
    is_archive = what in ("ui", "conductor")
    path = f"/repository/v1/client/{what}" if is_archive else address(what)
    target = output or Path(f"{what}.tar.gz" if is_archive else what.rsplit("/", 1)[-1])
    with Connection() as connection:
        content = connection.request("GET", path).content
    write_file(target, content)
    done(f"Wrote {target}", file=str(target), bytes=len(content))


@repository.command("delete")
@click.argument("place")
@click.option("--recursive", is_flag=True, help="A directory with all that is in it.")
@yes_option
def delete(place: str, recursive: bool) -> None:
    """Delete TYPE/PATH: a file, or an empty directory."""
    path = address(place)
    agree(f"{place}: deleted; services that list it become invalid", "Delete it")
    with Connection() as connection:
        connection.request("DELETE", path, params={"recursive": recursive})
    done(f"Deleted {place}", deleted=place)


@repository.command("import")
@click.argument("directory", type=DIRECTORY)
@click.option("--overwrite", is_flag=True, help="Replace files with other content.")
@click.option("--replace", is_flag=True, help="Instead of all definitions that there are.")
@click.option("--strict", is_flag=True, help="Refuse what cannot be parsed.")
@yes_option
def import_(directory: Path, overwrite: bool, replace: bool, strict: bool) -> None:
    """Bring the definitions of an old repository.

    DIRECTORY is one project's: it has the manifests, and the directories ui_forms, workflows,
    heat_templates, agent_templates and scripts. In the data directory of an old service it is
    service_definitions/PROJECT. All of it is stored, or nothing.
    """
    if not any(directory.glob("*-manifest.yaml")):
        fail(
            f"{directory} has no manifest (NAME-manifest.yaml)",
            "Name the directory of one project: service_definitions/PROJECT of an old repository.",
        )
    if replace:
        agree("All definitions of this project: replaced by those of the directory", "Replace them")
    archive, count = pack_tree(directory)
    with Connection() as connection:
        body = connection.request(
            "POST",
            f"{ADMIN}/import",
            content=archive,
            params={"overwrite": overwrite, "replace": replace, "strict": strict},
            headers=OCTETS,
            hint="Give --overwrite to replace files with other content.",
        ).json()
    _warn(body.get("warnings", []))
    done(f"Imported {counted(count, 'file')} from {directory}", files=count, **body)


@repository.command("export")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def export(directory: Path) -> None:
    """Write all definitions into DIRECTORY, empty or new."""
    if directory.exists() and any(directory.iterdir()):
        fail(f"{directory} is not empty", "Name a new directory.")
    with Connection() as connection:
        content = connection.request("GET", f"{ADMIN}/export").content
    count = unpack_tree(content, directory)
    done(f"Wrote {counted(count, 'file')} to {directory}", directory=str(directory), files=count)


@repository.command("rebuild")
def rebuild() -> None:
    """Let the service rebuild the archives for clients."""
    with Connection() as connection:
        connection.request("POST", f"{ADMIN}/reset_caches")
    done("The archives are rebuilt when they are next fetched", reset=True)


@repository.command("serve", cls=click.Command)
@click.option("--host", help="Address to listen on [127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on [8084].")
@installation_options
def serve(**options: object) -> None:
    """Serve the repository in a process of its own, at /v1.

    It works on the database and with the accounts of an installation ('vetro up'): name the same
    database and shared directory (docs/several-services.md).
    """
    from vetro.server.definitions import run_repository

    run_process(run_repository, "repository", **options)
