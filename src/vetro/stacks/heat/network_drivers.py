"""Which network service a cloud has, for environments that name no network (catalog-api.md §5.1)."""

from __future__ import annotations

import time

import structlog

from vetro.http import Principal
from vetro.openstack import (
    KeystonePlace,
    NotInCatalog,
    OpenStackError,
    OpenstackSection,
    TokenCredential,
)

log = structlog.get_logger(__name__)
KNOWN_SECONDS = 300.0
"""How long a region's answer holds: a cloud seldom gets another network service."""


class NetworkDrivers:
    """``neutron`` where the service catalog of a region has a network service, else ``nova``.

    Where stacks are native it is ``neutron``: an environment's own network can be made there.
    """

    def __init__(self, section: OpenstackSection, place: KeystonePlace) -> None:
        self._section = section
        self._place = place
        self._known: dict[str, tuple[float, str]] = {}

    async def __call__(self, principal: Principal, region: str | None) -> str:
        """The driver for a new environment of the caller in a region.

        A Keystone that does not answer must not keep anybody from composing: then it is ``neutron``.
        """
        if self._section.back_end(region) != "heat":
            return "neutron"
        name = region or ""
        until, driver = self._known.get(name, (0.0, ""))
        if time.monotonic() < until:
            return driver
        given = TokenCredential(principal.token, principal.project_id)
        try:
            async with self._place.session(given, name) as session:
                await session.endpoint("network")
                driver = "neutron"
        except NotInCatalog:
            driver = "nova"
        except OpenStackError as error:
            log.warning("network_service_not_known", region=name, error=str(error))
            return "neutron"
        self._known[name] = (time.monotonic() + KNOWN_SECONDS, driver)
        return driver
