"""``vetro openstack``: Vetro in an OpenStack."""

from __future__ import annotations

import click

from vetro.cli.terminal.installation import installation_options, local_settings
from vetro.cli.terminal.output import PrintingGroup, emit_json, wants_json


@click.group("openstack", cls=PrintingGroup)
def openstack() -> None:
    """Vetro in an OpenStack (docs/openstack.md)."""


@openstack.command("register", short_help="Name Vetro in the service catalog of Keystone.")
@click.option("--url", help="Where clients reach Vetro [server.host and server.port].")
@click.option("--region", help="The region of the catalog [identity.region, OS_REGION_NAME].")
@click.option("--remove", is_flag=True, help="Take them out of the catalog.")
@installation_options
def register(url: str | None, region: str | None, remove: bool) -> None:
    """Register Vetro's services in Keystone's service catalog, or correct what is there.

    Signs in as an administrator of the cloud with the variables of an openrc file (OS_AUTH_URL,
    OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME, or an application credential). Services are found by type and
    name; those of others are left alone. It can be run again.
    """
    import asyncio
    import os

    from vetro.openstack import Session
    from vetro.server.listeners import url_at
    from vetro.server.registration import operator
    from vetro.server.registration import register as register_services

    with local_settings() as settings:
        where = (url or url_at(settings.server.host, settings.server.port)).rstrip("/")
        named = region or settings.identity.region or os.environ.get("OS_REGION_NAME", "RegionOne")
        keystone, credential = operator(os.environ)

        async def run() -> list[str]:
            async with Session(keystone, credential) as session:
                return [x async for x in register_services(session, where, named, remove=remove)]

        changes = asyncio.run(run())
    if wants_json():
        emit_json({"region": named, "url": where, "changes": changes})
        return
    for change in changes:
        click.echo(change)
    if not changes:
        click.echo(f"Nothing to change in the region {named}.")
