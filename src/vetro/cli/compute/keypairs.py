"""``vetro keypair``: public keys that new machines accept."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec

from vetro.cli.client.connection import Connection
from vetro.cli.client.name_completion import KEYPAIR
from vetro.cli.compute.lookup import project_of, project_option
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import PrintingGroup, done, emit_object, emit_rows, fail
from vetro.cli.terminal.paths import FILE
from vetro.compute.client import calls
from vetro.compute.wire import NewKeypair

_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/]+={0,3}( .*)?\Z")


@click.group(cls=PrintingGroup)
def keypair() -> None:
    """Key pairs: public keys that new machines let in ('vetro vm create --key')."""


def read_public_key(path: Path) -> str:
    """A public key from its file; the command ends when it is none, above all when it is the private one."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        text = ""
    if "PRIVATE KEY" in text:
        fail(f"{path} is a private key", f"Give the public one: {path}.pub.", 2)
    if not _KEY.match(text):
        fail(f"{path} is not a public key", "One looks like 'ssh-ed25519 AAAA… you@machine'.", 2)
    return text


def public_key(connection: Connection, wanted: str, project: str) -> str:
    """The public key of a key pair, or of a file."""
    known = connection.look_up(calls.keypair(wanted, project))
    if known is not None:
        return known.public_key
    if Path(wanted).is_file():
        return read_public_key(Path(wanted))
    found = connection.send(calls.keypairs(project))
    names = ", ".join(one.name for one in found) or "none yet"
    fail(
        f"There is no key pair '{wanted}', nor a file of that name",
        f"Key pairs: {names}. 'vetro keypair create NAME FILE' makes one.",
    )


@keypair.command("list")
@project_option
def keypair_list(project: str | None) -> None:
    """List key pairs."""
    with Connection() as connection:
        found = connection.send(calls.keypairs(project_of(connection, project)))
    emit_rows(
        [msgspec.to_builtins(one) for one in found],
        [("NAME", "name"), ("PUBLIC KEY", "public_key")],
    )


@keypair.command("show")
@click.argument("name", type=KEYPAIR)
@project_option
def keypair_show(name: str, project: str | None) -> None:
    """Show one key pair."""
    with Connection() as connection:
        found = connection.send(calls.keypair(name, project_of(connection, project)))
    emit_object(msgspec.to_builtins(found))


@keypair.command("create", short_help="Keep a public key under a name.")
@click.argument("name")
@click.argument("file", type=FILE)
@project_option
def keypair_create(name: str, file: Path, project: str | None) -> None:
    """Keep the public key in FILE (~/.ssh/id_ed25519.pub) under NAME."""
    public = read_public_key(file)
    with Connection() as connection:
        new = NewKeypair(public_key=public, project_id=project_of(connection, project))
        hint = "Delete it first ('vetro keypair delete'), or choose another name."
        made = connection.send(calls.set_keypair(name, new), hint=hint)
    done(f"Key pair {name} is there", **msgspec.to_builtins(made))


@keypair.command("delete", short_help="Forget public keys.")
@click.argument("names", nargs=-1, required=True, type=KEYPAIR)
@project_option
@yes_option
def keypair_delete(names: tuple[str, ...], project: str | None) -> None:
    """Delete public keys; machines created with one still accept it."""
    with Connection() as connection:
        owner = project_of(connection, project)
        agree(f"The key pair {some_of(list(names))} would be deleted", "Go on")
        for name in names:
            connection.send(calls.remove_keypair(name, owner))
    done(f"Deleted key pair {', '.join(names)}", deleted=list(names))
