"""Names that users give: of machines, which are resources of one stack by them, and of networks."""

from __future__ import annotations

import copy
from typing import Any

import pytest

CLASSES = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
  release:
    Scope: Public
    Body:
      - $.instance.releaseResources()
"""


def environment(lab: Any, *machines: Any) -> Any:
    """An application for each machine, `app-ID`."""
    lab.add_class(CLASSES)
    apps = [lab.application(f"app-{one['?']['id']}", "test.App", instance=one) for one in machines]
    return lab.environment(*apps)


def servers(lab: Any) -> list[str]:
    """The names of the servers that there are."""
    return sorted(one.spec.name for one in lab.cloud.compute.server_list.values())


async def test_a_machine_that_is_renamed_leaves_nothing(lab: Any) -> None:
    """A server of the new name takes the place of the former, with its volume and address."""
    volume = {"?": {"id": "v", "type": "io.murano.resources.CinderVolume"}, "size": 1}
    vm = lab.instance(volumes={"/data": volume}, assignFloatingIp=True)
    model = await lab.deploy(environment(lab, vm))
    (made,) = lab.cloud.compute.volume_list
    model["Objects"]["applications"][0]["instance"]["name"] = "shop"
    model = await lab.deploy(model)
    assert servers(lab) == ["shop"]
    template = await lab.template()
    assert not [name for name in (*template["resources"], *template["outputs"]) if "web" in name]
    found = model["Objects"]["applications"][0]["instance"]
    assert found["openstackId"] in lab.cloud.compute.server_list
    assert found["ipAddresses"][-1] == found["floatingIpAddress"]
    assert list(lab.cloud.compute.volume_list) == [made]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []
    model["Objects"]["applications"][0]["instance"]["name"] = "other"
    await lab.call(model, "app-vm", "release")
    assert servers(lab) == []


@pytest.mark.parametrize("first", [0, 1])
async def test_a_new_machine_takes_the_name_of_a_renamed_one(lab: Any, first: int) -> None:
    """Both are there, whichever is deployed first."""
    model = await lab.deploy(environment(lab, lab.instance("one", "web")))
    apps = model["Objects"]["applications"]
    apps[0]["instance"]["name"] = "old"
    apps.insert(first, lab.application("app-two", "test.App", instance=lab.instance("two", "web")))
    model = await lab.deploy(model)
    assert servers(lab) == ["old", "web"]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []
    model["Objects"]["applications"] = [
        one for one in model["Objects"]["applications"] if one["?"]["id"] == "app-one"
    ]
    await lab.deploy(model)
    assert servers(lab) == ["old"]


async def test_a_machine_that_was_released_gives_its_name_back(lab: Any) -> None:
    """The next one is another server; while it has the name, the first one does not get it again."""
    machines = {name: lab.instance(name, "web") for name in ("one", "two")}
    text = "- $.one.deploy()\n- $.one.releaseResources()\n- $.two.deploy()"
    await lab.probe(text, lab.environment(), **machines)
    assert servers(lab) == ["web"]
    made = set(lab.cloud.compute.server_list)
    said = await lab.probe("- $.one.deploy()", fails=True, one=..., two=...)
    assert "The host name web of web (LinuxMuranoInstance one)" in said
    assert "is taken: web (LinuxMuranoInstance two)" in said
    assert set(lab.cloud.compute.server_list) == made


@pytest.mark.parametrize("first", [0, 1])
async def test_no_machine_is_taken_over_by_another_one_of_its_name(lab: Any, first: int) -> None:
    """Whichever is deployed first: the deployment fails, names both, and the machine is what it was."""
    model = await lab.deploy(environment(lab, lab.instance("one", "web")))
    made = dict(lab.cloud.compute.server_list)
    lab.calls()
    both = copy.deepcopy(model)
    two = lab.application(
        "app-two", "test.App", instance=lab.instance("two", "web", flavor="m1.large")
    )
    both["Objects"]["applications"].insert(first, two)
    after = await lab.deploy(both, fails=True)
    said = lab.reply.details
    assert "one) of (App app-one)" in said
    assert "two) of (App app-two)" in said
    assert dict(lab.cloud.compute.server_list) == made
    assert lab.calls() == []
    # It has another name then, or goes: all is well.
    mended = next(one for one in after["Objects"]["applications"] if one["?"]["id"] == "app-two")
    mended["instance"]["name"] = "other"
    await lab.deploy(after)
    assert servers(lab) == ["other", "web"]
    assert set(made) < set(lab.cloud.compute.server_list)


async def test_two_new_machines_of_one_name_are_two_or_none(lab: Any) -> None:
    """In one deployment, side by side: it fails."""
    await lab.deploy(
        environment(lab, lab.instance("one", "web"), lab.instance("two", "web")), fails=True
    )
    assert "The host name web of" in lab.reply.details
    assert len(servers(lab)) <= 1


async def test_a_machine_in_the_place_of_a_removed_one_is_another_one(lab: Any) -> None:
    """The first one goes before, with what it had; nothing of it becomes the second one's."""
    volume = {"?": {"id": "v", "type": "io.murano.resources.CinderVolume"}, "size": 1}
    model = await lab.deploy(
        environment(lab, lab.instance("one", "web", volumes={"/data": volume}))
    )
    (before,) = lab.cloud.compute.server_list
    (kept,) = lab.cloud.compute.volume_list
    model["Objects"]["applications"] = [
        lab.application("app-two", "test.App", instance=lab.instance("two", "web"))
    ]
    model = await lab.deploy(model)
    assert servers(lab) == ["web"]
    assert before not in lab.cloud.compute.server_list
    assert kept not in lab.cloud.compute.volume_list
    lab.calls()
    await lab.deploy(model)
    assert lab.calls() == []


