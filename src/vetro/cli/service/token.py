"""``vetro token`` for the HTTP faces; ``vetro dashboard``, whose link signs its first user in to it."""

from __future__ import annotations

import click

from vetro.cli.client.connection import Connection
from vetro.cli.terminal.output import PrintingCommand, emit_object, wants_json


@click.command("token", cls=PrintingCommand)
def token() -> None:
    """Print a token; give it as X-Auth-Token."""
    with Connection() as connection:
        if wants_json():
            emit_object({"token": connection.token, "url": connection.url}, secrets=True)
        else:
            click.echo(connection.token)


@click.command("dashboard", cls=PrintingCommand)
def dashboard() -> None:
    """Print a link that signs you in to the web dashboard.

    The first one who opens the link is signed in as you, in your project. It is good for ten minutes
    and for one use: do not send it to others.
    """
    with Connection() as connection:
        headers = {"X-Vetro-Dashboard": "cli"}
        link = connection.request("POST", "/dashboard/api/links", headers=headers).json()
        if wants_json():
            emit_object(link)
        else:
            click.echo(link["url"])
