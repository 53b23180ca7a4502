"""``vetro keypair``: public keys that new machines let in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from vetro.cli.client.connection import Connection, error_text, hint_for, segment
from vetro.cli.client.name_completion import KEYPAIR
from vetro.cli.compute.lookup import project_of, project_option
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import done, emit_object, emit_rows, fail, json_option

_KEY = re.compile(r"(ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/]+={0,3}( .*)?\Z")


@click.group()
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
        fail(f"{path} is no public key", "One looks like 'ssh-ed25519 AAAA… you@machine'.", 2)
    return text


def public_key(connection: Connection, wanted: str, project: str) -> str:
    """The public key of a key pair, or of a file."""
    params = {"project_id": project}
    answer = connection.answer("GET", f"/compute/keypairs/{segment(wanted)}", params=params)
    if answer.status == 200:
        return str(answer.json()["public_key"])
    if answer.status != 404:
        fail(error_text(answer), hint_for(answer))
    if Path(wanted).is_file():
        return read_public_key(Path(wanted))
    rows: list[dict[str, Any]] = connection.get("/compute/keypairs", params=params)
    names = ", ".join(row["name"] for row in rows) or "none yet"
    fail(
        f"There is no key pair '{wanted}', nor a file of that name",
        f"Key pairs: {names}. 'vetro keypair create NAME FILE' makes one.",
    )


@keypair.command("list")
@project_option
@json_option
def keypair_list(project: str | None) -> None:
    """List key pairs."""
    with Connection() as connection:
        params = {"project_id": project_of(connection, project)}
        rows = connection.get("/compute/keypairs", params=params)
    emit_rows(rows, [("NAME", "name"), ("PUBLIC KEY", "public_key")])


@keypair.command("show")
@click.argument("name", type=KEYPAIR)
@project_option
@json_option
def keypair_show(name: str, project: str | None) -> None:
    """Show one key pair."""
    with Connection() as connection:
        params = {"project_id": project_of(connection, project)}
        emit_object(connection.get(f"/compute/keypairs/{segment(name)}", params=params))


@keypair.command("create", short_help="Keep a public key under a name.")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@project_option
@json_option
def keypair_create(name: str, file: Path, project: str | None) -> None:
    """Keep the public key in FILE (~/.ssh/id_ed25519.pub) under NAME."""
    body = {"public_key": read_public_key(file)}
    with Connection() as connection:
        body["project_id"] = project_of(connection, project)
        hint = "Delete it first ('vetro keypair delete'), or choose another name."
        made = connection.request(
            "PUT", f"/compute/keypairs/{segment(name)}", json=body, hint=hint
        ).json()
    done(f"Key pair {name} is there", **made)


@keypair.command("delete", short_help="Forget public keys.")
@click.argument("names", nargs=-1, required=True, type=KEYPAIR)
@project_option
@yes_option
@json_option
def keypair_delete(names: tuple[str, ...], project: str | None) -> None:
    """Forget public keys; machines made with one still let it in."""
    with Connection() as connection:
        params = {"project_id": project_of(connection, project)}
        agree(f"The key pair {some_of(list(names))} is deleted", "Go on")
        for name in names:
            connection.request("DELETE", f"/compute/keypairs/{segment(name)}", params=params)
    done(f"Deleted key pair {', '.join(names)}", deleted=list(names))
