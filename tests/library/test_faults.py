"""Deployments that fail or die anywhere: deploying again mends them, destroying leaves nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from vetro.engine.system.memory import MemoryCloud
from vetro.muranopl import DirectEffects
from vetro.stacks import ResourceFailure
from vetro.stacks.memory import MemoryCompute

SHOP = """
Name: Shop
Extends: std:Application
Properties:
  address:
    Contract: $.class(std:SharedIp)
  machines:
    Contract: [$.class(res:Instance).notNull()]
Methods:
  deploy:
    Body:
      - If: $.address != null
        Then:
          - $.address.deploy()
      - $.machines.pselect($.deploy())
      - $.machines.pselect(conf:Linux.runCommand($.agent, 'true'))
      - $.reportDeployed()
  .destroy:
    Body:
      - $.reportDestroyed()
"""
ADDRESS = {"?": {"id": "sip", "type": "io.murano.SharedIp"}, "name": "sip"}
GROUP = {"?": {"id": "near", "type": "io.murano.resources.InstanceAffinityGroup"}, "name": "near"}
VOLUME = {"?": {"id": "vol", "type": "io.murano.resources.CinderVolume"}, "size": 1, "name": "v"}


class DyingEffects(DirectEffects):
    """An engine that dies before or after its n-th effect: from then on nothing happens."""

    def __init__(self, dies_at: int, *, after: bool) -> None:
        super().__init__(seed=dies_at)
        self.dies_at = dies_at
        self.after = after

    def perform(self, kind: str, request: Any, execute: Any) -> Any:
        number = len(self.performed) + 1
        if number > self.dies_at or (number == self.dies_at and not self.after):
            self.performed.append((kind, request))
            raise RuntimeError("the engine is dead")
        result = super().perform(kind, request, execute)
        if number == self.dies_at:
            raise RuntimeError("the engine is dead")
        return result


@pytest.fixture
def lab(lab: Any) -> Any:
    """The laboratory with one runtime for every run, as an engine's workers have it."""
    runtime = lab.make()
    lab.add_class(SHOP)
    runtime.add_package(lab.packages.pop())
    lab.make = lambda: runtime
    return lab


def shop(lab: Any) -> Any:
    """Two machines on one shared address, one of them with a volume and a floating address."""
    first = lab.instance(
        "one", "one", assignFloatingIp=True, sharedIps=["sip"], instanceAffinityGroup=GROUP,
        volumes={"/srv": VOLUME},
    )  # fmt: skip
    second = lab.instance("two", "two", sharedIps=["sip"], instanceAffinityGroup="near")
    address = {key: value for key, value in ADDRESS.items() if key != "name"}
    return lab.environment(
        lab.application("shop", "test.Shop", address=address, machines=[first, second])
    )


def anew(lab: Any, tmp_path: Any) -> None:
    """An empty cloud in place of the laboratory's: two hosts, as the machines want to be apart."""
    lab.cloud = MemoryCloud(tmp_path, MemoryCompute(hosts=2))


def inventory(lab: Any) -> dict[str, int]:
    """How much of everything there is."""
    compute = lab.cloud.compute
    kinds = ["network", "subnet", "router", "group", "port", "floating", "server", "volume"]
    return {
        **{kind: len(getattr(compute, f"{kind}_list")) for kind in kinds},
        "tickets": len(compute.tickets),
        "queues": len(lab.cloud.transport.queues),
        "tracked": len(lab.cloud.reports.tracked),
    }


async def emptied(lab: Any, model: Any) -> None:
    """Destroy the environment; nothing but the project's router and the outside are left."""
    await lab.destroy(model)
    left = inventory(lab)
    assert left.pop("router") <= 1
    assert left.pop("network") == 1
    assert not any(left.values()), left
    assert lab.cloud.stacks.store.stacks == {}
    assert lab.cloud.transport.credentials == {}


async def undisturbed(lab: Any, tmp_path: Any) -> dict[str, int]:
    """What a deployment without faults makes."""
    anew(lab, tmp_path)
    model = await lab.deploy(shop(lab))
    made = inventory(lab)
    assert (made["server"], made["volume"], made["floating"], made["queues"]) == (2, 1, 1, 2)
    await emptied(lab, model)
    return made


