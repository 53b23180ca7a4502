"""How the broker names its users' domain to the identity service."""

from typing import Any

import pytest

from vetro.broker import CatalogApi, CfapiSection
from vetro.http.client import HttpClient, Response


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
