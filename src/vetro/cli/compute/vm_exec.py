"""``vetro vm exec``: a command in a machine, its streams here."""

from __future__ import annotations

import sys

import click

from vetro.cli.client.connection import Connection
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.output import PrintingCommand, emit_object, wants_json
from vetro.cli.terminal.streams import (
    END_OF_INPUT,
    END_OF_TERMINAL,
    Line,
    Manner,
    attach,
    collect,
    window,
)
from vetro.compute.client import vm_calls
from vetro.compute.wire import Document


@click.command("exec", context_settings={"allow_interspersed_args": False}, cls=PrintingCommand)
@click.argument("name_or_uuid")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-u", "--user", default="", help="The user in the machine [root].")
@click.option("-w", "--workdir", default="", help="The directory it starts in.")
@click.option("-e", "--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal.")
def exec_(
    name_or_uuid: str,
    command: tuple[str, ...],
    user: str,
    workdir: str,
    environment: tuple[str, ...],
    tty: bool,
) -> None:
    """Run a command in a VM; the exit code is the command's. Options come before the name.

    What comes on standard input is the command's. With --json, nothing is: then the document
    {"exit_code", "stdout", "stderr"} is printed.

    \b
    Example:
      vetro vm exec box df -h /
    """
    tty = tty and not wants_json()
    # `vm exec NAME -- COMMAND`, as one is used to from elsewhere.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise click.UsageError("Missing argument 'COMMAND...'.")
    wanted: Document = {"Cmd": list(command), "Tty": tty}
    size = window() if tty else None
    if size is not None:
        wanted["ConsoleSize"] = [size[1], size[0]]
    for name, value in (("User", user), ("WorkingDir", workdir), ("Env", list(environment))):
        if value:
            wanted[name] = value
    with Connection() as connection:
        vm = find_vm(connection, name_or_uuid)
        where = connection.send(vm_calls.open_stream(vm.uuid, wanted, vm.server_uuid))
    with Line(where) as line:
        if not wants_json():
            at_end = END_OF_TERMINAL if tty else END_OF_INPUT
            code = attach(line, Manner(terminal=tty, at_end=at_end))
        else:
            code, said = collect(line)
            texts = {name: data.decode("utf-8", "replace") for name, data in said.items()}
            emit_object({"exit_code": code, **texts})
    if code:
        sys.exit(code)
