"""The command in an OpenStack: who signs in by an openrc file, and where Vetro is by the service catalog."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.openstack.stub import Answer, Stub, serving

from vetro.cli.client.connection import Connection

LOGIN = "POST /v3/auth/tokens"


@pytest.fixture
async def keystone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[tuple[Stub, list[Any]]]:
    """A Keystone whose catalog has Vetro, and the logins that it got."""
    for name in ("VETRO_URL", "VETRO_TOKEN", "OS_TOKEN", "OS_USERNAME", "OS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    async with serving() as stub:
        stub.keystone("application-catalog")
        usual, logins = stub.answers[LOGIN], list[Any]()

        def login(headers: dict[str, str], given: Any) -> Answer:
            logins.append(given["auth"])
            return usual(headers, given)

        stub.answers[LOGIN] = login
        monkeypatch.setenv("OS_AUTH_URL", stub.url)
        yield stub, logins


def where() -> tuple[str, str]:
    """Where Vetro is, and the token."""
    with Connection() as connection:
        return connection.url, connection.token


async def test_an_application_credential_signs_in_and_finds_vetro(
    keystone: tuple[Stub, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credential is what is sent, once; the region's endpoint is where Vetro is."""
    stub, logins = keystone
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_ID", "a1")
    monkeypatch.setenv("OS_APPLICATION_CREDENTIAL_SECRET", "s1")
    monkeypatch.setenv("OS_REGION_NAME", "RegionOne")
    assert await asyncio.to_thread(where) == (f"{stub.url}/application-catalog", "service-token")
    given = {"id": "a1", "secret": "s1"}
    methods = {"methods": ["application_credential"], "application_credential": given}
    assert logins == [{"identity": methods}]


async def test_a_user_and_a_project_of_other_domains_sign_in(
    keystone: tuple[Stub, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids count before names, as the dashboard of OpenStack writes them; a region without Vetro has none."""
    _stub, logins = keystone
    for name, value in (
        ("OS_USERNAME", "ann"),
        ("OS_PASSWORD", "pw"),
        ("OS_USER_DOMAIN_NAME", "lab"),
        ("OS_PROJECT_NAME", "apollo"),
        ("OS_PROJECT_DOMAIN_ID", "d1"),
        ("OS_REGION_NAME", "elsewhere"),
    ):
        monkeypatch.setenv(name, value)
    assert (await asyncio.to_thread(where))[0] == "http://127.0.0.1:8082"
    monkeypatch.setenv("OS_PROJECT_ID", "p1")
    await asyncio.to_thread(where)
    assert logins[0]["identity"]["password"]["user"]["domain"] == {"name": "lab"}
    assert logins[0]["scope"] == {"project": {"name": "apollo", "domain": {"id": "d1"}}}
    assert logins[1]["scope"] == {"project": {"id": "p1"}}
