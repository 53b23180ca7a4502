"""What a real OpenStack offers to forms, asked as the user who fills one in (packages-and-forms.md B4).

A service that its catalog does not have is not known: its fields take any text. One that fails offers
nothing and gives a warning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from vetro.http import Principal
from vetro.json_texts import NotJson, decode_json
from vetro.openstack import (
    KeystonePlace,
    NotInCatalog,
    OpenStackError,
    OpenstackSection,
    Session,
    TokenCredential,
)
from vetro.stacks.offers import Items, Platform, could_not_be_listed

COMPUTE = "compute"
VOLUMES = ("block-storage", "volumev3", "volume")
PAGE = 500


class OffersByRegion:
    """Choices of forms from the OpenStack where a region is one's, else from ``native``."""

    def __init__(self, section: OpenstackSection, place: KeystonePlace, native: Platform) -> None:
        self._section = section
        self._place = place
        self._native = native

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Lists by kind, and warnings; see ``Platform`` of the environments."""
        if self._section.back_end(region) != "heat":
            return await self._native.offers(kinds, principal, region)
        given = TokenCredential(principal.token, principal.project_id)
        async with self._place.session(given, region or "") as session:
            asked = [kind for kind in kinds if kind in _SOURCES]
            answers = await asyncio.gather(*(_listed(session, kind) for kind in asked))
        found: dict[str, Items | None] = dict.fromkeys(kinds)
        warnings: list[str] = []
        for kind, (items, warning) in zip(asked, answers, strict=True):
            found[kind] = items
            warnings += [warning] if warning else []
        return found, warnings


async def _listed(session: Session, kind: str) -> tuple[Items | None, str]:
    try:
        return await _SOURCES[kind](session), ""
    except NotInCatalog:
        return None, ""
    except OpenStackError as error:
        return [], could_not_be_listed(kind, error)


async def rows_of(
    session: Session, service: tuple[str, ...] | str, path: str, key: str, **filters: object
) -> list[dict[str, Any]]:
    """Every row of a list, page by page."""
    found: list[dict[str, object]] = []
    while True:
        answer = await session.request(service, "GET", path, params={**filters, "limit": PAGE})
        assert answer is not None
        rows: list[dict[str, object]] = answer.json()[key]
        # Neutron without paging answers with all of them, whatever the limit.
        new = rows if not found or not rows or rows[0].get("id") != found[0].get("id") else []
        found += new
        if len(new) < PAGE:
            return found
        filters["marker"] = new[-1]["id"]


async def _flavors(session: Session) -> Items:
    return [
        {
            "value": one["name"],
            "label": one["name"],
            "memory": one["ram"],
            "disk": one["disk"],
            "vcpus": one["vcpus"],
        }
        for one in await rows_of(session, COMPUTE, "/flavors/detail", "flavors")
    ]


async def _images(session: Session) -> Items:
    """The images that are marked for applications: those with ``murano_image_info``."""
    found: Items = []
    version = "" if (await session.endpoint("image")).endswith("/v2") else "/v2"
    for one in await rows_of(session, "image", f"{version}/images", "images"):
        if one.get("image_type") == "snapshot" or "murano_image_info" not in one:
            continue
        try:
            info = decode_json(one["murano_image_info"], dict[str, Any])
        except NotJson:
            continue
        name, status = str(one.get("name") or one["id"]), str(one["status"])
        title = str(info.get("title") or name)
        found.append(
            {
                "value": one["id"],
                "label": title if status == "active" else f"{title} ({status})",
                "name": name,
                "title": title,
                "type": info.get("type"),
                "enabled": status == "active",
            }
        )
    return sorted(found, key=lambda one: one["label"])


async def _keypairs(session: Session) -> Items:
    answer = await session.request(COMPUTE, "GET", "/os-keypairs")
    assert answer is not None
    names = [str(one["keypair"]["name"]) for one in answer.json()["keypairs"]]
    return [{"value": name, "label": name} for name in names]


async def _zones(session: Session) -> Items:
    answer = await session.request(COMPUTE, "GET", "/os-availability-zone")
    assert answer is not None
    return [
        {"value": one["zoneName"], "label": one["zoneName"]}
        for one in answer.json()["availabilityZoneInfo"]
        if one["zoneState"]["available"]
    ]


async def _neutron(session: Session, kind: str) -> Items:
    version = "" if (await session.endpoint("network")).endswith("/v2.0") else "/v2.0"
    return await rows_of(session, "network", f"{version}/{kind}", kind.replace("-", "_"))


async def _networks(session: Session) -> Items:
    subnets: dict[str, Items] = {}
    for one in await _neutron(session, "subnets"):
        shown = {"id": one["id"], "name": one["name"], "cidr": one["cidr"]}
        subnets.setdefault(one["network_id"], []).append(shown)
    return [
        {
            "id": one["id"],
            "name": one["name"],
            "external": bool(one.get("router:external")),
            "subnets": subnets.get(one["id"], []),
        }
        for one in await _neutron(session, "networks")
    ]


async def _security_groups(session: Session) -> Items:
    groups = await _neutron(session, "security-groups")
    return [{"value": one["name"], "label": one["name"]} for one in groups]


async def _volumes(session: Session) -> Items:
    found: Items = []
    for path, key, kind in (
        ("/volumes/detail", "volumes", "volume"),
        ("/snapshots/detail", "snapshots", "snapshot"),
    ):
        for one in await rows_of(session, VOLUMES, path, key, status="available"):
            label = f"{one['name'] or one['id']} ({one['size']} GiB)"
            found.append({"value": one["id"], "label": label, "kind": kind})
    return found


async def _dns_zones(session: Session) -> Items:
    version = "" if (await session.endpoint("dns")).endswith("/v2") else "/v2"
    rows = await rows_of(session, "dns", f"{version}/zones", "zones")
    return [{"value": one["name"], "label": one["name"]} for one in rows]


_SOURCES: dict[str, Callable[[Session], Awaitable[Items]]] = {
    "flavors": _flavors,
    "images": _images,
    "keypairs": _keypairs,
    "azones": _zones,
    "networks": _networks,
    "security_groups": _security_groups,
    "volumes": _volumes,
    "dns_zones": _dns_zones,
}
