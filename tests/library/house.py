"""A house with everything that the core library makes: what stays when something changes, and what goes.

An environment whose applications have objects of every class, each with every property set. What a change
takes is read from the cloud itself, not from what the engine says of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, cast

from vetro.compute.client.calls import NETWORKS, ROUTERS, SECURITY_GROUPS, SUBNETS, VOLUMES
from vetro.compute.wire import NewNetwork, NewRouter, NewSecurityGroup, NewSubnet, NewVolume
from vetro.stacks.memory import EXTERNAL_NETWORK

Model = dict[str, Any]

APPS = """
Name: App
Extends: std:Application
Properties:
  machines: {Contract: [$.class(res:Instance).notNull()], Default: []}
  others: {Contract: [$.class(std:CloudResource).notNull()], Default: []}
Methods:
  deploy:
    Body:
      - $.others.select($.deploy()).toList()
      - $own: $.machines.where(typeinfo($).name = 'io.murano.resources.LinuxUDInstance')
      - $own.select($.setCustomUserData('#!/bin/sh')).toList()
      - $configured: $.machines.where(typeinfo($).name.startsWith('io.murano.resources.HeatSW'))
      - $configured.select(:App.configure($)).toList()
      - $.machines.select($.deploy()).toList()
  configure:
    Usage: Static
    Arguments:
      - machine: {Contract: $.class(res:HeatSWConfigInstance).notNull()}
    Body:
      - $machine.addSoftwareConfig(install, 'apt install', {a => 1}, 'script', signalTransport => HEAT_SIGNAL)
      - $machine.addStructuredConfig(setup, {x => 1}, {y => 2})
