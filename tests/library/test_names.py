"""Names that users give: of machines, which are resources of one stack by them, and of networks."""

from __future__ import annotations

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


async def test_two_machines_of_one_name_are_logged(
    lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """They are one server: the log names them. A machine that was released gives its name back."""
    machines = {name: lab.instance(name, "web") for name in ("one", "two")}
    text = "- $.one.deploy()\n- $.one.releaseResources()\n- $.two.deploy()"
    await lab.probe(text, lab.environment(), **machines)
    assert "Two instances" not in caplog.text
    await lab.probe("- $.one.deploy()\n- $.two.deploy()", one=..., two=...)
    assert "Two instances are called web, one and two, and are one server" in caplog.text
    assert servers(lab) == ["web"]


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
