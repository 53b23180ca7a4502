"""A client that a generator makes of the OpenAPI documents: its types are checked, and it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.conftest import Installation

pytestmark = [pytest.mark.thorough, pytest.mark.e2e]
FACES = {"catalog": "", "identity": "/identity", "compute": "/compute", "agents": "/agents"}
#: JSON under names of its own, text, and pictures: what the generator does not know by itself.
CONFIG = """
content_type_overrides:
  application/murano-packages-json-patch: application/json
  application/env-model-json-patch: application/json
  text/event-stream: text/plain
  image/png: application/octet-stream
post_hooks: []
"""
PROGRAM = """
import sys
from catalog import AuthenticatedClient as CatalogClient
from catalog.api.default import (
    create_environment, delete_environment, list_environments, list_packages, open_session,
    show_environment,
)
from catalog.models import (
    ChangedEnvironment, CreateEnvironmentBody, Environment, EnvironmentPage, Fault,
    PackagePage, Session,
)
from compute import AuthenticatedClient as ComputeClient
from compute.api.default import network_create, network_list, server_list
from compute.models import Network, NetworkCreateBody
from identity import AuthenticatedClient as IdentityClient
from identity.api.default import list_projects
from identity.models import ListProjectsResponse200

url, token = sys.argv[1:]


def main() -> None:
    catalog = CatalogClient(base_url=url, token=token, prefix="", auth_header_name="X-Auth-Token")
    made = create_environment.sync(client=catalog, body=CreateEnvironmentBody(name="typed"))
    assert isinstance(made, ChangedEnvironment)
    again = create_environment.sync(client=catalog, body=CreateEnvironmentBody(name="typed"))
    assert isinstance(again, Fault) and again.error.code == 409
    session = open_session.sync(made.id, client=catalog)
    assert isinstance(session, Session) and session.version == 0
    shown = show_environment.sync(made.id, client=catalog)
    assert isinstance(shown, Environment) and shown.acquired_by is None
    rows = list_environments.sync(client=catalog)
    assert isinstance(rows, EnvironmentPage)
    names: list[str] = [one.name for one in rows.environments]
    assert names == ["typed"]
    page = list_packages.sync(client=catalog)
    assert isinstance(page, PackagePage) and page.packages == []
    assert delete_environment.sync_detailed(made.id, client=catalog, abandon="true").status_code == 200

    compute = ComputeClient(base_url=url + "/compute", token=token)
    network = network_create.sync(client=compute, body=NetworkCreateBody(name="typed"))
    assert isinstance(network, Network)
    mtu: int | None = network.mtu
    assert mtu and not network.external
    networks = network_list.sync(client=compute)
    assert isinstance(networks, list) and network.uuid in [one.uuid for one in networks]
    servers = server_list.sync(client=compute)
    assert isinstance(servers, list) and len(servers) == 1 and servers[0].uuid

    identity = IdentityClient(
        base_url=url + "/identity", token=token, prefix="", auth_header_name="X-Auth-Token"
    )
    projects = list_projects.sync(client=identity)
    assert isinstance(projects, ListProjectsResponse200)
    assert "admin" in [one.name for one in projects.projects]


main()
print("good")
"""


def run(*command: str, cwd: Path) -> str:
    """What a program prints, both streams; it must succeed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_generated_client_is_typed_and_works(project: Installation, tmp_path: Path) -> None:
    """Every call of every face becomes a typed function that returns the documented type."""
    token = project.run("token").strip()
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "program.py").write_text(PROGRAM)
    for face, prefix in FACES.items():
        status, document = project.http("GET", f"{prefix}/schema/openapi.json", token=token)
        assert status == 200
        (tmp_path / f"{face}.json").write_text(json.dumps(document))
        said = run(
            sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none",
            "--config", "config.yaml", "--path", f"{face}.json", "--output-path", face,
            cwd=tmp_path,
        )  # fmt: skip
        assert "arning" not in said, said
        operations = [one for item in document["paths"].values() for one in item.values()]
        assert len(list((tmp_path / face / "api" / "default").glob("[!_]*.py"))) == len(operations)
        for operation in operations:
            good = [one for code, one in operation["responses"].items() if code < "400"]
            assert good, operation["operationId"]
            assert operation["security"] == [] or operation["responses"]["401"]["content"]
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"include": ["program.py"], "pythonVersion": "3.11"})
    )
    checked = run(
        sys.executable, "-m", "pyright", "-p", ".", "--pythonpath", sys.executable, cwd=tmp_path
    )
    assert "0 errors" in checked
    assert run(sys.executable, "program.py", project.url, token, cwd=tmp_path) == "good\n"
