"""``vetro broker``: applications of the catalog as services of a Cloud Foundry."""

from __future__ import annotations

import click

from vetro.cli.terminal.installation import installation_options, run_process


@click.command("broker")
@click.option("--host", help="Address to listen on [127.0.0.1].")
@click.option("--port", type=int, help="Port to listen on [8083].")
@click.option("--tenant", help="The project that the environments of all spaces are in [admin].")
@click.option("--auth-url", help="The identity service [http://127.0.0.1:8082/identity/v3].")
@installation_options
def broker(**options: object) -> None:
    """Run the service broker: it offers the applications of a catalog to a Cloud Foundry.

    It speaks the Open Service Broker API to the platform, and HTTP to a Vetro ('vetro up') that may
    be on another machine. Name and password that the platform is given are those of a user of Vetro
    with a role in the project --tenant (docs/broker.md).
    """
    from vetro.server.service_broker import run_broker

    run_process(run_broker, "cfapi", **options)
