"""``NetworkDirectory`` over Neutron (core-library.md §4.8), and copies of volumes at Cinder (§5.6)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import structlog

from vetro.http import Principal
from vetro.openstack import (
    KeystonePlace,
    NotInCatalog,
    OpenStackError,
    OpenstackSection,
    Session,
    TokenCredential,
)
from vetro.stacks.directory import router_with_gateway
from vetro.stacks.heat.offers import VOLUMES
from vetro.stacks.heat.patience import Patience

NEUTRON = "network"
Rows = list[dict[str, Any]]


class NeutronDirectory:
    """The networks of the project that the session is scoped to, and what is shared with it."""

    def __init__(self, session: Session, *, patience: Patience | None = None) -> None:
        self._session = session
        self._patience = patience or Patience()

    async def default_router(
        self, project_id: str, *, name: str, create: bool, external_network: str
    ) -> str:
        """The router called `name`; see `NetworkDirectory`."""

        async def look() -> tuple[str, bool] | None:
            for router in await self._list("routers", name=name, tenant_id=project_id):
                return str(router["id"]), bool(router.get("external_gateway_info"))
            return None

        found = await router_with_gateway(name, look)
        if found is None and not create:
            raise KeyError(f"Router {name} was not found")
        return found or await self._make_router(name, external_network)

    async def router_cidrs(self, project_id: str, router_id: str) -> list[str]:
        """The ranges of the subnets that the router has ports in."""
        ports = await self._list("ports", device_id=router_id)
        subnets = {one["subnet_id"] for port in ports for one in port["fixed_ips"]}
        return [str(one["cidr"]) for one in await self._list("subnets") if one["id"] in subnets]

    async def external_network_for_router(self, project_id: str, router_id: str) -> str | None:
        """The id of the router's gateway network."""
        for router in await self._list("routers", id=router_id):
            return _gateway(router)
        return None

    async def external_network_for_network(self, project_id: str, network_id: str) -> str | None:
        """`network_id` itself if it is external, else the gateway of a router attached to it."""
        for network in await self._list("networks", id=network_id):
            if network.get("router:external"):
                return network_id
        ports = await self._list("ports", network_id=network_id)
        attached = {
            port["device_id"] for port in ports if "router_interface" in str(port["device_owner"])
        }
        for router in await self._list("routers") if attached else []:
            if router["id"] in attached and _gateway(router):
                return _gateway(router)
        return None

    async def list_routers(self, project_id: str) -> Rows:
        """The project's own routers."""
        return await self._list("routers", tenant_id=project_id)

    async def list_networks(self, project_id: str) -> Rows:
        """The project's networks, the shared and the external ones."""
        return await self._list("networks")

    async def list_subnetworks(self, project_id: str) -> Rows:
        """The subnets that the project may see."""
        return await self._list("subnets")

    async def list_ports(self, project_id: str) -> Rows:
        """The project's ports."""
        return await self._list("ports", tenant_id=project_id)

    async def list_neutron_extensions(self, project_id: str) -> Rows:
        """What this Neutron can do."""
        return await self._list("extensions")

    async def _list(self, kind: str, **filters: str) -> Rows:
        async def ask() -> Rows:
            response = await self._session.request(
                NEUTRON, "GET", f"{await self._version()}/{kind}", params=filters or None
            )
            assert response is not None
            rows: Rows = response.json()[kind]
            return rows

        return await self._patience.ask(ask, f"Reading the {kind} of the project")

    async def _version(self) -> str:
        """The version, where the catalog's address has none."""
        return "" if (await self._session.endpoint(NEUTRON)).endswith("/v2.0") else "/v2.0"

    async def _make_router(self, name: str, external_network: str) -> str:
        networks = await self._list("networks", **{"router:external": "True"})
        gateway = _named(networks, external_network)
        if gateway is None:
            raise KeyError(f"Router {name} could not be created, no external network found")
        body = {"router": {"name": name, "external_gateway_info": {"network_id": gateway}}}
        response = await self._session.request(
            NEUTRON, "POST", f"{await self._version()}/routers", json=body
        )
        assert response is not None
        return str(response.json()["router"]["id"])


def _gateway(router: dict[str, Any]) -> str | None:
    found = router.get("external_gateway_info")
    return str(found["network_id"]) if found else None


def _named(networks: Iterable[dict[str, object]], wanted: str) -> str | None:
    """The network with an id, when ``wanted`` looks like one, else the one with a name."""
    try:
        uuid.UUID(wanted)
        key = "id"
    except ValueError:
        key = "name"
    return next((str(one["id"]) for one in networks if one[key] == wanted), None)


class CinderDirectory:
    """The copies of volumes in the project that the session is scoped to."""

    def __init__(self, session: Session, *, patience: Patience | None = None) -> None:
        self._session = session
        self._patience = patience or Patience()

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether the project has a ``snapshot`` or ``backup`` of this id that can be used.

        Cinder shows a session those of its own project only. Errors: `OpenStackError`, `StackError`.
        """
        path = f"/{kind}s/{quote(id_, safe='')}"

        async def ask() -> str:
            # 400: what is no uuid.
            answer = await self._session.request(VOLUMES, "GET", path, absent=(400, 404))
            return "" if answer is None else str(answer.json()[kind]["status"])

        return await self._patience.ask(ask, f"Looking for the volume {kind} {id_}") == "available"


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