async def test_death_at_every_effect(lab: Any, tmp_path: Any) -> None:
    """An engine dies before or after any effect; the model is what it was. Deploying again makes
    exactly what an undisturbed deployment makes, and destroying, at once or later, leaves nothing."""
    made = await undisturbed(lab, tmp_path)
    anew(lab, tmp_path)
    await lab.deploy(shop(lab))
    total = len(lab.effects[-1].performed)
    assert total > 10
    for number in range(1, total + 1):
        for after in (False, True):
            for again in (True, False):
                anew(lab, tmp_path)
                model = shop(lab)
                await died(lab, model, number, after=after)
                # What the service stores of a task whose engine died.
                model = {**model, "ObjectsCopy": copy.deepcopy(model["Objects"])}
                if again:
                    model = await lab.deploy(model)
                    assert inventory(lab) == made, (number, after)
                await emptied(lab, model)


async def died(lab: Any, model: Any, number: int, *, after: bool) -> None:
    """Deploy with an engine that dies at its n-th effect."""
    session = lab.session()
    session.effects = DyingEffects(number, after=after)
    action = {"object_id": "env", "method": "deploy", "args": {}}
    await session.run_task_async({"action": action, "model": copy.deepcopy(model)})


@pytest.mark.thorough
async def test_death_of_a_destroying_engine(lab: Any, tmp_path: Any) -> None:
    """Destroying again, after any effect of the first try, leaves nothing."""
    anew(lab, tmp_path)
    model = await lab.deploy(shop(lab))
    await lab.destroy(model)
    total = len(lab.effects[-1].performed)
    for number in range(1, total + 1):
        for after in (False, True):
            anew(lab, tmp_path)
            model = await lab.deploy(shop(lab))
            gone = {**model, "Objects": None, "ObjectsCopy": model["Objects"]}
            session = lab.session()
            session.effects = DyingEffects(number, after=after)
            await session.run_task_async({"action": None, "model": copy.deepcopy(gone)})
            await emptied(lab, model)


def failing_at(number: int, calls: list[str]) -> Callable[[str], None]:
    """A compute service whose n-th call fails, once."""

    def before(call: str) -> None:
        calls.append(call)
        if len(calls) == number:
            raise ResourceFailure(f"{call} failed")

    return before


@pytest.mark.parametrize("again", [True, False])
async def test_a_failure_of_every_call_of_the_back_end(
    lab: Any, tmp_path: Any, again: bool
) -> None:
    """A resource that cannot be made fails the deployment with its reason; deploying the model that
    this leaves makes everything once, and destroying it leaves nothing."""
    made = await undisturbed(lab, tmp_path)
    calls: list[str] = []
    anew(lab, tmp_path)
    lab.cloud.compute.before = failing_at(0, calls)
    await lab.deploy(shop(lab))
    for number in range(1, len(calls) + 1):
        anew(lab, tmp_path)
        lab.cloud.compute.before = failing_at(number, [])
        reply = await lab.run(shop(lab), {"object_id": "env", "method": "deploy", "args": {}})
        lab.cloud.compute.before = lambda call: None
        model = reply.model
        if reply.is_exception:
            assert f"{calls[number - 1]} failed" in reply.message or number < 3
        if again:
            model = await lab.deploy(model)
            assert inventory(lab) == made, calls[number - 1]
        await emptied(lab, model)


@pytest.mark.thorough
async def test_a_failure_of_every_call_of_a_destruction(lab: Any, tmp_path: Any) -> None:
    """What cannot be removed fails the deletion with the reason; the environment is still known,
    and deleting it again leaves nothing."""
    calls: list[str] = []
    anew(lab, tmp_path)
    model = await lab.deploy(shop(lab))
    lab.cloud.compute.before = failing_at(0, calls)
    await lab.destroy(model)
    assert {"delete_server", "delete_network"} <= set(calls)
    for number in range(1, len(calls) + 1):
        anew(lab, tmp_path)
        model = await lab.deploy(shop(lab))
        lab.cloud.compute.before = failing_at(number, [])
        reply = await lab.run({**model, "Objects": None, "ObjectsCopy": model["Objects"]}, None)
        lab.cloud.compute.before = lambda call: None
        assert reply.is_exception
        assert reply.message.startswith("The stack murano--env could not be deleted: ")
        assert f"{calls[number - 1]} failed" in reply.message
        assert reply.model["ObjectsCopy"]["applications"]
        await emptied(lab, {"Objects": None, "ObjectsCopy": reply.model["ObjectsCopy"]})
