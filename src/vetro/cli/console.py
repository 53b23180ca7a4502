"""``vetro vm console|vnc|screenshot``: what a machine shows, and its keyboard."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import socket
import sys
import termios
import tty
from collections.abc import Generator
from pathlib import Path
from typing import Any

import click

from vetro.cli.connection import Connection, segment
from vetro.cli.output import emit_object, fail, json_option, say

LEAVE = b"\x1d"
_CONNECT_SECONDS = 30.0


def _path_of(connection: Connection, name_or_uuid: str) -> str:
    from vetro.cli.machines import find_vm

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
    with connect(where) as line:
        typing = bool(where.get("interactive"))
        if sys.stdin.isatty() and not log:
            ends = "Ctrl-] leaves" if typing else "it only prints; Ctrl-] leaves"
            click.echo(f"Console of {name_or_uuid} ({ends})", err=True)
        _sit(line, typing=typing, watching=not log)


def connect(where: dict[str, Any]) -> socket.socket:
    """The stream a node serves, opened with its token."""
    try:
        line = socket.create_connection((where["host"], where["port"]), _CONNECT_SECONDS)
    except OSError as error:
        fail(
            f"The node does not answer at {where['address']}: {error.strerror or error}",
            "Streams come straight from the node: its admin address must be reachable from here.",
        )
    line.settimeout(None)
    line.sendall(f"{where['token']}\n".encode())
    return line


@contextlib.contextmanager
def raw_keyboard(wanted: bool = True) -> Generator[None, None, None]:
    """Every key as it is, Ctrl-C as well; as before at the end."""
    if not wanted or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        click.echo("", err=True)


def _sit(line: socket.socket, *, typing: bool, watching: bool) -> None:
    keyboard = sys.stdin.fileno() if watching else -1
    terminal = watching and sys.stdin.isatty()
    rest = b""
    with raw_keyboard(watching):
        sources: list[Any] = [line, *([keyboard] if watching else [])]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if keyboard in ready:
                keys = os.read(keyboard, 4096)
                typed, found, _ = keys.partition(LEAVE) if terminal else (keys, b"", b"")
                if typed and typing:
                    send_keys(line, typed)
                if found:
                    return
                if not keys:
                    # Nobody types any more; what the machine says is still shown.
                    sources.remove(keyboard)
            if line in ready:
                data = line.recv(65536)
                if not data:
                    return
                *lines, rest = (rest + data).split(b"\n")
                for one in lines:
                    if show(json.loads(one)):
                        return


def send_keys(line: socket.socket, keys: bytes) -> None:
    """Type ``keys``."""
    text = {"type": "stdin", "data": base64.b64encode(keys).decode()}
    line.sendall(json.dumps(text).encode() + b"\n")


def show(told: dict[str, Any]) -> bool:
    """Print one line of the stream; whether it was the last."""
    if told.get("type") == "end":
        return True
    data = base64.b64decode(str(told.get("data") or ""))
    stream = sys.stderr if told.get("type") == "stderr" else sys.stdout
    while data:
        data = data[os.write(stream.fileno(), data) :]
    return False


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
