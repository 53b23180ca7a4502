"""Users and projects of a domain of their own."""

import copy
import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.openstack import PasswordCredential, Session

from .cloud import Cloud
from .conftest import NETWORK, listed, package, stacks_of

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]
PASSWORD = secrets.token_hex(8)


async def made(admin: Session, kind: str, **values: Any) -> str:
    """Make something in Keystone: its id."""
    body = {kind: values}
    answer = await admin.request("identity", "POST", f"/{kind}s", json=body)
    assert answer is not None
    return str(answer.json()[kind]["id"])


async def test_a_user_of_another_domain_deploys(
    vetro: Installation, cloud: Cloud, tmp_path: Path
) -> None:
    """The user demo of another domain is somebody else: with packages, environments and stacks of
    the project there, made and removed as this user; the project of the first demo sees none of it."""
    name = f"abroad-{secrets.token_hex(4)}"
    async with cloud.session() as admin:
        domain = await made(admin, "domain", name=name)
        project = await made(admin, "project", name="demo", domain_id=domain)
        user = await made(admin, "user", name="demo", domain_id=domain, password=PASSWORD)
        roles = await listed(admin, "identity", "/roles")
        for role in roles["roles"]:
            if role["name"] in ("member", "heat_stack_owner"):
                path = f"/projects/{project}/users/{user}/roles/{role['id']}"
                await admin.request("identity", "PUT", path)
    there = copy.copy(vetro)
    there.environ = {
        **vetro.environ,
        "OS_PASSWORD": PASSWORD,
        "OS_USER_DOMAIN_NAME": name,
        "OS_PROJECT_DOMAIN_NAME": name,
        "XDG_STATE_HOME": str(tmp_path),
    }
    there.run("package", "import", package(tmp_path, "Abroad", NETWORK))
    environment = there.json("env", "create", "abroad")["id"]
    there.run("env", "add", "abroad", "test.Abroad", "--name", "n")
    there.run("env", "deploy", "abroad")
    credential = PasswordCredential("demo", PASSWORD, "demo", name, name)
    async with (
        Session(cloud.url, credential, region="RegionOne") as session,
        cloud.session("demo") as other,
    ):
        (stack,) = await stacks_of(session, environment)
        assert (stack["stack_status"], stack["stack_owner"]) == ("CREATE_COMPLETE", "demo")
        assert await stacks_of(other, environment) == []
        assert "test.Abroad" not in str(vetro.json("package", "list"))
        there.run("env", "destroy", "--yes", "abroad")
        assert await stacks_of(session, environment) == []
