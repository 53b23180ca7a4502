"""``vetro repository service``: services, which manifests make of definitions."""

from __future__ import annotations

from pathlib import Path

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.repository.trees import pack_tree, write_file
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import PrintingGroup, done, emit_object, emit_rows, remark
from vetro.cli.terminal.paths import EITHER

SERVICES = "/repository/v1/admin/services"
COLUMNS = [
    ("NAME", "full_service_name"),
    ("TITLE", "service_display_name"),
    ("VERSION", "service_version"),
    ("ENABLED", "enabled"),
    ("VALID", "valid"),
]


def _path(name: str) -> str:
    return f"{SERVICES}/{segment(name)}"


@click.group(cls=PrintingGroup)
def service() -> None:
    """Services: list them, see what is wrong with them, bring them, switch them on and off."""


@service.command("list")
def list_() -> None:
    """List the services of the project."""
    with Connection() as connection:
        emit_rows(connection.get(SERVICES)["services"], COLUMNS)


@service.command("show")
@click.argument("name")
def show(name: str) -> None:
    """Show the service NAME, and what is wrong with it."""
    with Connection() as connection:
        info: dict[str, object] = connection.get(f"{_path(name)}/info")
        files = connection.get(_path(name))
    emit_object({**info, "files": files})


@service.command("upload")
@click.argument("source", type=EITHER)
@click.option("--overwrite", is_flag=True, help="Replace files with other content.")
@click.option("--strict", is_flag=True, help="Refuse what cannot be parsed.")
def upload(source: Path, overwrite: bool, strict: bool) -> None:
    """Store a service with its files.

    SOURCE is an archive, or a directory in its layout: NAME-manifest.yaml, and the directories ui,
    workflows, heat, agent and scripts.
    """
    content = pack_tree(source)[0] if source.is_dir() else source.read_bytes()
    with Connection() as connection:
        body = connection.request(
            "POST",
            SERVICES,
            content=content,
            params={"overwrite": overwrite, "strict": strict},
            headers={"Content-Type": "application/octet-stream"},
        ).json()
    for one in body.get("warnings", []):
        remark(f"Warning: {one}")
    done(f"Stored the service in {source}", **body)


@service.command("download")
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file to write.")
def download(name: str, output: Path | None) -> None:
    """Write the service NAME to an archive.

    It can be uploaded again, to another project, too."""
    target = output or Path(f"{name}.tar.gz")
    with Connection() as connection:
        path = f"/repository/v1/client/services/{segment(name)}"
        content = connection.request("GET", path).content
    write_file(target, content)
    done(f"Wrote {target}", file=str(target), bytes=len(content))


def _switch(name: str, wanted: bool) -> None:
    word = "on" if wanted else "off"
    with Connection() as connection:
        info = connection.get(f"{_path(name)}/info")
        if (info.get("enabled", True) is not False) != wanted:
            connection.request("POST", f"{_path(name)}/toggle_enabled")
    done(f"The service {name} is {word}", service=name, enabled=wanted)


@service.command("enable")
@click.argument("name")
def enable(name: str) -> None:
    """Switch the service NAME on for clients."""
    _switch(name, True)


@service.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Switch the service NAME off for clients; its definitions stay."""
    _switch(name, False)


@service.command("delete")
@click.argument("name")
@click.option("--keep-files", is_flag=True, help="Delete the manifest alone.")
@yes_option
def delete(name: str, keep_files: bool) -> None:
    """Delete the service NAME and the files that only it lists."""
    agree(f"The service {name}: its definitions are deleted", "Delete it")
    with Connection() as connection:
        connection.request("DELETE", _path(name), params={"keep_files": keep_files})
    done(f"Deleted the service {name}", deleted=name)
