"""A whole Vetro on a real OpenStack: Keystone's users deploy packages, Heat makes the stacks."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.conftest import Installation

from vetro.http.client import HttpClient
from vetro.openstack import Session

from .conftest import Cloud

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]

TEMPLATE = """
heat_template_version: 2013-05-23
parameters:
  cidr: {type: string, default: 10.72.0.0/24}
resources:
  net: {type: OS::Neutron::Net}
  sub:
    type: OS::Neutron::Subnet
    properties: {network: {get_resource: net}, cidr: {get_param: cidr}}
outputs:
  range: {value: {get_attr: [sub, cidr]}}
"""


@pytest.fixture(scope="module")
def vetro(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A Vetro whose users are the cloud's and whose stacks are Heat's, used by its member demo."""
    directory = tmp_path_factory.mktemp("openstack")
    installation = Installation(
        directory,
        driver="simulated",
        **cloud.openrc("demo"),
        VETRO_IDENTITY_URL=cloud.url,
        VETRO_IDENTITY_SERVICE_USER="service",
        VETRO_IDENTITY_SERVICE_PASSWORD=cloud.openrc()["OS_PASSWORD"],
        VETRO_OPENSTACK_STACKS="heat",
        VETRO_NETWORK_EXTERNAL_NETWORK="public",
        VETRO_NETWORK_ROUTER_NAME="router",
    )
    installation.start()
    package = directory / "heat-package"
    package.mkdir()
    (package / "manifest.yaml").write_text(
        "Format: Heat.HOT/1.0\nType: Application\nFullName: test.Heat\nName: Heat\nVersion: 1.0.0\n"
        "Description: a network\nAuthor: nobody\nTags: [net]\n"
    )
    (package / "template.yaml").write_text(TEMPLATE)
    installation.run("package", "import", str(package))
    yield installation
    installation.stop()


async def test_a_deployment_is_a_stack_of_its_user(vetro: Installation, cloud: Cloud) -> None:
    """The stack is in the user's project; a second deployment updates it; destroying removes it, and the
    credential that acted for the user is gone after each."""
    environment = vetro.json("env", "create", "net")["id"]
    vetro.run("env", "add", "net", "test.Heat", "--name", "n")
    vetro.run("env", "deploy", "net")
    async with cloud.session("demo") as session:
        stacks = await _stacks(session, environment)
        assert [one["stack_status"] for one in stacks] == ["CREATE_COMPLETE"]
        assert stacks[0]["stack_owner"] == "demo"
        user = await session.user_id()
        kept = await session.request("identity", "GET", f"/users/{user}/application_credentials")
        assert kept is not None
        assert kept.json()["application_credentials"] == []
        vetro.run("env", "edit", "net", "n", "--set", 'templateParameters={"cidr": "10.73.0.0/24"}')
        vetro.run("env", "deploy", "net")
        assert [one["stack_status"] for one in await _stacks(session, environment)] == [
            "UPDATE_COMPLETE"
        ]
        vetro.run("env", "destroy", "--yes", "net")
        assert await _stacks(session, environment) == []


async def test_the_dashboard_signs_in_at_keystone(vetro: Installation, cloud: Cloud) -> None:
    """A session has Keystone's user and projects; its token is revoked there when it ends."""
    marks = {"X-Vetro-Dashboard": "1"}
    given = {"user": "demo", "password": cloud.openrc("demo")["OS_PASSWORD"]}
    async with HttpClient(base_url=f"http://127.0.0.1:{vetro.port}/dashboard/api") as browser:
        wrong = {**given, "password": "wrong"}
        refused = await browser.request("POST", "/session", json=wrong, headers=marks)
        assert refused.status == 401
        begun = await browser.request("POST", "/session", json=given, headers=marks)
        assert (begun.status, begun.json()["project"]["name"]) == (200, "demo"), begun.text
        marks["Cookie"] = begun.headers["set-cookie"].partition(";")[0]
        assert (await browser.request("GET", "/v1/environments", headers=marks)).status == 200
        assert (await browser.request("DELETE", "/session", headers=marks)).status == 204
        over = await browser.request("GET", "/session", headers=marks)
        assert over.status == 401


async def _stacks(session: Session, environment: str) -> list[dict[str, Any]]:
    found = await session.request("orchestration", "GET", "/stacks")
    assert found is not None
    # Heat lists a stack for a moment after its deletion.
    return [
        one
        for one in found.json()["stacks"]
        if one["stack_name"].endswith(environment) and one["stack_status"] != "DELETE_COMPLETE"
    ]
