"""Environments and their regions (core-library.md §3.3-3.5)."""

from __future__ import annotations

from typing import Any

import pytest

ROOM = """
Name: Room
Extends: std:Application
Properties:
  instances: {Contract: [$.class(res:Instance).notNull()], Default: []}
Methods:
  deploy:
    Body:
      - $.instances.pselect($.deploy())
"""


def room(lab: Any, *instances: Any, **environment: Any) -> Any:
    """An environment with machines."""
    lab.add_class(ROOM)
    return lab.environment(
        lab.application("room", "test.Room", instances=list(instances)), **environment
    )


def names(lab: Any) -> list[str]:
    """The names of all stacks."""
    return sorted(row.name for row in lab.cloud.stacks.store.stacks.values())


async def test_one_region_without_a_name(lab: Any) -> None:
    """Its stack is named after the environment, today and at every redeployment."""
    model = await lab.deploy(room(lab, lab.instance()))
    assert names(lab) == ["murano--env"]
    model["Objects"]["name"] = "renamed"
    await lab.deploy(model)
    assert names(lab) == ["murano--env"]
    assert model["Objects"]["region"] == ""


async def test_an_environment_without_applications_has_no_stack(lab: Any) -> None:
    """Deploying it empty removes what there was; applications can come again."""
    model = await lab.deploy(room(lab, lab.instance()))
    apps = model["Objects"]["applications"]
    model["Objects"]["applications"] = []
    model = await lab.deploy(model)
    assert names(lab) == []
    assert lab.cloud.compute.server_list == {}
    assert lab.cloud.compute.subnet_list == {}
    fresh = lab.application("room2", "test.Room", instances=[lab.instance("vm2", "web2")])
    model["Objects"]["applications"] = [fresh]
    await lab.deploy(model)
    assert apps
    assert len(lab.cloud.compute.server_list) == 1


async def test_an_environment_without_networks(lab: Any) -> None:
    """It has no manager of security groups, which is not an error."""
    await lab.deploy(room(lab, networks={}))
    text = "- Return: [$env.securityGroupManager = null, $env.stack = $region.stack]"
    assert await lab.probe(text) == [True, True]


async def test_deleting_an_environment(lab: Any) -> None:
    """One deletion of the stack, no update before it (§10)."""
    model = await lab.deploy(room(lab, lab.instance(), lab.instance("b", "db")))
    await lab.destroy(model)
    assert lab.kinds().count("stack.delete") == 1
    assert "stack.push" not in lab.kinds()
    assert names(lab) == []
    assert sorted(lab.cloud.reports.untracked) == ["b", "vm"]


async def test_a_home_region_with_a_name(lab: Any) -> None:
    """The default region is that one; the environment's networks are its."""
    lab.cloud.options["engine.home_region"] = "north"
    model = await lab.deploy(room(lab, lab.instance()))
    assert names(lab) == ["murano-north-env"]
    objects = model["Objects"]
    assert objects["region"] == "north"
    assert set(objects["regions"]) == {"", "north"}
    text = """
    - Return: [$region = $env.regions.get(north), $env.homeRegionName, $region.name,
        $env.defaultNetworks.environment = $region.defaultNetworks.environment]
    """
    assert await lab.probe(text) == [True, "north", "north", True]
    lab.calls()
    again = await lab.deploy(lab.model)
    assert lab.calls() == []
    assert again["Objects"]["regions"].keys() == objects["regions"].keys()


CONFIGS = {
    "io.murano.Environment": {
        "regionConfigs": {
            "south": {"agentRabbitMq": {"host": "south.example", "login": "l", "password": "p"}},
            "west": {"agentRabbitMq": {"host": "west.example", "port": 5671, "ssl": True}},
        }
    }
}


