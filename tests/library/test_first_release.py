"""The first release's core library as it is printed: its classes in place of Vetro's (core-library.md
§13)."""

from __future__ import annotations

import base64
import copy
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vetro.engine.system import system_runtime
from vetro.muranopl import MemoryPackage, Runtime

HERE = Path(__file__).parent / "first_release"
CLASSES = {
    "io.murano.Application": "Application",
    "io.murano.Environment": "Environment",
    "io.murano.system.SecurityGroupManager": "SecurityGroupManager",
    "io.murano.resources.Instance": "Instance",
    "io.murano.resources.Network": "Network",
    "io.murano.lib.networks.neutron.NewNetwork": "NewNetwork",
}
FIELDS = ["HOST", "PORT", "USER", "PASSWORD", "VHOST", "SSL", "INPUT_QUEUE"]
CONFIG = "".join(f"{name} = %RABBITMQ_{name}%\n" for name in FIELDS) + "RESULT = %RESULT_QUEUE%\n"
INIT = "%AGENT_CONFIG_BASE64% %INTERNAL_HOSTNAME% %MURANO_SERVER_ADDRESS% [%CA_ROOT_CERT_BASE64%]"
RESOURCES = {
    "Agent-v1.template": f"<!-- {CONFIG} -->",
    "Agent-v2.template": CONFIG,
    "linux-init.sh": f"#!/bin/sh\n# {INIT}\n",
    "windows-init.ps1": f"#ps1\n# {INIT}\n",
}
APP = """
Name: Shop
Extends: std:Application
Properties:
  instance:
    Contract: $.class(res:Instance)
  times:
    Contract: $.int()
    Default: 1
Workflow:
  deploy:
    Body:
      - If: $.instance != null
        Then:
          - Repeat: $.times
            Do:
              - $.instance.deploy()
          - $.reportDeployed('a shop', 1)
---
# What the host of that time called by itself is an action today.
Name: Environment
Extends: std:Environment
Workflow:
  deploy:
    Usage: Action
    Body:
      - $.super($.deploy())
"""


@pytest.fixture
def old(lab: Any) -> Any:
    """The laboratory with the printed classes, and an application of their time."""

    def make() -> Runtime:
        runtime = system_runtime()
        runtime.add_package(
            MemoryPackage(
                "io.murano",
                {f"{name}.yaml": (HERE / f"{name}.yaml").read_text() for name in CLASSES.values()},
                {name: f"{file}.yaml" for name, file in CLASSES.items()},
                resources={name: text.encode() for name, text in RESOURCES.items()},
                format="1.0",
            )
        )
        return runtime

    lab.make = make
    lab.format = "1.0"
    lab.add_class(APP)
    return lab


def network(**properties: Any) -> dict[str, Any]:
    """A network of that time."""
    type_ = "io.murano.lib.networks.neutron.NewNetwork"
    return {"?": {"id": "net", "type": type_}, "name": "net", **properties}


def environment(old: Any, *applications: Any) -> Any:
    """An environment with a network."""
    made = old.environment(*applications, networks=network())
    made["Objects"]["?"]["type"] = "test.Environment"
    return made


def shop(old: Any, image: str = "debian", **instance: Any) -> Any:
    """An environment with one application on one machine."""
    vm = old.instance(type_="io.murano.resources.Instance", image=image, **instance)
    return environment(old, old.application("app", "test.Shop", instance=vm))


def stacks(old: Any) -> list[Any]:
    """What the back end has."""
    return list(old.cloud.stacks.store.stacks.values())


def networks(old: Any) -> list[str]:
    """The names of the project's networks."""
    return [one.name for one in old.cloud.compute.network_list.values() if not one.external]


def machine(model: Any) -> Any:
    """The machine in the model after a run."""
    return model["Objects"]["applications"][0]["instance"]


async def test_an_environment_makes_what_it_works_with(old: Any) -> None:
    """Listener, stack, notifier, reporter and manager by their one-argument constructors."""
    old.add_class(
        """
Name: Look
Extends: std:Application
Workflow:
  deploy:
    Body:
      - $env: $.find(std:Environment).require()
      - Return: [$env.agentListener.queueName(), $env.securityGroupManager.defaultGroupName]
  go:
    Usage: Action
    Body:
      - Return: $.deploy()
"""
    )
    old.packages = old.packages[1:]
    model = old.environment(old.application("look", "test.Look"), networks=network())
    names = await old.call(model, "look", "go")
    assert names == ["-execution-results-shop", "MuranoSecurityGroup-shop"]


