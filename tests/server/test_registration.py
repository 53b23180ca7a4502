"""Vetro's services in the service catalog of a Keystone."""

from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tests.openstack.stub import Stub, serving

from vetro.openstack import PasswordCredential, Session
from vetro.server.errors import StartError
from vetro.server.registration import operator, register


class Catalog:
    """Regions, services and endpoints of a Keystone."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.regions: set[str] = set()
        self.services: dict[str, dict[str, Any]] = {}
        self.endpoints: dict[str, dict[str, Any]] = {}
        stub.keystone()
        stub.answers["POST /v3/regions"] = self._region
        stub.answers["GET /v3/services"] = self._listed("services", self.services)
        stub.answers["GET /v3/endpoints"] = self._listed("endpoints", self.endpoints)
        stub.answers["POST /v3/services"] = self._made("service", self.services)
        stub.answers["POST /v3/endpoints"] = self._made("endpoint", self.endpoints)

    def _listed(self, name: str, kept: dict[str, dict[str, Any]]) -> Callable[..., tuple[int, Any]]:
        def show(*_: Any) -> tuple[int, Any]:
            wanted = dict(parse_qsl(self.stub.query))
            chosen = [one for one in kept.values() if wanted.items() <= one.items()]
            return 200, {name: chosen}

        return show

    def _region(self, _headers: Any, given: Any) -> tuple[int, Any]:
        name = given["region"]["id"]
        self.regions.add(name)
        self.stub.answers[f"GET /v3/regions/{name}"] = lambda *_: (200, {"region": {"id": name}})
        return 201, given

    def _made(self, kind: str, kept: dict[str, dict[str, Any]]) -> Callable[..., tuple[int, Any]]:
        def make(_headers: Any, given: Any) -> tuple[int, Any]:
            id_ = f"{kind}-{len(kept)}"
            kept[id_] = {**given[kind], "id": id_}

            def change(_headers: Any, given: Any) -> tuple[int, Any]:
                kept[id_].update(given[kind])
                return 200, {kind: kept[id_]}

            def remove(*_: Any) -> tuple[int, Any]:
                kept.pop(id_)
                return 204, None

            self.stub.answers[f"PATCH /v3/{kind}s/{id_}"] = change
            self.stub.answers[f"DELETE /v3/{kind}s/{id_}"] = remove
            return 201, {kind: kept[id_]}

        return make

    def urls(self, service: str) -> set[str]:
        """The addresses of a service, by its name."""
        ids = [id_ for id_, one in self.services.items() if one["name"] == service]
        return {one["url"] for one in self.endpoints.values() if one["service_id"] in ids}


@pytest.fixture
async def catalog() -> AsyncIterator[Catalog]:
    """The catalog of a Keystone that answers."""
    async with serving() as stub:
        yield Catalog(stub)


async def registered(catalog: Catalog, url: str, **options: bool) -> list[str]:
    """What a registration says."""
    credential = PasswordCredential("admin", "secret", "admin")
    async with Session(catalog.stub.url, credential) as session:
        return [line async for line in register(session, url, "RegionOne", **options)]


async def test_a_service_is_registered_once_and_follows_its_address(catalog: Catalog) -> None:
    """The first run adds region, services and interfaces; others change addresses, or nothing."""
    first = await registered(catalog, "https://vetro.example.org")
    assert first[0] == "added the region RegionOne"
    assert catalog.urls("vetro") == {"https://vetro.example.org"}
    assert catalog.urls("vetro-compute") == {"https://vetro.example.org/compute"}
    assert len(catalog.endpoints) == 9
    assert await registered(catalog, "https://vetro.example.org") == []
    moved = await registered(catalog, "https://new.example.org")
    assert len(moved) == 9
    assert all("(was https://vetro.example.org" in line for line in moved)
    gone = await registered(catalog, "https://new.example.org", remove=True)
    assert "removed the service vetro (application-catalog)" in gone
    assert (catalog.services, catalog.endpoints) == ({}, {})
    assert await registered(catalog, "https://new.example.org", remove=True) == []


async def test_services_of_others_are_left_alone(catalog: Catalog) -> None:
    """A service of the same type with another name keeps its endpoints."""
    catalog.services["old"] = {"id": "old", "type": "application-catalog", "name": "murano"}
    catalog.endpoints["e"] = {
        "id": "e",
        "service_id": "old",
        "interface": "public",
        "region_id": "RegionOne",
        "url": "http://old",
    }
    await registered(catalog, "https://vetro.example.org")
    await registered(catalog, "https://vetro.example.org", remove=True)
    assert catalog.urls("murano") == {"http://old"}


async def test_a_user_without_rights_is_told_what_is_needed(catalog: Catalog) -> None:
    """Keystone's refusal is passed on with the role that is needed."""
    catalog.stub.answers["POST /v3/regions"] = lambda *_: (403, {"error": {"message": "not you"}})
    with pytest.raises(StartError, match="not you") as caught:
        await registered(catalog, "https://vetro.example.org")
    assert "role admin" in str(caught.value.hint)


def test_the_operator_is_read_from_an_openrc_file() -> None:
    """Variables that lack are named; an application credential needs its secret only."""
    with pytest.raises(StartError, match="OS_AUTH_URL and OS_USERNAME"):
        operator({"OS_PASSWORD": "x", "OS_PROJECT_NAME": "p"})
    given = {"OS_AUTH_URL": "http://k/v3", "OS_APPLICATION_CREDENTIAL_ID": "id"}
    with pytest.raises(StartError, match="OS_APPLICATION_CREDENTIAL_SECRET not set"):
        operator(given)
    url, who = operator({**given, "OS_APPLICATION_CREDENTIAL_SECRET": "s"})
    assert (url, who.who) == ("http://k/v3", "application credential id")