async def test_several_regions(lab: Any) -> None:
    """Each has its stack and its own copy of the networks; machines live where they say."""
    lab.class_configs = CONFIGS
    model = await lab.deploy(
        room(lab, lab.instance(), lab.instance("s", "southern", regionName="south"))
    )
    assert names(lab) == ["murano--env", "murano-south-env"]
    stacks = {row.name: row.template["resources"] for row in lab.cloud.stacks.store.stacks.values()}
    assert "web" in stacks["murano--env"]
    assert "southern" in stacks["murano-south-env"]
    assert "southern" not in stacks["murano--env"]
    assert "network-net" not in stacks["murano-south-env"]
    cidrs = [one.cidr for one in lab.cloud.compute.subnet_list.values()]
    assert len(set(cidrs)) == 2
    regions = model["Objects"]["regions"]
    assert set(regions) == {"", "south", "west"}
    assert regions["south"]["defaultNetworks"]["environment"]["regionName"] == "south"
    lab.calls()
    again = await lab.deploy(model)
    assert lab.calls() == []
    await lab.destroy(again)
    assert names(lab) == []
    assert lab.cloud.compute.server_list == {}


async def test_what_regions_are_configured_with(lab: Any) -> None:
    """A broker of their own or the service's; what is not said has its default."""
    lab.class_configs = CONFIGS
    text = """
    - Return: $env.regions.items().orderBy($[0]).select($[1].getConfig().agentRabbitMq).toList()
    """
    default, south, west = await lab.probe(text)
    assert default["host"] == "mailbox.example"
    assert south == {
        "host": "south.example", "port": 5672, "login": "l", "password": "p",
        "virtual_host": "/", "ssl": False, "insecure": False,
    }  # fmt: skip
    assert (west["port"], west["ssl"], west["login"]) == (5671, True, "guest")


async def test_a_region_that_does_not_exist_is_named(lab: Any) -> None:
    """The error names the existing regions."""
    lab.class_configs = CONFIGS
    said = await lab.failure(room(lab, lab.instance(regionName="east")))
    assert said.endswith("There is no region east; there are south, west")


async def test_the_nearest_word_about_the_region_counts(lab: Any) -> None:
    """A machine's own, else its owner's, else the environment's."""
    lab.class_configs = CONFIGS
    model = room(lab, lab.instance(), region="west")
    await lab.deploy(model)
    assert names(lab) == ["murano-west-env"]


async def test_regions_may_be_unknown_to_a_single_cloud(lab: Any) -> None:
    """An environment that asks for a region where none is configured lives in the only one."""
    await lab.deploy(room(lab, lab.instance(), region="RegionOne"))
    assert names(lab) == ["murano--env"]


@pytest.mark.parametrize("parallel", [1, 3])
async def test_applications_are_deployed_side_by_side(lab: Any, parallel: int) -> None:
    """All of them, each once."""
    lab.add_class(ROOM)
    apps = [
        lab.application(f"a{n}", "test.Room", instances=[lab.instance(f"v{n}", f"n{n}")])
        for n in range(parallel)
    ]
    await lab.deploy(lab.environment(*apps))
    assert len(lab.cloud.compute.server_list) == parallel


async def test_an_application_that_fails_leaves_what_there_is(lab: Any) -> None:
    """The environment can be deployed again after the reason is gone, or deleted."""
    lab.cloud.compute.room = 1
    model = room(lab, lab.instance(), lab.instance("b", "db"))
    model = await lab.deploy(model, fails=True)
    assert len(lab.cloud.compute.server_list) == 1
    lab.cloud.compute.room = 2
    model = await lab.deploy(model)
    assert len(lab.cloud.compute.server_list) == 2
    await lab.destroy(model)
    assert lab.cloud.compute.server_list == {}


DESTROYING = """
Name: Stubborn
Extends: std:Application
Methods:
  .destroy:
    Body:
      - Throw: Trouble
        Message: cannot be removed
"""


async def test_a_destroy_that_fails_is_reported(lab: Any) -> None:
    """It does not stop the removal of the rest, and is not silent."""
    lab.add_class(DESTROYING)
    model = await lab.deploy(lab.environment(lab.application("x", "test.Stubborn")))
    model["Objects"]["applications"] = []
    reply = await lab.run(model, {"object_id": "env", "method": "deploy", "args": {}})
    assert not reply.is_exception
    assert any("cannot be removed" in text for text in reply.warnings)
