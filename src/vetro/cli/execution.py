"""``vetro vm exec``: a command in a machine, its streams here."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import socket
import sys
from typing import Any

import click

from vetro.cli.connection import Connection, segment
from vetro.cli.console import connect, raw_keyboard, send_keys, show
from vetro.cli.output import emit_object, fail, json_option, wants_json

_CHUNK = 65536


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.argument("name_or_uuid")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-u", "--user", default="", help="The user in the machine [root].")
@click.option("-w", "--workdir", default="", help="The directory it starts in.")
@click.option("-e", "--env", "environment", multiple=True, metavar="NAME=VALUE", help="A variable.")
@click.option("-t", "--tty", is_flag=True, help="With a terminal.")
@json_option
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
    """
    from vetro.cli.machines import find_vm

    tty = tty and not wants_json()
    # `vm exec NAME -- COMMAND`, as one is used to from elsewhere.
    command = command[1:] if command[0] == "--" else command
    if not command:
        raise click.UsageError("Missing argument 'COMMAND...'.")
    wanted: dict[str, Any] = {"Cmd": list(command), "Tty": tty}
    for name, value in (("User", user), ("WorkingDir", workdir), ("Env", list(environment))):
        if value:
            wanted[name] = value
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"
        where = connection.request("POST", f"{path}/docker-exec", json={"command": wanted}).json()
    with connect(where) as line:
        code = _collect(line) if wants_json() else _attach(line, tty=tty)
    if code:
        sys.exit(code)


def _ended(told: dict[str, Any]) -> int:
    code = told.get("code")
    return int(code) if isinstance(code, int) else 1


def _collect(line: socket.socket) -> int:
    """Let the command run without input and print what it said as one document."""
    _say(line, {"type": "stdin_end"})
    found = {"stdout": b"", "stderr": b""}
    for told in _lines(line):
        if told.get("type") == "end":
            streams = {name: data.decode("utf-8", "replace") for name, data in found.items()}
            emit_object({"exit_code": _ended(told), **streams})
            return _ended(told)
        if told.get("type") in found:
            found[str(told["type"])] += base64.b64decode(str(told.get("data") or ""))
    fail("The node broke the stream before the command ended")


def _lines(line: socket.socket) -> Any:
    rest = b""
    while data := line.recv(_CHUNK):
        *whole, rest = (rest + data).split(b"\n")
        for one in whole:
            yield json.loads(one)


def _say(line: socket.socket, told: dict[str, Any]) -> None:
    line.sendall(json.dumps(told).encode() + b"\n")


def _attach(line: socket.socket, *, tty: bool) -> int:
    """Bind our streams to the command's until it ends; its exit code."""
    if tty and sys.stdout.isatty():
        columns, rows = shutil.get_terminal_size()
        _say(line, {"type": "resize", "columns": columns, "rows": rows})
    keyboard = sys.stdin.fileno()
    sources: list[Any] = [line, keyboard]
    rest = b""
    with raw_keyboard(tty):
        while True:
            ready, _, _ = select.select(sources, [], [])
            if keyboard in ready:
                typed = os.read(keyboard, _CHUNK)
                if typed:
                    send_keys(line, typed)
                else:
                    sources.remove(keyboard)
                    # A terminal has no end of input but the one that is typed.
                    send_keys(line, b"\x04") if tty else _say(line, {"type": "stdin_end"})
            if line in ready:
                data = line.recv(_CHUNK)
                if not data:
                    fail("The node broke the stream before the command ended")
                *whole, rest = (rest + data).split(b"\n")
                for one in whole:
                    told: dict[str, Any] = json.loads(one)
                    if show(told):
                        return _ended(told)
