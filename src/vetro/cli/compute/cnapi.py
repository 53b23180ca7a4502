"""``vetro cnapi``: one request to the compute node API, as the seed's examples write it."""

from __future__ import annotations

import json
import sys
from http import HTTPStatus

import click

from vetro.cli.client.connection import Connection
from vetro.cli.terminal.typed import covered


@click.command()
@click.argument("path")
@click.option("-X", "--request", "method", help="The method [GET, or POST with -d].")
@click.option("-d", "--data", help="The JSON body.")
def cnapi(path: str, method: str | None, data: str | None) -> None:
    """Send one request; print the status line, the headers and the indented body.

    An answer of 400 and more is printed too; the exit code is then 1.

    \b
    Example:
      vetro cnapi /servers
    """
    with Connection() as connection:
        response = connection.answer(
            method or ("GET" if data is None else "POST"),
            f"/compute/{path.lstrip('/')}",
            content=None if data is None else data.encode(),
            headers={"Content-Type": "application/json"} if data is not None else None,
        )
    click.echo(f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}")
    for name, value in response.headers.items():
        click.echo(f"{name}: {value}")
    click.echo("")
    if response.content:
        try:
            click.echo(covered(json.dumps(response.json(), indent=2, ensure_ascii=False)))
        except ValueError:
            click.echo(covered(response.text))
    if response.status >= 400:
        sys.exit(1)
