"""A `vetro up` with an application that gives credentials, and a `vetro broker` before it."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import VETRO, Installation
from tests.waiting import until

MANIFEST = """\
Format: '1.4'
Type: Application
FullName: org.example.{name}
Version: 1.0.0
Name: {name}
Description: {description}
Author: tests
Tags: [database]
Classes:
  org.example.{name}: App.yaml
"""
APP = """\
Namespaces: {=: org.example, std: io.murano}
Name: %s
Extends: std:Application
Properties:
  name: {Contract: $.string().notNull()}
  password: {Contract: $.string(), Default: none}
  seconds: {Contract: $.int(), Default: 0}
  bare: {Contract: $.bool(), Default: false}
Methods:
  deploy:
    Body:
      - sleep($.seconds)
"""
CREDENTIALS = """\
  getCredentials:
    Scope: Public
    Body:
      - If: $.bare
        Then:
          - Return: {uri: $.name}
      - Return: {credentials: {uri: $.name, password: $.password}}
"""


@dataclass
class Platform:
    """A Cloud Foundry in front of the broker: what it sends, and the ids that it chose."""

    url: str
    user: str
    password: str
    version: str = "2.17"
    answer_headers: dict[str, str] = field(default_factory=dict[str, str])

    def send(
        self, method: str, path: str, body: Any = None, **headers: str | None
    ) -> tuple[int, Any]:
        """A request: status and JSON. A header that is None is left out."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        given = {
            "Authorization": f"Basic {login}",
            "X-Broker-API-Version": self.version,
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kept = {name: value for name, value in given.items() if value is not None}
        request = urllib.request.Request(self.url + path, data, kept, method=method)
        try:
            with urllib.request.urlopen(request, timeout=240) as answer:
                self.answer_headers = {name.lower(): one for name, one in answer.headers.items()}
                return int(answer.status), json.loads(answer.read())
        except urllib.error.HTTPError as error:
            self.answer_headers = {name.lower(): one for name, one in error.headers.items()}
            return error.code, json.loads(error.read())

    def service(self, name: str = "Database") -> tuple[str, str]:
        """The ids of a service of the catalog, and of its plan."""
        status, body = self.send("GET", "/v2/catalog")
        assert status == 200
        found = next(one for one in body["services"] if one["name"] == name)
        return found["id"], found["plans"][0]["id"]

    def wanted(self, name: str = "Database", space: str = "", **parameters: Any) -> dict[str, Any]:
        """The body of a request for an instance."""
        service, plan = self.service(name)
        return {
            "service_id": service,
            "plan_id": plan,
            "organization_guid": "an-organization",
            "space_guid": space or str(uuid.uuid4()),
            # A platform may leave them out.
            **({"parameters": parameters} if parameters else {}),
        }

    def settled(self, path: str) -> tuple[int, Any]:
        """The answer about the last operation once it is not in progress any more."""

        def look() -> tuple[int, Any] | None:
            status, body = self.send("GET", f"{path}/last_operation")
            return None if body.get("state") == "in progress" else (status, body)

        answer = until(look, "the operation ended")
        assert answer is not None
        return answer


@dataclass
class Site:
    """The running processes."""

    vetro: Installation
    platform: Platform


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service with its engines and no node, two applications, and a broker of its own directory."""
    directory = tmp_path_factory.mktemp("broker")
    vetro = Installation(directory, driver="process", VETRO_NODE_ENABLED="false")
    vetro.inside = True
    vetro.start()
    for name, methods in (("Database", CREDENTIALS), ("Mute", "")):
        place = directory / f"package-{name}"
        (place / "Classes").mkdir(parents=True)
        text = MANIFEST.format(name=name, description="x" * 300 if methods else name)
        (place / "manifest.yaml").write_text(text)
        (place / "Classes/App.yaml").write_text(APP % name + methods)
        vetro.run("package", "import", str(place))
    with serving(vetro, tmp_path_factory.mktemp("own")) as platform:
        yield Site(vetro, platform)
    vetro.end()


@contextmanager
def serving(vetro: Installation, directory: Path, **environ: str) -> Iterator[Platform]:
    """A broker with a directory of its own before a service, and a platform that uses it."""
    openrc = (vetro.directory / "admin-openrc").read_text()
    password = openrc.partition("OS_PASSWORD=")[2].partition("\n")[0].strip("'\"")
    command = [VETRO, "broker", "--port", "0", "--data-dir", str(directory),
               "--auth-url", f"{vetro.url}/identity"]  # fmt: skip
    given = {**vetro.environ, **environ}
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "The service broker listens on" in line
        url = line.split()[-1].removesuffix("/v2")
        try:
            yield Platform(url, "admin", password)
        finally:
            process.terminate()
            assert process.wait(60) == 0


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def either(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Iterator[Platform]:
    """The platform in front of a broker on each database."""
    if request.param == "sqlite":
        yield site.platform
        return
    url = request.getfixturevalue("postgres_database")
    with serving(site.vetro, tmp_path, VETRO_CFAPI_DATABASE_URL=url) as platform:
        yield platform


@pytest.fixture
def platform(site: Site) -> Platform:
    """The platform in front of the broker."""
    return site.platform


@pytest.fixture
def instance() -> str:
    """The path of a new instance."""
    return f"/v2/service_instances/{uuid.uuid4()}"
