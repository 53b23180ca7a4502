"""What goes wrong on a cloud while deployments run: a whole Vetro at a real Keystone and a real Heat."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.server.conftest import Installation
from tests.waiting import eventually

from vetro.http.client import HttpClient
from vetro.openstack import Session

from .cloud import Cloud
from .conftest import OTHER_REGION, WAITING_RESOURCES, listed, stacks_of
from .proxy import Proxy
from .user import User, application

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]


@pytest.fixture
async def demo(cloud: Cloud) -> AsyncIterator[Session]:
    """The member of the project demo."""
    async with cloud.session("demo") as session:
        yield session


@pytest.fixture
async def user(vetro: Installation, demo: Session) -> User:
    """The same person at Vetro."""
    return User(vetro, (await demo.login()).token)


async def waits(session: Session, environment: str) -> str:
    """Where the stack of an environment is at Heat, once Heat waits in it."""
    found: list[str] = []

    async def begun() -> bool:
        stacks = await stacks_of(session, environment)
        found[:] = [f"/stacks/{one['stack_name']}/{one['id']}" for one in stacks]
        if not found:
            return False
        answer = await session.request(
            "orchestration", "GET", f"{found[0]}/resources/wait", absent=(404,)
        )
        if answer is None:
            return False
        return bool(answer.json()["resource"]["resource_status"] == "CREATE_IN_PROGRESS")

    await eventually(begun, "Heat waits")
    return found[0]


async def go_on(session: Session, stack: str) -> None:
    """Signal what a stack waits for."""
    path = f"{stack}/resources/handle/signal"
    await session.request("orchestration", "POST", path, json={"status": "SUCCESS", "id": "1"})


async def test_heat_says_500_and_409_and_nothing(user: User, heat_proxy: Proxy) -> None:
    """In a second region, whose Heat falters at each step, a deployment, a change and a removal succeed."""
    heat_proxy.put(500, "POST", ends="/stacks")
    for fault in (503, None, 500):
        heat_proxy.put(fault, "GET")
    id_ = user.environment("faults", application("test.Network/1.0.0"), region=OTHER_REGION)
    assert (await asyncio.to_thread(user.ended, id_)).startswith("success")
    assert heat_proxy.faults == []
    for fault in (None, 500):
        heat_proxy.put(fault, "GET")
    heat_proxy.put(409, "PUT")
    heat_proxy.put(502, "PUT")
    user.deploy(id_, templateParameters={"cidr": "10.74.0.0/24"})
    assert (await asyncio.to_thread(user.ended, id_)).startswith("success")
    assert heat_proxy.faults == []
    heat_proxy.put(500, "DELETE")
    heat_proxy.put(409, "DELETE")
    await asyncio.to_thread(user.destroy, id_)
    assert heat_proxy.faults == []
    assert any(call.startswith("DELETE") for call in heat_proxy.asked)


@contextmanager
def stopped(cloud: Cloud, name: str) -> Generator[None]:
    """A service of the cloud that takes connections and says nothing."""
    rows = (cloud.directory / "pids").read_text().splitlines()
    group = next(int(row.split()[0]) for row in rows if row.split()[1] == name)
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


async def test_keystone_is_away_while_a_deployment_runs(
    user: User, cloud: Cloud, demo: Session
) -> None:
    """Callers get 503 with Keystone's address and when to ask again; the deployment waits, and succeeds.

    It takes as long as Vetro waits for an answer of Keystone.
    """
    id_ = user.environment("away", application("test.Waiting/1.0.0"))
    stack = await waits(demo, id_)
    async with cloud.session("demo") as other:
        token = (await other.login()).token
    async with HttpClient(base_url=user.vetro.url) as client:
        with stopped(cloud, "keystone"):
            said = await client.request("GET", "/v1/environments", headers={"X-Auth-Token": token})
    assert (said.status, said.headers["retry-after"]) == (503, "5")
    assert cloud.url in said.text
    await go_on(demo, stack)
    reports = await asyncio.to_thread(user.ended, id_)
    assert reports.startswith("success"), reports
    await asyncio.to_thread(user.destroy, id_)


async def test_a_stack_that_is_there_already_is_gone_on_with(user: User, demo: Session) -> None:
    """An environment whose stack exists, as after a restore of an older database, adopts it: what somebody
    else does with it is waited for, then what the template names as well is kept."""
    one = application("test.Network/1.0.0")
    id_ = str(user.call("POST", "", {"name": "adopts"})["id"])
    resources = {"net": {"type": "OS::Neutron::Net"}, **WAITING_RESOURCES}
    template = {"heat_template_version": "2013-05-23", "resources": resources}
    # With Vetro's mark: a stack that it did not make is left alone.
    name = f"hot-{one['?']['id']}_{id_}"
    body = {"stack_name": name, "template": template, "tags": "vetro"}
    await demo.request("orchestration", "POST", "/stacks", json=body)
    there = await waits(demo, id_)
    session = user.call("POST", f"/{id_}/configure")["id"]
    user.call("POST", f"/{id_}/services", one, session)
    user.call("POST", f"/{id_}/sessions/{session}/deploy")
    await eventually(lambda: "current operation" in str(user.newest(id_)["waiting_on"]))
    await go_on(demo, there)
    before: dict[str, Any] = {}

    async def made() -> bool:
        shown = await listed(demo, "orchestration", f"{there}/resources/net")
        before.update(shown["resource"])
        return before["physical_resource_id"] != ""

    await eventually(made, "the network has its id")
    said = await asyncio.to_thread(user.ended, id_)
    assert said.startswith("success"), said
    after = (await listed(demo, "orchestration", f"{there}/resources/net"))["resource"]
    assert after["physical_resource_id"] == before["physical_resource_id"]
    shown = await listed(demo, "orchestration", there)
    assert shown["stack"]["stack_status"] == "UPDATE_COMPLETE"
    await asyncio.to_thread(user.destroy, id_)
    assert await stacks_of(demo, id_) == []


async def test_a_token_is_revoked_while_a_deployment_runs(
    vetro: Installation, cloud: Cloud, demo: Session, user: User
) -> None:
    """Its owner is refused from then on; the deployment, which acts by a credential of its own, succeeds."""
    async with cloud.session("demo") as other:
        revoked = User(vetro, (await other.login()).token)
    id_ = revoked.environment("revoked", application("test.Waiting/1.0.0"))
    stack = await waits(demo, id_)
    marks = {"X-Subject-Token": revoked.token}
    await demo.request("identity", "DELETE", "/auth/tokens", headers=marks)

    def refused() -> bool:
        status, _ = vetro.http("GET", f"/v1/environments/{id_}", token=revoked.token)
        return status == 401

    await eventually(refused, "the token is refused")
    await go_on(demo, stack)
    said = await asyncio.to_thread(user.ended, id_)
    assert said.startswith("success"), said
    await asyncio.to_thread(user.destroy, id_)


async def test_a_stack_is_deleted_while_a_deployment_waits_for_it(
    user: User, demo: Session
) -> None:
    """The deployment fails and says that the stack was deleted; the next one creates it again."""
    id_ = user.environment("deleted", application("test.Waiting/1.0.0"))
    await demo.request("orchestration", "DELETE", await waits(demo, id_))
    said = await asyncio.to_thread(user.ended, id_)
    assert not said.startswith("success"), said
    assert "deleted" in said.lower()
    user.deploy(id_)
    await go_on(demo, await waits(demo, id_))
    said = await asyncio.to_thread(user.ended, id_)
    assert said.startswith("success"), said
    await asyncio.to_thread(user.destroy, id_)
