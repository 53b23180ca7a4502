"""``vetro vm console|vnc|screenshot``: what a machine shows, and its keyboard."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.output import emit_object, fail, json_option, say
from vetro.cli.terminal.streams import Line, Manner, attach

LEAVE = b"\x1d"


def _path_of(connection: Connection, name_or_uuid: str) -> str:
    row = find_vm(connection, name_or_uuid)
    return f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"


@click.command()
@click.argument("name_or_uuid")
@click.option("--log", is_flag=True, help="Print what the console said so far, and end.")
def console(name_or_uuid: str, log: bool) -> None:
    """Sit at a machine's serial console; Ctrl-] leaves it.

    A container's console only prints. When standard input is no terminal, what comes there is typed.
    """
    with Connection() as connection:
        wanted = {"Logs": True} if log else {"AttachConsole": True}
        where = connection.request(
            "POST",
            f"{_path_of(connection, name_or_uuid)}/docker-exec",
            json={"command": wanted},
        ).json()
    with Line(where) as line:
        typing = bool(where.get("interactive"))
        person = sys.stdin.isatty() and not log
        if person:
            ends = "Ctrl-] leaves" if typing else "it only prints; Ctrl-] leaves"
            click.echo(f"Console of {name_or_uuid} ({ends})", err=True)
        leave = LEAVE if person else b""
        code = attach(
            line, Manner(terminal=True, watching=not log, typing=typing, leave=leave, at_end=None)
        )
    if person:
        click.echo("", err=True)
    if code:
        sys.exit(code)


@click.command()
@click.argument("name_or_uuid")
@json_option
def vnc(name_or_uuid: str) -> None:
    """Where a virtual machine's screen is served, and its password."""
    with Connection() as connection:
        path = _path_of(connection, name_or_uuid)
        where = connection.get(f"{path}/vnc")
        if not where.get("host"):
            fail(f"{name_or_uuid} has no screen", "It was made with vnc_port -1.")
        password = connection.get(path).get("vnc_password")
    emit_object({**where, "display": where["port"] - 5900, "password": password})


@click.command()
@click.argument("name_or_uuid")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def screenshot(name_or_uuid: str, file: Path) -> None:
    """Write a picture of a virtual machine's screen to FILE (PNG)."""
    with Connection() as connection:
        response = connection.request("GET", f"{_path_of(connection, name_or_uuid)}/screenshot")
    file.write_bytes(response.content)
    say(f"{file}: {len(response.content)} bytes")
