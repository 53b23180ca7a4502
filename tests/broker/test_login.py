"""The broker at the identity service and the catalog: domains of users, and connections that end."""

from typing import Any

import pytest

from vetro.broker import CatalogApi, CfapiSection
from vetro.http import ServiceUnavailable
from vetro.http.client import HttpClient, Response, TransportError


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("default", {"id": "default"}),
        ("Default", {"name": "Default"}),
        ("acme", {"name": "acme"}),
        ("5bc164e6af8049248ef28caa12d8a048", {"id": "5bc164e6af8049248ef28caa12d8a048"}),
    ],
)
async def test_domains_are_named_by_id_or_name(
    monkeypatch: pytest.MonkeyPatch, given: str, sent: dict[str, str]
) -> None:
    """The setting may be either, as it says; a Keystone may tell its Default from default."""
    bodies: list[Any] = []

    async def request(_self: HttpClient, _method: str, _url: str, **options: Any) -> Response:
        bodies.append(options["json"])
        token = {"token": {"project": {"id": "p"}}}
        import json

        return Response(201, {"X-Subject-Token": "t"}, json.dumps(token).encode())

    monkeypatch.setattr(HttpClient, "request", request)
    section = CfapiSection(
        user_domain_name=given, project_domain_name=given, catalog_url="http://catalog"
    )
    async with HttpClient() as http:
        account = await CatalogApi(section, http, b"salt").log_in("ann", "secret")
    assert account.project_id == "p"
    auth = bodies[0]["auth"]
    assert auth["identity"]["password"]["user"]["domain"] == sent
    assert auth["scope"]["project"]["domain"] == sent


async def test_connections_that_end_are_noticed_by_changes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A login and a read are sent again when the process at the other end stops, a change is not."""
    asked: list[str] = []

    async def request(_self: HttpClient, method: str, url: str, **_options: Any) -> Response:
        asked.append(f"{method} {url}")
        if len(asked) % 2:
            raise TransportError("Server disconnected without sending a response.")
        return Response(201, {}, b'{"packages": []}')

    monkeypatch.setattr(HttpClient, "request", request)
    async with HttpClient() as http:
        catalog = CatalogApi(CfapiSection(catalog_url="http://catalog"), http, b"salt")
        account = await catalog.log_in("ann", "secret")
        assert await catalog.applications(account) == []
        assert [one.split()[0] for one in asked] == ["POST", "POST", "GET", "GET"]
        with pytest.raises(ServiceUnavailable, match="disconnected"):
            await catalog.call(account, "POST", "/environments", {"name": "e"})
    assert len(asked) == 5
