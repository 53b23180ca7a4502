"""``vetro token``: a token for the HTTP faces."""

from __future__ import annotations

import click

from vetro.cli.client.connection import Connection
from vetro.cli.terminal.output import PrintingCommand, emit_object, wants_json


@click.command("token", cls=PrintingCommand)
def token() -> None:
    """Print a token; give it as X-Auth-Token."""
    with Connection() as connection:
        if wants_json():
            emit_object({"token": connection.token, "url": connection.url})
        else:
            click.echo(connection.token)
