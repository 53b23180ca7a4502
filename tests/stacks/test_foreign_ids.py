"""What a template names by id is looked up in its own project: another project's id is as good as none.

The engine may do everything at the compute service, so every property that takes an id is a way to other
projects' things. The table has each of them; a type with a new one has to be added.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.stacks.conftest import PROJECT
from tests.stacks.test_on_compute_service import (
    NODE,
    World,
    ask,
    world,  # noqa: F401 a fixture
)

from vetro.compute.client import ComputeClient
from vetro.stacks import Doors, NativeStacks, StackStatus
from vetro.stacks.memory.guests import ADDRESS, DOOR, MemoryGuests, MemorySignal, MemorySignals
from vetro.stacks.resources.registry import TYPES

OTHERS = "0b5c0a00193a4e0c8d4a9a555f0f3a7e"
NET = {"net": {"type": "OS::Neutron::Net"}}
SUBNET = {"sub": {"type": "OS::Neutron::Subnet", "properties": {
    "network": {"get_resource": "net"}, "cidr": "10.9.1.0/24"}}}  # fmt: skip
PORT = {"port": {"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "net"}},
                 "depends_on": ["sub"]}}  # fmt: skip
ROUTER = {"router": {"type": "OS::Neutron::Router"}}
FLOATING = {"floating": {"type": "OS::Neutron::FloatingIP", "properties": {
    "floating_network": "ext-net"}}}  # fmt: skip
VM = {"vm": {"type": "OS::Nova::Server", "properties": {
    "flavor": "m1.small", "image": "debian", "networks": [{"network": {"get_resource": "net"}}]},
    "depends_on": ["sub"]}}  # fmt: skip
HANDLE = {"handle": {"type": "OS::Heat::WaitConditionHandle"}}
GROUP = {"group": {"type": "OS::Nova::ServerGroup", "properties": {"policies": ["affinity"]}}}
SECURITY = {"rules": {"type": "OS::Neutron::SecurityGroup"}}
CONFIG = {"config": {"type": "OS::Heat::SoftwareConfig", "properties": {"config": "echo secret"}}}
OURS = {**NET, **SUBNET}
WIRED = {**NET, "sub": {"type": "OS::Neutron::Subnet", "properties": {
    "network": {"get_resource": "net"}, "cidr": "10.8.1.0/24"}}}  # fmt: skip
MINE = {"get_resource": "sub"}
RUNS = {"flavor": "m1.small", "image": "debian"}
VOLUME = {"vol": {"type": "OS::Cinder::Volume", "properties": {"size": 1}}}

Row = tuple[str, str, dict[str, Any], dict[str, Any]]
ID = "<the id>"
PLACED = ("OS::Nova::Server", "AWS::EC2::Instance", "OS::Neutron::Port")
#: The type, what of the other project its property names, its properties, what else is in the stack.
NAMED: list[Row] = [
    ("OS::Neutron::Subnet", "net", {"network": ID, "cidr": "10.9.7.0/24"}, {}),
    ("OS::Neutron::Subnet", "net", {"network_id": ID, "cidr": "10.9.7.0/24"}, {}),
    ("OS::Neutron::Router", "net", {"external_gateway_info": {"network": ID}}, {}),
    ("OS::Neutron::RouterInterface", "router", {"router": ID, "subnet": MINE}, WIRED),
    ("OS::Neutron::RouterInterface", "router", {"router_id": ID, "subnet_id": MINE}, WIRED),
    ("OS::Neutron::RouterInterface", "sub", {"router": {"get_resource": "router"}, "subnet": ID},
     ROUTER),
    ("OS::Neutron::RouterInterface", "sub",
     {"router_id": {"get_resource": "router"}, "subnet_id": ID}, ROUTER),
    ("OS::Neutron::Port", "net", {"network": ID}, {}),
    ("OS::Neutron::Port", "net", {"network_id": ID}, {}),
    ("OS::Neutron::Port", "sub", {"network": {"get_resource": "net"},
                                  "fixed_ips": [{"subnet": ID}]}, WIRED),
    ("OS::Neutron::Port", "rules", {"network": {"get_resource": "net"}, "security_groups": [ID]},
     WIRED),
    ("OS::Neutron::FloatingIP", "net", {"floating_network": ID}, {}),
    ("OS::Neutron::FloatingIP", "net", {"floating_network_id": ID}, {}),
    ("OS::Neutron::FloatingIP", "port", {"floating_network": "ext-net", "port_id": ID}, {}),
    ("OS::Neutron::FloatingIPAssociation", "floating", {"floatingip_id": ID}, {}),
    ("OS::Neutron::FloatingIPAssociation", "port",
     {"floatingip_id": {"get_resource": "floating"}, "port_id": ID}, FLOATING),
    ("OS::Nova::FloatingIP", "net", {"pool": ID}, {}),
    ("OS::Nova::FloatingIPAssociation", "floating",
     {"floating_ip": ID, "server_id": {"get_resource": "vm"}}, {**WIRED, **VM}),
    ("OS::Nova::FloatingIPAssociation", "vm",
     {"floating_ip": {"get_resource": "floating"}, "server_id": ID}, FLOATING),
    ("OS::Neutron::SecurityGroup", "rules",
     {"rules": [{"remote_mode": "remote_group_id", "remote_group_id": ID}]}, {}),
    ("OS::Nova::Server", "image", {**RUNS, "image": ID, "networks": [{"subnet": MINE}]}, WIRED),
    ("OS::Nova::Server", "net", {**RUNS, "networks": [{"network": ID}]}, {}),
    ("OS::Nova::Server", "sub", {**RUNS, "networks": [{"subnet": ID}]}, WIRED),
    ("OS::Nova::Server", "port", {**RUNS, "networks": [{"port": ID}]}, {}),
    ("OS::Nova::Server", "rules",
     {**RUNS, "networks": [{"subnet": MINE}], "security_groups": [ID]}, WIRED),
    ("OS::Nova::Server", "key", {**RUNS, "networks": [{"subnet": MINE}], "key_name": ID}, WIRED),
    ("OS::Nova::Server", "group",
     {**RUNS, "networks": [{"subnet": MINE}], "scheduler_hints": {"group": ID}}, WIRED),
    ("OS::Nova::Server", "vol",
     {"flavor": "m1.small", "networks": [{"subnet": MINE}],
      "block_device_mapping_v2": [{"volume_id": ID, "boot_index": 0}]}, WIRED),
    ("AWS::EC2::Instance", "image", {"ImageId": ID, "InstanceType": "m1.small"}, WIRED),
    ("AWS::EC2::Instance", "port",
     {"ImageId": "debian", "InstanceType": "m1.small", "NetworkInterfaces": [ID]}, {}),
    ("AWS::EC2::Instance", "sub",
     {"ImageId": "debian", "InstanceType": "m1.small", "SubnetId": ID}, {}),
    ("AWS::EC2::Instance", "rules",
     {"ImageId": "debian", "InstanceType": "m1.small", "SubnetId": MINE,
      "SecurityGroupIds": [ID]}, WIRED),
    ("AWS::EC2::Instance", "rules",
     {"ImageId": "debian", "InstanceType": "m1.small", "SubnetId": MINE,
      "SecurityGroups": [ID]}, WIRED),
    ("AWS::EC2::Instance", "key",
     {"ImageId": "debian", "InstanceType": "m1.small", "SubnetId": MINE, "KeyName": ID}, WIRED),
    ("OS::Cinder::Volume", "image", {"size": 1, "image": ID}, {}),
    ("OS::Cinder::Volume", "snapshot", {"size": 1, "snapshot_id": ID}, {}),
    ("OS::Cinder::Volume", "backup", {"size": 1, "backup_id": ID}, {}),
    ("OS::Cinder::Volume", "vol", {"size": 1, "source_volid": ID}, {}),
    ("OS::Cinder::VolumeAttachment", "vol",
     {"volume_id": ID, "instance_uuid": {"get_resource": "vm"}}, {**WIRED, **VM}),
    ("OS::Cinder::VolumeAttachment", "vm",
     {"volume_id": {"get_resource": "vol"}, "instance_uuid": ID}, VOLUME),
    ("OS::Heat::WaitCondition", "handle", {"handle": ID, "timeout": 1}, {}),
    ("OS::Heat::WaitCondition", "handle", {"handle": f"{ADDRESS}/{ID}?signature=x", "timeout": 1},
     {}),
    ("AWS::CloudFormation::WaitCondition", "handle", {"Handle": ID, "Timeout": 1}, {}),
    ("OS::Heat::SoftwareDeployment", "vm", {"config": "echo", "server": ID}, {}),
    ("OS::Heat::StructuredDeployment", "vm", {"config": {"a": 1}, "server": ID}, {}),
]  # fmt: skip
#: Names of properties that take ids of resources of the same template only, or no ids at all.
WITHIN = {
    "OS::Neutron::Pool", "OS::Neutron::PoolMember", "OS::Neutron::LoadBalancer",
    "OS::Neutron::HealthMonitor", "Vetro::LoadBalancer::Balancing",
}  # fmt: skip
#: A configuration's id that is nobody's is a text: the next test.
TEXTS = {"config", "user_data", "UserData"}
_ID = re.compile(
    r".*(_id|_uuid|Id|volid|Ids)$|(.*_)?(network|subnet|port|router|image|handle|server|pool|networks)"
    r"|.*([sS]ecurity_?[gG]roups?|floating_ip|key_name|KeyName|Handle|NetworkInterfaces)$"
)


def filled(value: Any, known: str) -> Any:
    """Properties with an id in its place."""
    if isinstance(value, str):
        return value.replace(ID, known)
    if isinstance(value, dict):
        return {key: filled(one, known) for key, one in value.items()}
    return [filled(one, known) for one in value] if isinstance(value, list) else value


@dataclasses.dataclass
class TwoProjects:
    """Stacks of two projects on one service, as two deployments have them."""

    world: World
    ours: NativeStacks
    theirs: NativeStacks
    signals: MemorySignals
    guests: MemoryGuests
    ids: dict[str, str]
    """What we have."""


@pytest.fixture
async def two(world: World) -> AsyncIterator[TwoProjects]:  # noqa: F811 the fixture
    """We have one of everything; the others have nothing yet."""
    info = {"UUID": NODE, "Hostname": "node-1", "Setup": "true", "Admin IP": "127.0.0.1",
            "Live Image": "20260101T000000Z", "VM Brands": ["lx"],
            "Vetro Node": {"driver": "lxc", "features": ["volumes"]}}  # fmt: skip
    async with world.database.read() as tx:
        former = await world.service.servers.row(tx, NODE)
    await ask(world.client, "POST", f"/servers/{NODE}/sysinfo",
              {"sysinfo": {**former.sysinfo, **info}})  # fmt: skip
    signals, guests = MemorySignals(obedient=False), MemoryGuests()
    doors = Doors(signals=signals, guests=guests, url=DOOR)
    async with (
        ComputeClient(world.url, "service", project_id=PROJECT) as mine,
        ComputeClient(world.url, "service", project_id=OTHERS) as their,
    ):
        ours = NativeStacks(world.database, mine, doors=doors)
        theirs = NativeStacks(world.database, their, doors=doors)
        key = {"key": {"type": "OS::Nova::KeyPair", "properties": {
            "name": "our-key", "public_key": "ssh-ed25519 AAAA ours"}}}  # fmt: skip
        vm = {"vm": {**VM["vm"], "properties": {
            **VM["vm"]["properties"], "user_data_format": "SOFTWARE_CONFIG"}}}  # fmt: skip
        whole = {**OURS, **PORT, **ROUTER, **FLOATING, **vm, **HANDLE, **GROUP, **SECURITY,
                 **CONFIG, **VOLUME, **key}  # fmt: skip
        made = await ours.create(PROJECT, "ours", {"resources": whole})
        assert made.status is StackStatus.CREATE_COMPLETE, made.reason
        ids = {name: one.physical_id for name, one in made.resources.items()}
        image = await ask(world.client, "POST", "/images",
                          {"name": "private", "type": "lxc-rootfs", "public": False})  # fmt: skip
        await world.service.images.add_file(image["uuid"], await _file(world), None)
        ids["image"] = image["uuid"]
        for kind in ("snapshot", "backup"):
            ids[kind] = await _copy(world, kind, ids["vol"])
        signals.send(f"{ADDRESS}/{ids['handle']}", MemorySignal("1", data="our secret"))
        yield TwoProjects(world, ours, theirs, signals, guests, ids)


async def _file(cloud: World) -> Any:
    path = cloud.service.images.blobs.directory / "a-file"
    path.write_bytes(b"rootfs")
    return path


async def _copy(cloud: World, kind: str, volume: str) -> str:
    """A copy of our volume that can be used."""
    from sqlalchemy import insert

    from vetro.compute.tables import volume_copies

    made = str(uuid.uuid4())
    async with cloud.database.transaction() as tx:
        await tx.execute(insert(volume_copies).values(
            uuid=made, kind=kind, owner_uuid=PROJECT, volume_uuid=volume, name=kind, size_gib=1,
            format="ext4", state="available", reason="", server_uuid=None, bytes=1,
            created=cloud.database.clock.now()))  # fmt: skip
    return made


def test_every_property_that_takes_an_id_has_a_row() -> None:
    """A new one would be noticed here."""
    rows: dict[str, str] = {}
    for type_, _, properties, _ in NAMED:
        given = {key: value for key, value in properties.items() if ID in repr(value)}
        rows[type_] = rows.get(type_, "") + " ".join(given)
    for name, kind in TYPES.items():
        if name in WITHIN:
            continue
        for key, known in kind.properties.items():
            takes_nothing = known.refused or known.ignored or key in TEXTS
            if _ID.fullmatch(key) and not takes_nothing:
                assert key in rows.get(name, ""), (name, key)


@pytest.mark.thorough
async def test_another_projects_id_is_an_unknown_one(two: TwoProjects) -> None:
    """The stack fails with the words for an id that nobody has; nothing of ours is shown or changed."""
    before = await _ours(two)
    problems: list[str] = []
    for number, (type_, named, properties, others) in enumerate(NAMED):
        said: list[str] = []
        for known in (two.ids[named], str(uuid.uuid4()) if named != "key" else "no-key"):
            it = {"type": type_, "properties": filled(properties, known)}
            if "sub" in others and type_ in PLACED:
                it["depends_on"] = ["sub"]
            template = {"resources": {**others, "it": it},
                        "outputs": {"all": {"value": {"get_attr": ["it", "show"]}}}}  # fmt: skip
            stack = await two.theirs.create(OTHERS, f"s{number}", template)
            text = f"{stack.status.value} {stack.reason} {stack.outputs}"
            said.append(re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID",
                               text.replace(known, "UUID")))  # fmt: skip
            if not text.startswith("CREATE_FAILED Resource 'it' failed"):
                problems.append(f"{type_} {properties}: {text}")
            assert await two.theirs.delete(OTHERS, f"s{number}") is None
        if said[0] != said[1]:
            problems.append(f"{type_} {properties}: {said[0]} but of no one's: {said[1]}")
        if (after := await _ours(two)) != before:
            problems.append(f"{type_} {properties} changed ours")
            before = after
    assert not problems, "\n".join(problems)
    assert two.guests.ran == {}


async def test_another_projects_configuration_is_a_text(two: TwoProjects) -> None:
    """Where a template may give a text or an id, the id stands for itself."""
    config = two.ids["config"]
    it = {"it": {"type": "OS::Nova::Server", "properties": {
        **RUNS, "networks": [{"subnet": MINE}], "user_data": config}}}  # fmt: skip
    stack = await two.theirs.create(OTHERS, "s", {"resources": {**WIRED, **it}})
    assert stack.status is StackStatus.CREATE_COMPLETE, stack.reason
    made = two.world.node.vms[stack.resources["it"].physical_id]
    assert made["customer_metadata"]["user-data"] == config


@pytest.mark.parametrize("type_", ["OS::Heat::WaitCondition", "AWS::CloudFormation::WaitCondition"])
async def test_a_handle_is_of_its_stack(two: TwoProjects, type_: str) -> None:
    """Another stack of the same project has no share in what a handle was told; its failures stay its."""
    two.signals.send(f"{ADDRESS}/{two.ids['handle']}", MemorySignal("2", "FAILURE", "our reason"))
    capital = str.capitalize if type_.startswith("AWS") else str
    given = {capital("handle"): two.ids["handle"], capital("timeout"): 1}
    template = {"resources": {"it": {"type": type_, "properties": given}},
                "outputs": {"stolen": {"value": {"get_attr": ["it", capital("data")]}}}}  # fmt: skip
    template["heat_template_version"] = "2013-05-23"  # type: ignore[assignment]
    for stacks, project in ((two.ours, PROJECT), (two.theirs, OTHERS)):
        stack = await stacks.create(project, "s", template)
        assert stack.status is StackStatus.CREATE_FAILED
        assert "is not a valid wait condition handle" in stack.reason
        assert "our secret" not in f"{stack.outputs}"
        assert "our reason" not in stack.reason
    assert {one.id for one in await two.signals.received(two.ids["handle"])} == {"1", "2"}


async def test_a_deployment_reaches_servers_of_its_project(two: TwoProjects) -> None:
    """A server of another stack of the project is reached, as at Heat."""
    it = {"type": "OS::Heat::SoftwareDeployment",
          "properties": {"config": "echo", "server": two.ids["vm"]}}  # fmt: skip
    stack = await two.ours.create(PROJECT, "s", {"resources": {"it": it}})
    assert stack.status is StackStatus.CREATE_COMPLETE, stack.reason
    assert len(two.guests.ran) == 1


async def _ours(two: TwoProjects) -> Any:
    """What there is of our project."""
    found = {
        kind: await ask(two.world.client, "GET", f"/{kind}?project_id={PROJECT}")
        for kind in ("networks", "subnets", "routers", "ports", "floating-ips", "security-groups",
                     "keypairs", "volumes", "volume-snapshots", "volume-backups")
    }  # fmt: skip
    vm = two.world.node.vms[two.ids["vm"]]
    return {**found, "vm": dict(vm), "signals": list(two.signals.handles[two.ids["handle"]])}