async def test_a_rule_is_there_once(old: Any) -> None:
    """One group with ping and the rule, however often it is added; within the group or from outside."""
    old.packages = []
    old.add_class(
        """
Name: Rules
Extends: std:Application
Workflow:
  go:
    Usage: Action
    Body:
      - $env: $.find(std:Environment).require()
      - $rules:
          - FromPort: 80
            ToPort: 81
            IpProtocol: tcp
            External: true
          - FromPort: 90
            ToPort: 90
            IpProtocol: udp
            External: false
      - $env.securityGroupManager.addGroupIngress(rules => $rules)
      - $env.securityGroupManager.addGroupIngress(rules => $rules)
      - Return: $env.stack.current()
"""
    )
    model = old.environment(old.application("app", "test.Rules"), networks=network())
    found = await old.call(model, "app", "go")
    ((name, group),) = found["Resources"].items()
    assert (name, group["Type"]) == ("MuranoSecurityGroup-shop", "OS::Neutron::SecurityGroup")
    ping, outside, inside = group["Properties"]["rules"]
    assert ping["protocol"] == "icmp"
    assert outside == {
        "port_range_min": 80, "port_range_max": 81, "protocol": "tcp",
        "remote_ip_prefix": "0.0.0.0/0",
    }  # fmt: skip
    assert (inside["remote_mode"], "remote_ip_prefix" in inside) == ("remote_group_id", False)


async def test_a_machine_on_a_new_network(old: Any) -> None:
    """Server, port, subnet, network, router interface; addresses are in the model; counted."""
    model = await old.deploy(shop(old, assignFloatingIp=True))
    (stack,) = stacks(old)
    assert stack.name == "shop"
    assert set(stack.template["Resources"]) == {
        "MuranoSecurityGroup-shop", "net-net-net", "net-subnet-net", "net-ri-net",
        "web-port-to-net", "web-FloatingIP-net", "web-FloatingIpAssoc-net", "web",
    }  # fmt: skip
    compute = old.cloud.compute
    assert (len(compute.server_list), networks(old)) == (1, ["net"])
    vm = machine(model)
    (floating,) = compute.floating_list.values()
    assert vm["floatingIpAddress"] == floating.address
    assert len(vm["ipAddresses"]) == 1
    assert set(old.cloud.reports.tracked) == {"vm", "app"}


async def test_a_machine_without_a_floating_address(old: Any) -> None:
    """The output that is not there is null."""
    vm = machine(await old.deploy(shop(old)))
    assert vm["floatingIpAddress"] is None
    assert len(vm["ipAddresses"]) == 1


async def test_a_second_deployment_touches_nothing(old: Any) -> None:
    """No second network, no second floating address, no update of the back end.

    In one session: names that the printed network keeps for itself do not outlive it.
    """
    twice = shop(old, assignFloatingIp=True)
    twice["Objects"]["applications"][0]["times"] = 2
    model = await old.deploy(twice)
    calls = old.calls()
    assert {"create_network", "create_server", "create_floating_ip"} <= set(calls)
    assert len(calls) == len(set(calls))
    assert old.kinds().count("stack.push") == 2  # the network, then the machine: once each
    assert machine(model)["floatingIpAddress"] is not None


async def test_a_machine_that_is_taken_out(old: Any) -> None:
    """Its server goes with the next deployment, what others stand on stays."""
    model = await old.deploy(shop(old))
    changed = copy.deepcopy(model)
    changed["Objects"]["applications"][0]["instance"] = None
    await old.deploy(changed)
    assert old.cloud.compute.server_list == {}
    (stack,) = stacks(old)
    assert "web" not in stack.template["Resources"]
    assert "net-net-net" in stack.template["Resources"]
    assert networks(old) == ["net"]
    assert "vm" in old.cloud.reports.untracked


async def test_without_applications_there_is_no_stack(old: Any) -> None:
    """Deploying an empty environment removes everything."""
    model = await old.deploy(shop(old))
    model["Objects"]["applications"] = []
    await old.deploy(model)
    assert stacks(old) == []
    assert networks(old) == []


@pytest.mark.parametrize(
    ("image", "port", "begins"), [("debian", 22, "#!/bin/sh"), ("win2012", 3389, "#ps1")]
)
async def test_user_data_is_complete(old: Any, image: str, port: int, begins: str) -> None:
    """No placeholder is left, flags are words, and the image's name decides the system."""
    debian = old.cloud.compute.images["debian"]
    old.cloud.compute.images["win2012"] = msgspec.structs.replace(debian, name="win2012")
    await old.deploy(shop(old, image=image))
    (server,) = old.cloud.compute.server_list.values()
    data = server.spec.customer_metadata["user-data"]
    assert begins in data
    script = data[data.index(begins) :]
    config = base64.b64decode(re.findall(r"# ([A-Za-z0-9+/=]+) web ", script)[0]).decode()
    assert "%" not in script + config
    assert "SSL = false" in config
    assert "INPUT_QUEUE = eenv-hvm" in config
    assert "RESULT = -execution-results-shop" in config
    rules = stacks(old)[0].template["Resources"]["MuranoSecurityGroup-shop"]["Properties"]["rules"]
    assert [rule["port_range_min"] for rule in rules[1:]] == [port]
