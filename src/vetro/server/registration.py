"""Vetro's services in a service catalog: its own, and Keystone's (``vetro openstack register``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from vetro.identity import CatalogEndpoint
from vetro.openstack import (
    ApplicationCredential,
    Credential,
    OpenStackError,
    PasswordCredential,
    Session,
)
from vetro.server.errors import StartError

INTERFACES = ("public", "internal", "admin")
_DESCRIPTIONS = {
    "application-catalog": "Vetro: application catalog",
    "cnapi": "Vetro: compute nodes",
    "murano-metadata": "Vetro: metadata repository",
}


def services(url: str) -> list[CatalogEndpoint]:
    """The services of an installation that answers at ``url``, without identity."""
    return [
        CatalogEndpoint("application-catalog", "vetro", url),
        CatalogEndpoint("cnapi", "vetro-compute", f"{url}/compute"),
        CatalogEndpoint("murano-metadata", "vetro-repository", f"{url}/repository/v1"),
    ]


def operator(environ: Mapping[str, str]) -> tuple[str, Credential]:
    """Keystone's address and whom an openrc file signs in. Errors: ``StartError`` names what lacks."""
    url = environ.get("OS_AUTH_URL", "")
    id_ = environ.get("OS_APPLICATION_CREDENTIAL_ID")
    needed = ["OS_AUTH_URL", "OS_APPLICATION_CREDENTIAL_SECRET"]
    if not id_:
        needed = ["OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME"]
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise StartError(
            f"{' and '.join(missing)} not set: services are registered by an administrator of the cloud",
            "Source the administrator's openrc file first.",
        )
    if id_:
        return url, ApplicationCredential(id_, environ["OS_APPLICATION_CREDENTIAL_SECRET"])
    return url, PasswordCredential(
        environ["OS_USERNAME"],
        environ["OS_PASSWORD"],
        environ["OS_PROJECT_NAME"],
        environ.get("OS_USER_DOMAIN_NAME", "Default"),
        environ.get("OS_PROJECT_DOMAIN_NAME", "Default"),
    )


async def register(
    session: Session, url: str, region: str, *, remove: bool = False
) -> AsyncIterator[str]:
    """Make the catalog of a region name the services at ``url``; a line for each change.

    What is right already is left alone, so this can be run again. ``remove``: take the region's
    endpoints out, and services without endpoints. Errors: ``StartError``.
    """
    try:
        if remove:
            for wanted in services(url):
                async for line in _remove(session, wanted, region):
                    yield line
            return
        async for line in _region(session, region):
            yield line
        for wanted in services(url):
            async for line in _add(session, wanted, region):
                yield line
    except OpenStackError as error:
        raise StartError(
            f"The services are not registered: {error}",
            "The user of OS_USERNAME needs the role admin; what is registered already stays.",
        ) from error


async def _region(session: Session, region: str) -> AsyncIterator[str]:
    if await _get(session, f"/regions/{region}") is None:
        body = {"region": {"id": region}}
        await session.request("identity", "POST", "/regions", json=body)
        yield f"added the region {region}"


async def _add(session: Session, wanted: CatalogEndpoint, region: str) -> AsyncIterator[str]:
    found = await _service(session, wanted)
    if found is None:
        described = {"description": _DESCRIPTIONS[wanted.type], "enabled": True}
        body = {"service": {"type": wanted.type, "name": wanted.name, **described}}
        answer = await session.request("identity", "POST", "/services", json=body)
        assert answer is not None
        found = str(answer.json()["service"]["id"])
        yield f"added the service {wanted.name} ({wanted.type})"
    present = {one["interface"]: one for one in await _endpoints(session, found, region)}
    for interface in INTERFACES:
        known = present.get(interface)
        if known is not None and known["url"] == wanted.url:
            continue
        if known is not None:
            body = {"endpoint": {"url": wanted.url}}
            await session.request("identity", "PATCH", f"/endpoints/{known['id']}", json=body)
            yield f"changed {wanted.name}, {interface}: {wanted.url} (was {known['url']})"
            continue
        made = {
            "service_id": found,
            "interface": interface,
            "region_id": region,
            "url": wanted.url,
        }
        await session.request("identity", "POST", "/endpoints", json={"endpoint": made})
        yield f"added {wanted.name}, {interface}: {wanted.url}"


async def _remove(session: Session, wanted: CatalogEndpoint, region: str) -> AsyncIterator[str]:
    found = await _service(session, wanted)
    if found is None:
        return
    for one in await _endpoints(session, found, region):
        await session.request("identity", "DELETE", f"/endpoints/{one['id']}", absent=(404,))
        yield f"removed {wanted.name}, {one['interface']}: {one['url']}"
    if not await _endpoints(session, found, None):
        await session.request("identity", "DELETE", f"/services/{found}", absent=(404,))
        yield f"removed the service {wanted.name} ({wanted.type})"


async def _service(session: Session, wanted: CatalogEndpoint) -> str | None:
    """The id of the service of this type and name; others of the type are somebody else's."""
    body = await _get(session, "/services", type=wanted.type)
    found: list[dict[str, object]] = body["services"] if body else []
    return next((str(one["id"]) for one in found if one.get("name") == wanted.name), None)


async def _endpoints(session: Session, service: str, region: str | None) -> list[dict[str, str]]:
    chosen = {"service_id": service} | ({"region_id": region} if region else {})
    body = await _get(session, "/endpoints", **chosen)
    return body["endpoints"] if body else []


async def _get(session: Session, path: str, **params: str) -> dict[str, Any] | None:
    answer = await session.request("identity", "GET", path, params=params or None, absent=(404,))
    return None if answer is None else answer.json()
