"""A whole Vetro on a real OpenStack: Keystone's users deploy packages, Heat makes the stacks."""

import pytest
from tests.server.conftest import Installation

from vetro.http.client import HttpClient

from .cloud import Cloud
from .conftest import stacks_of

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]


async def test_a_deployment_is_a_stack_of_its_user(vetro: Installation, cloud: Cloud) -> None:
    """The stack is in the user's project; a second deployment updates it; destroying removes it, and the
    credential that acted for the user is gone after each."""
    environment = vetro.json("env", "create", "net")["id"]
    vetro.run("env", "add", "net", "test.Network", "--name", "n")
    vetro.run("env", "deploy", "net")
    async with cloud.session("demo") as session:
        stacks = await stacks_of(session, environment)
        assert [one["stack_status"] for one in stacks] == ["CREATE_COMPLETE"]
        assert stacks[0]["stack_owner"] == "demo"
        user = await session.user_id()
        kept = await session.request("identity", "GET", f"/users/{user}/application_credentials")
        assert kept is not None
        assert kept.json()["application_credentials"] == []
        vetro.run("env", "edit", "net", "n", "--set", 'templateParameters={"cidr": "10.73.0.0/24"}')
        vetro.run("env", "deploy", "net")
        assert [one["stack_status"] for one in await stacks_of(session, environment)] == [
            "UPDATE_COMPLETE"
        ]
        vetro.run("env", "destroy", "--yes", "net")
        assert await stacks_of(session, environment) == []


async def test_the_dashboard_signs_in_at_keystone(vetro: Installation, cloud: Cloud) -> None:
    """A session has Keystone's user and projects; its token is revoked there when it ends."""
    marks = {"X-Vetro-Dashboard": "1"}
    given = {"user": "demo", "password": cloud.openrc("demo")["OS_PASSWORD"]}
    async with HttpClient(base_url=f"http://127.0.0.1:{vetro.port}/dashboard/api") as browser:
        wrong = {**given, "password": "wrong"}
        assert (await browser.request("POST", "/session", json=wrong, headers=marks)).status == 401
        begun = await browser.request("POST", "/session", json=given, headers=marks)
        assert (begun.status, begun.json()["project"]["name"]) == (200, "demo"), begun.text
        marks["Cookie"] = begun.headers["set-cookie"].partition(";")[0]
        assert (await browser.request("GET", "/v1/environments", headers=marks)).status == 200
        # A new environment can join the networks of the cloud; none of those that lead outside.
        offered = await browser.request("GET", "/v1/networks", headers=marks)
        joinable = {one["name"]: one["subnets"] for one in offered.json()["networks"]}
        assert [one["cidr"] for one in joinable["private"]] == ["10.0.0.0/24"]
        assert "public" not in joinable
        assert (await browser.request("DELETE", "/session", headers=marks)).status == 204
        assert (await browser.request("GET", "/session", headers=marks)).status == 401
