"""Deployments whose final model was not kept: the engine ended between the push and the save.

The next one begins with the model from before. What it chooses itself must be what is there, or machines are
made anew and lose their data.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from vetro.compute.client import NETWORKS, SUBNETS
from vetro.compute.wire import Network, NewNetwork, NewSubnet, Subnet

N1, S1, N2, S2, N3 = (f"00000000-0000-4000-8000-00000000020{number}" for number in range(5))
CLASSES = """
Name: Machines
Extends: std:Application
Properties:
  instances: {Contract: [$.class(res:Instance).notNull()]}
Methods:
  deploy:
    Body:
      - $.instances.pselect($.deploy())
"""


def network(kind: str = "NeutronNetwork", **properties: Any) -> dict[str, Any]:
    """A network of a machine's own."""
    type_ = (
        "io.murano.lib.networks.neutron.NewNetwork"
        if kind == "NewNetwork"
        else f"io.murano.resources.{kind}"
    )
    return {"?": {"id": f"own-{kind.lower()}", "type": type_}, "name": f"own-{kind}", **properties}


def alone(own: dict[str, Any]) -> dict[str, Any]:
    """The networks of a machine with one of its own beside the environment's."""
    return {
        "useEnvironmentNetwork": True,
        "useFlatNetwork": False,
        "customNetworks": [own],
        "primaryNetwork": None,
    }


RES = "io.murano.resources."
MACHINES: dict[str, dict[str, Any]] = {
    "plain": {},
    "of the first class": {"type_": RES + "Instance"},
    "Linux without agent": {"type_": RES + "LinuxInstance"},
    "Linux of UDP": {"type_": RES + "LinuxUDInstance"},
    "Windows": {"type_": RES + "WindowsInstance"},
    "with an address": {"assignFloatingIp": True},
    "on its own network": {"networks": alone(network())},
    "on a network of the first release": {"networks": alone(network("NewNetwork"))},
    "on the project's network": {
        "networks": alone({"?": {"id": "there", "type": RES + "ExistingNeutronNetwork"}})
    },
    "with a volume": {
        "volumes": {
            "/data": {"?": {"id": "vol", "type": RES + "CinderVolume"}, "size": 1, "name": "data"}
        }
    },
    "with a shared address": {
        "sharedIps": [
            {"?": {"id": "shared", "type": "io.murano.SharedIp"}, "assignFloatingIp": True}
        ]
    },
    "in a group": {
        "instanceAffinityGroup": {
            "?": {"id": "group", "type": RES + "InstanceAffinityGroup"},
            "name": "near",
        }
    },
}


@pytest.mark.parametrize("kind", MACHINES)
async def test_a_deployment_from_the_model_before_makes_nothing_anew(lab: Any, kind: str) -> None:
    """Ranges, routers, name servers, names and ports are those of the stack."""
    lab.add_class(CLASSES)
    lab.cloud.options["network.default_dns"] = ["192.0.2.53", "2001:db8::53"]
    given = lab.environment(
        lab.application(
            "app", "test.Machines", instances=[lab.instance("vm", "web", **MACHINES[kind])]
        )
    )
    lost = await lab.deploy(copy.deepcopy(given))
    lab.calls()
    again = await lab.deploy(given)
    assert lab.calls() == []
    assert stored(again) == stored(lost)


#: Of objects the ids of those made at run time; of the first release's network a second name for the first of
#: its name servers.
OTHER = ("?", "dnsNameserver")


def stored(model: Any) -> Any:
    """The properties of networks and machines in a model."""
    objects = model["Objects"]
    text = json.dumps([objects["defaultNetworks"], objects["applications"]])
    return json.loads(text, object_hook=lambda one: {k: one[k] for k in one if k not in OTHER})


async def test_a_network_keeps_what_it_chose_when_defaults_change(lab: Any) -> None:
    """The range, the router and the name servers are found again, whatever would be chosen today."""
    lab.add_class(CLASSES)
    lab.cloud.options["network.default_dns"] = ["192.0.2.53"]
    given = lab.environment(lab.application("app", "test.Machines", instances=[lab.instance()]))
    lost = await lab.deploy(copy.deepcopy(given))
    lab.cloud.options["network.default_dns"] = ["192.0.2.54"]
    lab.cloud.options["network.router_name"] = "another"
    lab.cloud.options["network.env_ip_template"] = "10.200.0.0"
    lab.calls()
    again = await lab.deploy(given)
    assert lab.calls() == []
    assert stored(again) == stored(lost)


async def test_networks_of_further_regions_are_found_again(lab: Any) -> None:
    """A region's copy of the default network is the same one for a deployment from the model before."""
    given = lab.environment(
        lab.application(
            "app", "test.Machines", instances=[lab.instance("vm", "web", regionName="south")]
        ),
    )
    south = {"south": {"agentRabbitMq": {"host": "mq"}}}
    lab.class_configs = {"io.murano.Environment": {"regionConfigs": south}}
    lab.add_class(CLASSES)
    await lab.deploy(copy.deepcopy(given))
    lab.calls()
    await lab.deploy(given)
    assert lab.calls() == []


@pytest.mark.parametrize("is_lost", [False, True])
async def test_machines_stay_on_the_network_that_was_the_first(lab: Any, is_lost: bool) -> None:
    """A network that nobody named is chosen once, whatever networks the project gets later."""
    lab.add_class(CLASSES)
    networks = alone({"?": {"id": "there", "type": RES + "ExistingNeutronNetwork"}})
    networks["useEnvironmentNetwork"] = False
    machine = lab.instance("vm", "web", networks=networks, assignFloatingIp=True)
    given = lab.environment(lab.application("app", "test.Machines", instances=[machine]))
    compute = lab.cloud.compute
    mine = await compute.create(NETWORKS, NewNetwork(uuid=N1, project_id="project", name="mine"))
    await compute.create(
        SUBNETS,
        NewSubnet(uuid=S1, network_uuid=N1, project_id="project", name="s", cidr="10.9.0.0/24"),
    )
    model = await lab.deploy(copy.deepcopy(given))
    for kind, one in (
        (compute.network_list, Network(uuid=N2, name="newer", project_id="project")),
        (
            compute.subnet_list,
            Subnet(
                uuid=S2,
                network_uuid=N1,
                name="t",
                project_id="project",
                cidr="10.8.0.0/24",
                gateway=None,
            ),
        ),
        (compute.network_list, Network(uuid=N3, name="outer", project_id="", external=True)),
    ):
        others = dict(kind)
        kind.clear()
        kind.update({one.uuid: one, **others})
    lab.calls()
    await lab.deploy(given if is_lost else model)
    assert lab.calls() == []
    assert mine.uuid in {one.network_uuid for one in compute.port_list.values()}