"""
RESOURCES = "io.murano.resources."
#: A machine on networks of its own alone.
OWN = {"useEnvironmentNetwork": False, "useFlatNetwork": False}
#: What is there before the environment is: made by hand, by others.
THERE, BESIDE = (f"00000000-0000-4000-8000-0000000000{n}" for n in (10, 11))
KEPT, SPARE = (f"00000000-0000-4000-8000-0000000000{n}" for n in (20, 21))
REGIONS = {
    "io.murano.Environment": {
        "regionConfigs": {
            "south": {"agentRabbitMq": {"host": "south.example", "login": "l", "password": "p"}}
        }
    }
}


def thing(id_: str, type_: str, **properties: Any) -> Model:
    """An object of a class, by its last name for those of `io.murano.resources`."""
    return {"?": {"id": id_, "type": type_ if "." in type_ else RESOURCES + type_}, **properties}


def machine(id_: str, type_: str = "LinuxMuranoInstance", **properties: Any) -> Model:
    """A machine that is called as its object is."""
    return thing(id_, type_, **{"name": id_, "flavor": "m1.small", "image": "debian", **properties})


def volume(id_: str, **properties: Any) -> Model:
    """A volume of two GiB."""
    return thing(id_, "CinderVolume", **{"name": id_, "size": 2, **properties})


#: The machines of these classes have nothing but their user data of their own.
SYSTEMS = (
    "Instance", "LinuxInstance", "LinuxMuranoInstance", "ConfLangInstance", "LinuxUDInstance",
    "WindowsInstance", "HeatSWConfigInstance", "HeatSWConfigLinuxInstance",
)  # fmt: skip


def applications() -> dict[str, Model]:
    """The applications by their ids; each can be in an environment alone."""
    return {
        "site": {
            "machines": [
                machine(
                    "web",
                    keyname="mine",
                    availabilityZone="nova",
                    assignFloatingIp=True,
                    securityGroups=[],
                    sharedIps=["shared", "range"],
                    volumes={"/data": volume("data", availabilityZone="nova")},
                    instanceAffinityGroup=thing(
                        "near", "InstanceAffinityGroup", name="near", affinity=True
                    ),
                )
            ],
            "others": [
                thing("shared", "io.murano.SharedIp", assignFloatingIp=True),
                thing("range", "io.murano.SharedIpRange", cidr="10.99.0.0/24"),
            ],
        },
        "plain": {"machines": [machine("alone")]},
        "systems": {"machines": [machine(one.lower(), one) for one in SYSTEMS]},
        "storage": {
            "machines": [
                machine(
                    "booted",
                    "LinuxInstance",
                    image=None,
                    blockDevices=[
                        {
                            "volume": volume("boot", sourceImage="debian"),
                            "deviceName": "vda",
                            "deviceType": "disk",
                            "bootIndex": 0,
                        }
                    ],
                ),
                machine(
                    "store",
                    "LinuxInstance",
                    volumes={
                        "/copy": volume("copy", sourceVolume=volume("first", readOnly=True)),
                        "/snap": volume(
                            "snap",
                            sourceSnapshot=thing("s", "CinderVolumeSnapshot", openstackId="snap"),
                        ),
                        "/back": volume(
                            "back",
                            sourceVolumeBackup=thing("b", "CinderVolumeBackup", openstackId="back"),
                        ),
                        "/kept": thing("kept", "ExistingCinderVolume", openstackId=KEPT),
                    },
                ),
            ]
        },
        "nets": {
            "machines": [
                machine(
                    "joined",
                    "LinuxInstance",
                    assignFloatingIp=True,
                    networks={
                        **OWN,
                        "customNetworks": ["own", "new", "there", "any"],
                        "primaryNetwork": "own",
                    },
                )
            ],
            "others": [
                thing(
                    "own",
                    "NeutronNetwork",
                    name="own",
                    ipVersion=4,
                    autoUplink=True,
                    autogenerateSubnet=True,
                    port_security_disable=False,
                    dnsNameservers=["192.0.2.53"],
                ),
                thing(
                    "new",
                    "io.murano.lib.networks.neutron.NewNetwork",
                    name="new",
                    dnsNameserver="192.0.2.54",
                    useDefaultDns=True,
                ),
                thing(
                    "there",
                    "ExistingNeutronNetwork",
                    internalNetworkName="there",
                    externalNetworkName="ext-net",
                ),
                thing("any", "ExistingNeutronNetwork"),
            ],
        },
        "old": {
            "machines": [
                machine(
                    "flat",
                    "LinuxInstance",
                    assignFloatingIp=True,
                    networks={**OWN, "customNetworks": ["nova", "under"], "primaryNetwork": "nova"},
                )
            ],
            "others": [
                thing("nova", "NovaNetwork"),
                thing("under", "NeutronNetwork", name="under"),
            ],
        },
    }


def made_of(network: str, what: str) -> str:
    """The uuid of the subnet or the router of a network that others have made."""
    return str(uuid.uuid5(uuid.UUID(network), what))


async def prepare(lab: Any) -> None:
    """What others have made: a key pair, networks, volumes. `lab.may_lose` guards deployments from now on."""
    lab.may_lose, services = None, lab.cloud.services

    def guarded(*given: Any) -> Any:
        lab.services = services(*given)
        lab.services.may_lose = lab.may_lose
        return lab.services

    lab.cloud.services = guarded
    lab.class_configs = REGIONS
    lab.packages = []
    lab.add_class(APPS)
    cloud = lab.cloud
    cloud.snapshots |= {"snap", "snap2"}
    cloud.backups |= {"back", "back2"}
    compute, project = cloud.compute, cloud.project_id
    for name in ("mine", "other"):
        await compute.create_keypair(name, project_id=project, public_key=f"ssh-rsa {name}")
    for number, (network, name) in enumerate(((THERE, "there"), (BESIDE, "beside"))):
        subnet, router = (made_of(network, one) for one in ("subnet", "router"))
        await compute.create(NETWORKS, NewNetwork(uuid=network, project_id=project, name=name))
        new = NewSubnet(
            uuid=subnet, project_id=project, network_uuid=network, name=name,
            cidr=f"10.7.{number}.0/24", gateway=f"10.7.{number}.1",
        )  # fmt: skip
        await compute.create(SUBNETS, new)
        gate = NewRouter(
            uuid=router, project_id=project, name=name, external_network=EXTERNAL_NETWORK
        )
        await compute.create(ROUTERS, gate)
        await compute.add_router_interface(router, subnet)
    group = NewSecurityGroup(uuid=made_of(THERE, "group"), project_id=project, name="byhand")
    await compute.create(SECURITY_GROUPS, group)
    for one in (KEPT, SPARE):
        await compute.create(VOLUMES, NewVolume(uuid=one, project_id=project, name=one, size=1))
    compute.calls.clear()


def environment(lab: Any, *names: str) -> Model:
    """The environment with some of its applications, by default all."""
    every = applications()
    chosen = [lab.application(name, "test.App", **every[name]) for name in names or every]
    return lab.environment(*chosen)


def objects(value: Any) -> Iterator[Model]:
    """All objects in a model."""
    if isinstance(value, dict):
        known = cast("Model", value)
        if "?" in known:
            yield known
        for one in known.values():
            yield from objects(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from objects(one)


def found(model: Model, id_: str) -> Model:
    """The object of this id."""
    return next(one for one in objects(model["Objects"]) if one["?"]["id"] == id_)


class Seen:
    """The cloud as it was, to compare with."""

    def __init__(self, lab: Any) -> None:
        compute = lab.cloud.compute
        self.machines = {key: one.spec.name for key, one in compute.server_list.items()}
        self.volumes = {key: one.name for key, one in compute.volume_list.items()}
        # By uuid: a new one may be given the same address.
        self.floating = {key: one.address for key, one in compute.floating_list.items()}
        used = {subnet for port in compute.port_list.values() for subnet, _ in port.fixed_ips}
        # The ranges of shared addresses have no ports.
        self.ranges = {key: one.cidr for key, one in compute.subnet_list.items() if key not in used}
        self.fixed = {
            address: port.device_uuid
            for port in compute.port_list.values()
            for _, address in port.fixed_ips
        }
        compute.calls.clear()


def losses(lab: Any, before: Seen) -> list[str]:
    """What was there and is not any more: machines, volumes, addresses of machines that stay, or of none."""
    now = Seen(lab)
    gone = [before.machines[key] for key in before.machines.keys() - now.machines.keys()]
    volumes = [before.volumes[key] for key in before.volumes.keys() - now.volumes.keys()]
    addresses = {before.floating[key] for key in before.floating.keys() - now.floating.keys()}
    addresses |= {
        before.ranges[key] for key in before.ranges.keys() - lab.cloud.compute.subnet_list.keys()
    }
    for address in before.fixed.keys() - now.fixed.keys():
        device = before.fixed[address]
        if device is None or device in now.machines:
            addresses.add(address)
    return [
        f"{kind} {name}"
        for kind, names in (("machine", gone), ("volume", volumes), ("address", addresses))
        for name in sorted(names)
    ]
