"""A deployed environment gets other default networks, as users change its model."""

from __future__ import annotations

from typing import Any

from vetro.environments.model import from_engine, to_engine

CLASSES = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance)}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
"""


async def changed(lab: Any, vm: Any, environment: Any, flat: Any = None, **networks: Any) -> Any:
    """Deploy a machine, then with other default networks and other ones of the machine's; the resources."""
    lab.add_class(CLASSES)
    model = await lab.deploy(lab.environment(lab.application("a", "test.App", instance=vm)))
    objects = from_engine(model["Objects"])
    objects["defaultNetworks"] = {"environment": environment, "flat": flat}
    objects["services"][0]["instance"]["networks"].update(networks)
    model = await lab.deploy({**model, "Objects": to_engine(objects)})
    assert len(lab.cloud.compute.server_list) == 1
    resources = (await lab.template())["resources"]
    lab.calls()
    await lab.deploy(model)
    assert lab.calls() == []
    return resources


async def test_another_network_takes_the_place_of_the_default_one(lab: Any) -> None:
    """The machines move, and nothing of the former network is left."""
    resources = await changed(lab, lab.instance(), lab.network("other", name="other"))
    assert {"network-other", "subnet-other", "port-other-web"} <= resources.keys()
    assert not [name for name in resources if "-net" in name]
    assert {one.name for one in lab.cloud.compute.network_list.values()} == {
        "ext-net",
        "other-other",
    }


async def test_a_flat_network_takes_the_place_of_the_environments_own(lab: Any) -> None:
    """It was not there when the region was made."""
    flat = lab.network("flat", name="flat")
    resources = await changed(lab, lab.instance(), None, flat, useFlatNetwork=True)
    assert "port-flat-web" in resources
    assert "network-net" not in resources


async def test_a_default_network_that_nobody_uses_can_be_removed(lab: Any) -> None:
    """Machines on networks of their own stay as they are."""
    networks = {
        "useEnvironmentNetwork": False,
        "useFlatNetwork": False,
        "customNetworks": [lab.network("own", name="own")],
    }
    resources = await changed(lab, lab.instance(networks=networks), None)
    assert "port-own-web" in resources
    assert not [name for name in resources if "-net" in name]
