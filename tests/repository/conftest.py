"""The repository face on a real database, with users of two projects."""

import gzip
import io
import tarfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vetro.http import Principal, assemble
from vetro.http.client import HttpClient, Response
from vetro.repository import MIGRATIONS, Repository, RepositorySection, repository_face
from vetro.storage import Database, migrate

DEMO = """full_service_name: demoService
service_display_name: Demo Service
description: A <b>demo</b>
author: Vetro
version: 0.1
service_version: 1
enabled: true
ui: [Demo.yaml]
workflows: [Common.xml, Demo.xml]
heat: [Demo.template]
agent: [Demo.template]
scripts: [Linux/run.sh]
"""
WEB = """full_service_name: webServer
service_display_name: Web
workflow: [Common.xml, Web.xml]
heat: [Demo.template]
ui: [Web.yaml]
"""
#: A small set of definitions, as a directory has it.
SHIPPED: dict[str, str] = {
    "demoService-manifest.yaml": DEMO,
    "webServer-manifest.yaml": WEB,
    "ui_forms/Demo.yaml": "forms: []\nname: x\nt: !yaql '$.a'\n",
    "ui_forms/Web.yaml": "forms: []\n",
    "workflows/Common.xml": "<workflow><rule match='$.services[*]'/></workflow>",
    "workflows/Demo.xml": (
        "<workflow>\n<rule match=\"$.services[?(@.type == 'demoService')]\">\n"
        '<update-cf-stack template="Demo"/>\n<send-command template="Demo"/></rule></workflow>'
    ),
    "workflows/Web.xml": '<workflow><update-cf-stack template="Demo"/></workflow>',
    "heat_templates/Demo.template": '{"Resources": {}}',
    "agent_templates/Demo.template": '{"Scripts": ["Linux/run.sh"], "Commands": []}',
    "scripts/Linux/run.sh": "#!/bin/sh\n",
}


class Users:
    """Tokens are user names: ann and bob in project p, eve in q; ed may edit, root is administrator."""

    async def authenticate(self, token: str) -> Principal | None:
        project = {"ann": "p", "bob": "p", "ed": "p", "eve": "q", "root": "p"}.get(token)
        if project is None:
            return None
        extra = {"ed": {"editor"}, "root": {"admin"}}.get(token, set())
        return Principal(f"id-{token}", token, project, roles=frozenset({"member", *extra}))


@dataclass
class Api:
    """The API as users see it."""

    http: HttpClient
    repository: Repository

    async def call(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        *,
        user: str = "ann",
        json: Any = None,
        **headers: str,
    ) -> Response:
        """A request below ``/v1``; a body is bytes unless it is ``json``."""
        given = {"X-Auth-Token": user} if user else {}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if json is not None:
            return await self.http.request(method, f"/v1{path}", json=json, headers=given)
        if content:
            given.setdefault("Content-Type", "application/octet-stream")
        return await self.http.request(method, f"/v1{path}", content=content, headers=given)

    async def ok(self, method: str, path: str, content: bytes = b"", **given: Any) -> Any:
        """The JSON of a call that succeeds."""
        answer = await self.call(method, path, content, **given)
        assert answer.status == 200, answer.text
        return answer.json()

    async def archive(self, client: str, user: str = "ann") -> dict[str, bytes]:
        """The files in a client's archive."""
        answer = await self.call("GET", f"/client/{client}", user=user)
        assert answer.status == 200, answer.text
        return unpack(answer.content)


def unpack(content: bytes) -> dict[str, bytes]:
    """The files of a tar.gz by path."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        return {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
            if member.isfile()
        }


def pack(files: Mapping[str, str | bytes], *members: tarfile.TarInfo) -> bytes:
    """A tar.gz of these files, and of members without content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            body = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(path)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
        for member in members:
            archive.addfile(member)
    return gzip.compress(buffer.getvalue())


def write_shipped(root: Path, files: Mapping[str, str] = SHIPPED) -> Path:
    """A directory with definitions."""
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    return root


async def opened(database: Database, shipped: Path, **settings: Any) -> AsyncGenerator[Api, None]:
    """The face on a database."""
    repository = Repository(database, RepositorySection(**settings), shipped)
    assembly = assemble([repository_face(repository, Users(), prefix="")])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://repository") as http:
        yield Api(http, repository)


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncGenerator[Database, None]:
    """An empty database with the room's tables."""
    there = await Database.open(database_url, data_dir=tmp_path)
    await migrate(there, [MIGRATIONS])
    yield there
    await there.close()


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """The definitions that projects begin with."""
    return write_shipped(tmp_path / "shipped")


@pytest.fixture
async def api(database: Database, shipped: Path) -> AsyncGenerator[Api, None]:
    """The face with a small shipped set."""
    async for one in opened(database, shipped):
        yield one
