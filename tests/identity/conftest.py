"""Identity services: the built-in one, and a real Keystone (``make openstack``) with the same face."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from keystoneauth1 import session
from keystoneauth1.identity import v3
from tests.openstack.cloud import Cloud

from vetro.http import Principal, assemble, serve
from vetro.http.client import HttpClient
from vetro.identity import MIGRATIONS, CatalogEndpoint, Identity, IdentitySection
from vetro.identity.keystone import keystone_of
from vetro.storage import Database, migrate


class Authenticator(Protocol):
    """What the faces of Vetro ask about tokens."""

    async def authenticate(self, token: str) -> Principal | None: ...


@dataclass
class Served:
    """An identity service with an administrator, reached over HTTP.

    Projects, users and domains that tests make are removed after it: a Keystone outlives the test.
    """

    url: str
    """Without the version."""
    http: HttpClient
    authenticator: Authenticator
    admin_password: str = "pw"
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    made: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def name(self, name: str) -> str:
        """A name that nothing else has."""
        return f"{name}-{self.mark}"

    def password(self, user: str = "admin", password: str = "", **scope: Any) -> v3.Password:
        """A password plugin, scoped to the project admin unless told otherwise."""
        chosen = scope or {"project_name": "admin", "project_domain_name": "Default"}
        return v3.Password(
            auth_url=f"{self.url}/v3",
            username=user,
            password=password or self.admin_password,
            user_domain_name="Default",
            **chosen,
        )

    async def token(self, user: str = "admin", password: str = "", **scope: Any) -> str:
        """A token through the client library."""
        plugin = self.password(user, password, **scope)
        token = await in_thread(lambda s: s.get_token(), plugin)
        assert isinstance(token, str)
        return token

    async def call(self, method: str, path: str, token: str, json: Any = None) -> Any:
        """A raw request with a token."""
        return await self.http.request(
            method, f"{self.url}/v3{path}", json=json, headers={"X-Auth-Token": token}
        )

    async def make(self, kind: str, token: str, **body: Any) -> dict[str, Any]:
        """A domain, project or user."""
        answer = await self.call("POST", f"/{kind}s", token, {kind: body})
        assert answer.status == 201, answer.text
        made: dict[str, Any] = answer.json()[kind]
        self.made.append((kind, made["id"]))
        return made

    async def member(self, token: str, user: str, project: str) -> str:
        """Make a user a member of a project; where that stands."""
        roles = (await self.call("GET", "/roles?name=member", token)).json()["roles"]
        path = f"/projects/{project}/users/{user}/roles/{roles[0]['id']}"
        assert (await self.call("PUT", path, token)).status == 204
        return path

    async def clear(self) -> None:
        """Remove what was made, the newest first."""
        token = await self.token() if self.made else ""
        for kind, id_ in reversed(self.made):
            if kind == "domain":
                await self.call("PATCH", f"/domains/{id_}", token, {"domain": {"enabled": False}})
            await self.call("DELETE", f"/{kind}s/{id_}", token)


@dataclass
class Running(Served):
    """The built-in service."""

    identity: Identity = None  # pyright: ignore[reportAssignmentType]


async def in_thread(work: Callable[[session.Session], Any], plugin: Any) -> Any:
    """Run the (blocking) client library beside the server's loop."""

    def run() -> Any:
        opened = session.Session(auth=plugin)
        try:
            return work(opened)
        finally:
            opened.session.close()

    return await asyncio.to_thread(run)


@asynccontextmanager
async def built_in(directory: Path) -> AsyncIterator[Running]:
    """An identity service on a free port with the administrator's password 'pw'."""
    database = await Database.open(f"sqlite:///{directory}/i.db")
    await migrate(database, [MIGRATIONS])
    identity = Identity(database, IdentitySection(admin_password="pw"))
    await identity.bootstrap_admin()
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/identity"
    endpoints = [
        CatalogEndpoint("identity", "vetro-identity", url),
        CatalogEndpoint("application-catalog", "vetro", "http://catalog.test"),
    ]
    stop, ready = asyncio.Event(), asyncio.Event()
    assembly = assemble([identity.face(endpoints)])
    server = asyncio.create_task(serve(assembly, [listener], stop, on_ready=ready.set))
    await ready.wait()
    async with HttpClient() as http:
        yield Running(url, http, identity.authenticator(), identity=identity)
    stop.set()
    await server
    await database.close()


@asynccontextmanager
async def real() -> AsyncIterator[Served]:
    """The Keystone of ``VETRO_TEST_OPENSTACK``; Vetro's cache of its answers is off."""
    given = os.environ.get("VETRO_TEST_OPENSTACK")
    if not given:
        pytest.skip("VETRO_TEST_OPENSTACK is not set; tools/with-openstack.sh sets it")
    cloud = Cloud(Path(given))
    tokens = keystone_of(cloud.identity(cache_seconds=0))
    assert tokens is not None
    async with HttpClient() as http:
        url = cloud.url.removesuffix("/v3")
        served = Served(url, http, tokens, cloud.openrc()["OS_PASSWORD"])
        yield served
        await served.clear()
    await tokens.session.close()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running, None]:
    """The built-in service."""
    async with built_in(tmp_path) as one:
        yield one


@pytest.fixture(params=["built-in", pytest.param("keystone", marks=pytest.mark.openstack)])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Served, None]:
    """The built-in service, and a real Keystone."""
    async with built_in(tmp_path) if request.param == "built-in" else real() as one:
        yield one