async def test_two_that_were_one_server_are_mended_by_another_name(lab: Any) -> None:
    """Of a version that let them be: the one that keeps the name keeps the machine."""
    model = await lab.deploy(
        environment(lab, lab.instance("one", "web"), lab.instance("two", "db"))
    )
    for row in model["Attributes"]:
        # As if the second one had been deployed over the first.
        if row[0] == "two" and row[2] == "serverName":
            row[3] = "web"
    first, second = (one["instance"] for one in model["Objects"]["applications"])
    made = first["openstackId"]
    second["name"] = "web"
    model = await lab.deploy(model, fails=True)
    assert made in lab.cloud.compute.server_list
    for one in model["Objects"]["applications"]:
        one["instance"]["name"] = {"one": "web", "two": "new"}[one["instance"]["?"]["id"]]
    await lab.deploy(model)
    assert made in lab.cloud.compute.server_list
    assert "new" in servers(lab)


OWN = """
Name: Own
Extends: std:Application
Properties:
  size: {Contract: $.int(), Default: 1}
Methods:
  deploy:
    Body:
      - $stack: $this.find(std:Environment).require().stack
      - $template:
          resources:
            own:
              type: 'OS::Cinder::Volume'
              properties: {size: $.size}
            shared:
              type: 'OS::Neutron::SecurityGroup'
              properties: {description: "format('of size {0}', $.size)"}
      - $stack.updateTemplate($template)
      - $stack.push()
"""


async def test_a_resource_that_a_program_names_is_not_taken_over(lab: Any) -> None:
    """Another application's definition of it fails and names both; the same one may be of two, and its
    own may change; when the first application is gone, the second one's is another resource."""
    lab.add_class(OWN)
    model = await lab.deploy(lab.environment(lab.application("a", "test.Own")))
    (made,) = lab.cloud.compute.volume_list
    for first in (0, 1):
        both = copy.deepcopy(model)
        both["Objects"]["applications"].insert(first, lab.application("b", "test.Own", size=2))
        await lab.deploy(both, fails=True)
        said = lab.reply.details
        for part in ("The resource own of the stack is of (Own a)", "(Own b) would take it over"):
            assert part in said
        assert list(lab.cloud.compute.volume_list) == [made]
        assert lab.cloud.compute.volume_list[made].size == 1
    both["Objects"]["applications"][1]["size"] = 1
    model = await lab.deploy(both)
    model["Objects"]["applications"].pop(0)
    model["Objects"]["applications"][0]["size"] = 2
    await lab.deploy(model)
    (now,) = lab.cloud.compute.volume_list
    assert now != made


async def test_a_program_does_not_take_over_a_machine_of_the_library(lab: Any) -> None:
    """Nor a machine of the library what a program has put there."""
    own = OWN.replace("Cinder::Volume", "Nova::Server").replace("{size: $.size}", "{name: x}")
    lab.add_class(f"{CLASSES.strip()}\n---\n{own.strip()}\n")
    one = lab.application("app-one", "test.App", instance=lab.instance("one", "own"))
    model = await lab.deploy(lab.environment(one))
    (made,) = lab.cloud.compute.server_list
    both = copy.deepcopy(model)
    both["Objects"]["applications"].append(lab.application("b", "test.Own"))
    await lab.deploy(both, fails=True)
    assert "The resource own of the stack is of (App app-one)" in lab.reply.details
    assert list(lab.cloud.compute.server_list) == [made]


async def test_a_network_that_is_renamed_keeps_its_machines(lab: Any) -> None:
    """It is renamed in place; its machines' addresses are found by the new name."""
    model = await lab.deploy(environment(lab, lab.instance()))
    before = model["Objects"]["applications"][0]["instance"]["ipAddresses"]
    lab.calls()
    model["Objects"]["defaultNetworks"]["environment"]["name"] = "other"
    model = await lab.deploy(model)
    assert model["Objects"]["applications"][0]["instance"]["ipAddresses"] == before != []
    assert lab.calls() == ["update_network"]
    assert "env-network-id" not in (await lab.template())["outputs"]
    lab.calls()
    await lab.deploy(model)
    assert lab.calls() == []


@pytest.mark.parametrize("reverse", [False, True])
async def test_two_machines_may_swap_their_names(lab: Any, reverse: bool) -> None:
    """In one change, whichever is deployed first: each has a server, an address and its own volume."""

    def machine(id_: str, name: str) -> Any:
        volume = {"?": {"id": f"v-{id_}", "type": "io.murano.resources.CinderVolume"}, "size": 1}
        return lab.instance(id_, name, volumes={"/data": volume})

    model = await lab.deploy(environment(lab, machine("one", "web"), machine("two", "db")))
    apps = model["Objects"]["applications"]
    if reverse:
        apps.reverse()
    for app, name in zip(apps, ("web", "db") if reverse else ("db", "web"), strict=True):
        app["instance"]["name"] = name
    model = await lab.deploy(model)
    assert servers(lab) == ["db", "web"]
    found = {one["?"]["id"]: one["instance"] for one in model["Objects"]["applications"]}
    assert found["app-one"]["openstackId"] != found["app-two"]["openstackId"]
    for id_, name in (("one", "db"), ("two", "web")):
        its = found[f"app-{id_}"]
        assert lab.cloud.compute.server_list[its["openstackId"]].spec.name == name
        assert its["ipAddresses"]
        volume = its["volumes"]["/data"]["openstackId"]
        assert lab.cloud.compute.volume_list[volume].vm_uuid == its["openstackId"]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []
    model["Objects"]["applications"] = [
        one for one in model["Objects"]["applications"] if one["?"]["id"] == "app-one"
    ]
    await lab.deploy(model)
    assert servers(lab) == ["db"]
