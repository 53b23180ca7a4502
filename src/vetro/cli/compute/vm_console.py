"""``vetro vm console|vnc|screenshot``: what a machine shows, and its keyboard."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from vetro.cli.client.connection import Connection
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.output import PrintingCommand, emit_object, fail, remark, say
from vetro.cli.terminal.streams import Line, Manner, attach
from vetro.compute.client import vm_calls
from vetro.compute.wire import Document

LEAVE = b"\x1d"


@click.command()
@click.argument("name_or_uuid")
@click.option("--log", is_flag=True, help="Print what the console said so far, and end.")
def console(name_or_uuid: str, log: bool) -> None:
    """Connect to a machine's serial console; Ctrl-] leaves it.

    A container's console only prints. When standard input is not a terminal, its content is typed.
    """
    with Connection() as connection:
        vm = find_vm(connection, name_or_uuid)
        wanted: Document = {"Logs": True} if log else {"AttachConsole": True}
        where = connection.send(vm_calls.open_stream(vm.uuid, wanted, vm.server_uuid))
    with Line(where) as line:
        typing = where.interactive
        person = sys.stdin.isatty() and not log
        if person:
            ends = "Ctrl-] leaves" if typing else "it only prints; Ctrl-] leaves"
            remark(f"Console of {name_or_uuid} ({ends})")
        leave = LEAVE if person else b""
        code = attach(
            line, Manner(terminal=True, watching=not log, typing=typing, leave=leave, at_end=None)
        )
    if person:
        remark("")
    if code:
        sys.exit(code)


@click.command(cls=PrintingCommand)
@click.argument("name_or_uuid")
def vnc(name_or_uuid: str) -> None:
    """Where a virtual machine's screen is served, and its password."""
    with Connection() as connection:
        vm = find_vm(connection, name_or_uuid)
        where = connection.decoded(vm_calls.screen(vm.uuid, vm.server_uuid))
        if not where.known.host or where.known.port is None:
            fail(f"{name_or_uuid} has no screen", "It was made with vnc_port -1.")
        answer = connection.decoded(vm_calls.vm(vm.uuid, vm.server_uuid))
    secret = answer.row.get("vnc_password")
    shown = {**where.row, "display": where.known.port - 5900, "password": secret}
    emit_object(shown, secrets=True)


@click.command()
@click.argument("name_or_uuid")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def screenshot(name_or_uuid: str, file: Path) -> None:
    """Write a picture of a virtual machine's screen to FILE (PNG)."""
    with Connection() as connection:
        vm = find_vm(connection, name_or_uuid)
        path = vm_calls.screenshot_path(vm.uuid, vm.server_uuid)
        response = connection.request("GET", f"/compute{path}")
    file.write_bytes(response.content)
    say(f"{file}: {len(response.content)} bytes")
