"""The catalog face on a real database, with users of two projects."""

import io
import zipfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vetro import catalog, environments
from vetro.catalog import Catalog
from vetro.environments import EngineCall, EngineTask, Environments, TaskResult, environments_face
from vetro.http import Principal, assemble
from vetro.http.client import HttpClient, Response
from vetro.storage import Database, Lease, migrate

FORM = "Version: 2\nApplication: {'?': {type: org.acme.App}}\n"


class Users:
    """Tokens are user names: ann and bob in project p, rob its reader, eve in q, root administrator in r."""

    async def authenticate(self, token: str) -> Principal | None:
        project = {"ann": "p", "bob": "p", "rob": "p", "eve": "q", "root": "r"}.get(token)
        if project is None:
            return None
        roles = {"root": frozenset({"admin", "member"}), "rob": frozenset({"reader"})}.get(
            token, frozenset({"member"})
        )
        return Principal(f"id-{token}", token, project, roles=roles)


@dataclass
class Api:
    """The API as users see it, and the engine's side of the queue."""

    http: HttpClient
    database: Database
    rooms: Environments
    headers: dict[str, str] = field(default_factory=dict)

    async def call(
        self, method: str, path: str, body: Any = None, *, user: str = "ann", **headers: str
    ) -> Response:
        """A request; ``session=`` sends the session header, ``fields=`` the one that asks for ours."""
        given = {"X-Auth-Token": user}
        if "fields" in headers:
            given["X-Vetro-Fields"] = headers["fields"]
        if "session" in headers:
            given["X-Configuration-Session"] = headers["session"]
        if "type" in headers:
            given["Content-Type"] = headers["type"]
            import json

            return await self.http.request(
                method, f"/v1{path}", content=json.dumps(body).encode(), headers=given
            )
        return await self.http.request(method, f"/v1{path}", json=body, headers=given)

    async def environment(self, name: str = "e", user: str = "ann") -> str:
        """Create an environment; its id."""
        answer = await self.call("POST", "/environments", {"name": name}, user=user)
        assert answer.status == 200, answer.text
        return answer.json()["id"]

    async def session(self, environment: str, user: str = "ann") -> str:
        """Open a session; its id."""
        answer = await self.call("POST", f"/environments/{environment}/configure", user=user)
        assert answer.status == 200, answer.text
        return answer.json()["id"]

    async def add(self, environment: str, session: str, **properties: Any) -> Any:
        """Add an application."""
        body = {"?": {"type": "org.App"}, **properties}
        path = f"/environments/{environment}/services"
        answer = await self.call("POST", path, body, session=session)
        assert answer.status == 200, answer.text
        return answer.json()

    async def deploy(self, environment: str, session: str) -> None:
        """Submit a session."""
        path = f"/environments/{environment}/sessions/{session}/deploy"
        answer = await self.call("POST", path)
        assert (answer.status, answer.content) == (200, b""), answer.text

    async def opened(self, name: str = "e", user: str = "ann") -> tuple[str, str]:
        """Create an environment and open a session; their ids."""
        environment = await self.environment(name, user)
        return environment, await self.session(environment, user)

    async def configured(self, name: str = "e", /, **application: Any) -> tuple[str, str]:
        """Create an environment with a session that adds an application."""
        environment, session = await self.opened(name)
        await self.add(environment, session, **application)
        return environment, session

    async def submitted(self, name: str = "e", /, **application: Any) -> tuple[str, str]:
        """Create an environment with an application that waits for its deployment."""
        environment, session = await self.configured(name, **application)
        await self.deploy(environment, session)
        return environment, session

    async def taken(self, name: str = "e", /, **application: Any) -> tuple[str, Lease, EngineTask]:
        """Create an environment whose first deployment an engine has taken."""
        environment, _ = await self.submitted(name, **application)
        return environment, *await self.take()

    async def take(self) -> tuple[Lease, EngineTask]:
        """Be an engine: claim the waiting task."""
        claimed = await self.rooms.tasks.claim("engine", 60)
        assert claimed is not None
        return claimed

    async def finish(self, **changes: Any) -> EngineTask:
        """Be an engine: finish the waiting task as a good run would."""
        lease, task = await self.take()
        model = {**task.model, "ObjectsCopy": task.model["Objects"], **changes}
        await self.rooms.tasks.finish_task(lease, TaskResult(model))
        return task

    async def status(self, environment: str) -> str:
        """The environment's status."""
        return (await self.call("GET", f"/environments/{environment}")).json()["status"]

    async def upload(
        self,
        content: bytes,
        metadata: str | None = None,
        user: str = "ann",
        path: str = "/v1/catalog/packages",
        method: str = "POST",
    ) -> Response:
        """Upload a package as the stock clients do."""
        return await self.http.request(
            method,
            path,
            files={"package": ("p.zip", content)},
            data={"__metadata__": metadata} if metadata is not None else None,
            headers={"X-Auth-Token": user},
        )


@pytest.fixture
def package_zip() -> Any:
    """Makes small package archives."""

    def make(
        name: str = "org.acme.App",
        *,
        version: str = "1.0.0",
        klass: str = "Name: App\n",
        form: str = FORM,
        tags: str = "[web]",
    ) -> bytes:
        manifest = (
            f"Format: '1.4'\nType: Application\nFullName: {name}\nVersion: {version}\n"
            f"Name: {name.rsplit('.', 1)[-1]}\nDescription: A test package\nAuthor: ann\n"
            f"Tags: {tags}\nClasses:\n  {name}: App.yaml\n"
        )
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("manifest.yaml", manifest)
            archive.writestr("Classes/App.yaml", klass)
            if form:
                archive.writestr("UI/ui.yaml", form)
        return buffer.getvalue()

    return make


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncGenerator[Api, None]:
    """The API on SQLite and on PostgreSQL."""
    database = await Database.open(database_url)
    try:
        await migrate(database, [catalog.MIGRATIONS, environments.MIGRATIONS])
        rooms = Environments(database)
        assembly = assemble(
            [environments_face(Catalog(database, tmp_path / "packages"), rooms.tasks, Users())]
        )
        async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
            yield Api(http, database, rooms)
    finally:
        await database.close()


async def next_call(store: Any) -> tuple[Lease, EngineCall] | None:
    """A call whose caller still waits, as the worker of an engine takes it."""
    while (lease := await store.queue.claim("engine", 3600)) is not None:
        if (call := await store.call_of(lease)) is not None:
            return lease, call
    return None
