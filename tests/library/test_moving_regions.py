"""Machines that are deployed get another region."""

from __future__ import annotations

from typing import Any

from tests.library.test_environments import CONFIGS

from vetro.stacks import ResourceFailure

CLASSES = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
  fails: {Contract: $.bool(), Default: false}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
  release:
    Scope: Public
    Body:
      - $.instance.releaseResources()
"""


def servers(lab: Any) -> dict[str, list[str]]:
    """The servers in each stack, by the stacks' regions."""
    return {
        row.name.split("-")[1]: sorted(
            name
            for name, body in row.template["resources"].items()
            if body["type"] == "OS::Nova::Server"
        )
        for row in lab.cloud.stacks.store.stacks.values()
    }


async def deployed(lab: Any, region: str | None = "south") -> Any:
    """Two machines, of which `web` is in the region."""
    lab.class_configs = CONFIGS
    lab.add_class(CLASSES)
    apps = [
        lab.application("one", "test.App", instance=lab.instance("vm", "web", regionName=region)),
        lab.application("two", "test.App", instance=lab.instance("db", "db", regionName="south")),
    ]
    return await lab.deploy(lab.environment(*apps))


def web(model: Any) -> Any:
    """The machine that moves."""
    return model["Objects"]["applications"][0]["instance"]


async def test_a_machine_that_moves_leaves_nothing_in_its_former_region(lab: Any) -> None:
    """It is made in the new one, by its name, and is found there; it can come back."""
    model = await deployed(lab)
    assert servers(lab) == {"south": ["db", "web"]}
    before = web(model)["openstackId"]
    for region, found in (("west", {"south": ["db"], "west": ["web"]}), ("south", None)):
        web(model)["regionName"] = region
        model = await lab.deploy(model)
        assert servers(lab) == (found or {"south": ["db", "web"], "west": []})
        assert web(model)["openstackId"] in lab.cloud.compute.server_list
        assert web(model)["openstackId"] != before
        assert len(lab.cloud.compute.server_list) == 2
        for row in lab.cloud.stacks.store.stacks.values():
            if "web" not in row.template["resources"]:
                assert not [name for name in row.template["resources"] if "web" in name]
        lab.calls()
        model = await lab.deploy(model)
        assert lab.calls() == []


async def test_a_machine_stays_until_there_is_one_in_the_new_region(lab: Any) -> None:
    """A deployment that fails takes nothing away; when the region is taken back, it is the same one."""
    model = await deployed(lab)
    before = web(model)["openstackId"]
    web(model)["regionName"] = "west"
    lab.cloud.compute.fail["create_server"] = ResourceFailure("full")
    model = await lab.deploy(model, fails=True)
    lab.cloud.compute.fail.clear()
    assert before in lab.cloud.compute.server_list
    web(model)["regionName"] = "south"
    model = await lab.deploy(model)
    assert web(model)["openstackId"] == before
    web(model)["regionName"] = "west"
    model = await lab.deploy(model)
    assert servers(lab)["south"] == ["db"]
    assert servers(lab)["west"] == ["web"]


async def test_a_machine_is_released_where_it_is(lab: Any) -> None:
    """Its new region was not deployed yet."""
    model = await deployed(lab)
    web(model)["regionName"] = "west"
    await lab.call(model, "one", "release")
    assert servers(lab) == {"south": ["db"]}
    model = lab.reply.model
    model["Objects"]["applications"] = model["Objects"]["applications"][:1]
    model = await lab.deploy(model)
    assert [row for row in servers(lab).values() if row] == [["web"]]


async def test_volumes_stay_in_the_former_region(lab: Any) -> None:
    """What is on them is not lost; the deployment says that the machine has a new one."""
    lab.class_configs = CONFIGS
    lab.add_class(CLASSES)
    volume = {"?": {"id": "v", "type": "io.murano.resources.CinderVolume"}, "size": 1}
    vm = lab.instance("vm", "web", regionName="south", volumes={"/data": volume})
    model = await lab.deploy(lab.environment(lab.application("one", "test.App", instance=vm)))
    (former,) = lab.cloud.compute.volume_list
    web(model)["regionName"] = "west"
    model = await lab.deploy(model)
    assert servers(lab) == {"south": [], "west": ["web"]}
    assert former in lab.cloud.compute.volume_list
    assert web(model)["volumes"]["/data"]["openstackId"] not in ("", former)
    assert "the former stay in the region south" in str(lab.texts())
