"""A stack removes what it made: what was there before it survives it, and what was refused is not touched.

Two tables over every resource type. The first: an object of the same name, or the relation that the resource
is, was there before, made by hand or by another stack. The second: values that only creation can refuse.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from tests.stacks.conformance.cases import Json, at, made, ref

from vetro.compute.client.calls import (
    FLOATING_IPS,
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    VOLUMES,
    AnyKind,
)
from vetro.compute.wire import (
    FloatingIpChange,
    NewFloatingIp,
    NewNetwork,
    NewPort,
    NewRouter,
    NewSecurityGroup,
    NewSubnet,
    NewVolume,
)
from vetro.stacks import MemoryStacks, StackStatus
from vetro.stacks.compute_service.adapter import port_of
from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.resources import TYPES
from vetro.stacks.resources.base import Relation, StackOnly
from vetro.stacks.template.balancers import BALANCING

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLOUDS = [
    "memory",
    # In `make test` some; tests/compute/networks/test_made_by.py has each relation on the service.
    pytest.param("simulated", marks=[pytest.mark.programs, pytest.mark.sampled(every=12)]),
]
KINDS: tuple[AnyKind, ...] = (
    NETWORKS, SUBNETS, ROUTERS, SECURITY_GROUPS, PORTS, FLOATING_IPS, VOLUMES,
)  # fmt: skip
KEY, OTHER_KEY = "ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"
ABSENT = "0e3d9a52-5a1b-4d8a-9a55-93a0b5c0a404"
LONG = "n" * 256


@dataclass
class Base:
    """What the cases are made beside: a project with a stack, and the ids of its resources."""

    cloud: Any
    project: str
    ids: dict[str, str]
    compute: ComputePort

    def template(self, resources: Mapping[str, Json]) -> dict[str, Any]:
        """A template in which `<name>` stands for the id of the base's resource."""
        given = at(dict(resources), self.cloud.subnet)
        return {"heat_template_version": "2013-05-23", "resources": self.filled(given)}

    def filled(self, value: Json) -> Json:
        """A value with the ids of the base."""
        if isinstance(value, str):
            return self.ids.get(value[1:-1], value) if value.startswith("<") else value
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in dict[str, Json](_any(value)).items()}
        if isinstance(value, list):
            return [self.filled(one) for one in list[Json](_any(value))]
        return value

    async def things(self) -> dict[tuple[str, str], Json]:
        """Everything that the project has, as it is now."""
        found: dict[tuple[str, str], Json] = {}
        for kind in KINDS:
            for one in await self.compute.all(kind, self.project):
                shown = msgspec.to_builtins(one)
                if kind is NETWORKS:
                    del shown["subnets"]  # each of them is in the list itself
                found[kind.path, one.uuid] = shown
        for port in [one for (path, _), one in found.items() if path == PORTS.path]:
            if server := port["device_uuid"]:
                known = await self.compute.server(server)
                found["server", server] = known and known.state
        key = await self.compute.public_key("same", project_id=self.project)
        return found if key is None else {**found, ("key pair", "same"): key}


def _any(value: Any) -> Any:
    return value


BASE: dict[str, Json] = {
    "net": made("OS::Neutron::Net", name="base"),
    "sub": made("OS::Neutron::Subnet", network=ref("net"), cidr="SUBNET.40.0/24"),
    "router": made("OS::Neutron::Router", name="base"),
    "group": made("OS::Neutron::SecurityGroup", name="base"),
    "port": made("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}]),
    "free": made("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}]),
    "fip": made("OS::Neutron::FloatingIP", floating_network="ext-net"),
    "vol": made("OS::Cinder::Volume", size=1, name="base"),
    "vm": made(
        "OS::Nova::Server", name="base", flavor="m1.nano", image="debian",
        networks=[{"port": ref("port")}],
    ),
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(cloud: Any) -> AsyncIterator[Base]:
    """One for the cases of a cloud: each of them leaves everything as it was."""
    project = cloud.new_project()
    compute = cloud.stacks.compute if cloud.kind == "memory" else port_of(cloud.client)
    if cloud.kind == "memory":
        cloud.stacks.signals.obedient = True
    given = Base(cloud, project, {}, compute)
    stack = await cloud.stacks.create(project, "base", given.template(BASE))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    given.ids = {name: str(one.physical_id) for name, one in stack.resources.items()}
    [given.ids["ext"]] = [one.uuid for one in await compute.all(NETWORKS, project) if one.external]
    # A volume stays where it was attached first.
    take_away = await _attached(given, "")
    await take_away()
    yield given
    assert await cloud.stacks.delete(project, "base") is None


# What was there before


@dataclass(frozen=True)
class Row:
    """One type: what ours says, what it says then, and how the same is made by hand."""

    ours: Mapping[str, Json]
    then: Mapping[str, Json]
    hand: Callable[[Base, str], Awaitable[Callable[[], Awaitable[None]]]] | None = None
    """Makes it, and gives what takes it away. None: there is no such object outside of stacks."""
    outcome: str = "made"
    """`made`: another one beside it; `refused`; `adopted`: it is used."""
    theirs: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What differs in the other stack: ranges must not overlap."""
    others: Mapping[str, Json] = field(default_factory=dict[str, Json])
    uses: tuple[str, ...] = ()
    """Resources of the base that ours is given, and that are free again after it."""
    memory_only: bool = False
    """It lives in the stack's rows, or needs a guest that answers."""


def _object(kind: Any, new: type[Any], **given: Json) -> Any:
    """How an object of the compute service is made by hand."""

    async def make(base: Base, _type: str) -> Callable[[], Awaitable[None]]:
        values = base.filled(at(given, base.cloud.subnet))
        one = await base.compute.create(
            kind, new(uuid=str(uuid.uuid4()), project_id=base.project, **values)
        )
        return lambda: base.compute.remove(kind, one.uuid)

    return make


async def _key(base: Base, _type: str) -> Callable[[], Awaitable[None]]:
    await base.compute.create_keypair("same", project_id=base.project, public_key=KEY)
    return lambda: base.compute.delete_keypair("same", project_id=base.project)


async def _interface(base: Base, _type: str) -> Callable[[], Awaitable[None]]:
    pair = base.ids["router"], base.ids["sub"]
    await base.compute.add_router_interface(*pair)
    return lambda: base.compute.remove_router_interface(*pair)


async def _attached(base: Base, _type: str) -> Callable[[], Awaitable[None]]:
    volume, server = base.ids["vol"], base.ids["vm"]
    await base.compute.attach_volume(volume, server=server, device="/by-hand")
    return lambda: base.compute.detach_volume(volume, server=server)


async def _led(base: Base, _type: str) -> Callable[[], Awaitable[None]]:
    fip = base.ids["fip"]
    await base.compute.change(FLOATING_IPS, fip, FloatingIpChange(port_uuid=base.ids["port"]))
    nowhere = FloatingIpChange(port_uuid=None)
    return lambda: base.compute.change(FLOATING_IPS, fip, nowhere)


HANDLE, AWS_HANDLE = "OS::Heat::WaitConditionHandle", "AWS::CloudFormation::WaitConditionHandle"
SERVER = {"flavor": "m1.nano", "image": "debian"}
DISK = {"block_device_mapping_v2": [{"volume_id": "<vol>", "boot_index": -1}]}
POOL = {
    "protocol": "HTTP",
    "subnet": "<sub>",
    "lb_method": "ROUND_ROBIN",
    "vip": {"protocol_port": 80},
}
MONITOR = {"type": "TCP", "delay": 1, "timeout": 1, "max_retries": 1}
AGENT = {
    "vm2": made(
        "OS::Nova::Server",
        **SERVER,
        networks=[{"network": "<net>"}],
        user_data_format="SOFTWARE_CONFIG",
    )
}

ROWS: list[tuple[str, Row]] = [
    ("OS::Neutron::Net", Row({"name": "same"}, {"name": "then"}, _object(NETWORKS, NewNetwork, name="same"))),
    ("OS::Neutron::Subnet", Row(
        {"name": "same", "network": "<net>", "cidr": "SUBNET.41.0/24"},
        {"name": "same", "network": "<net>", "cidr": "SUBNET.42.0/24"},
        _object(SUBNETS, NewSubnet, name="same", network_uuid="<net>", cidr="SUBNET.43.0/24"),
        theirs={"cidr": "SUBNET.43.0/24"})),
    ("OS::Neutron::Router", Row(
        {"name": "same"}, {"name": "same", "external_gateway_info": {"network": "ext-net"}},
        _object(ROUTERS, NewRouter, name="same"))),
    ("OS::Neutron::RouterInterface", Row(
        {"router": "<router>", "subnet": "<sub>"}, {"router_id": "<router>", "subnet_id": "<sub>"},
        _interface, "refused")),
    ("OS::Neutron::Port", Row(
        {"name": "same", "fixed_ips": [{"subnet": "<sub>"}]},
        {"name": "same", "fixed_ips": [{"subnet": "<sub>"}], "security_groups": ["<group>"]},
        _object(PORTS, NewPort, name="same", network_uuid="<net>"))),
    ("OS::Neutron::FloatingIP", Row(
        {"floating_network": "ext-net", "port_id": "<port>"},
        {"floating_network": "ext-net", "port_id": "<free>"},
        _object(FLOATING_IPS, NewFloatingIp, network_uuid="<ext>", port_uuid="<port>"))),
    ("OS::Neutron::FloatingIPAssociation", Row(
        {"floatingip_id": "<fip>", "port_id": "<port>"}, {"floatingip_id": "<fip>", "port_id": "<free>"},
        _led, "adopted")),
    ("OS::Neutron::FloatingIPAssociation", Row(
        {"floatingip_id": "<fip>", "port_id": "<free>"}, {"floatingip_id": "<fip>"},
        _led, "refused", theirs={"port_id": "<port>"})),
    ("OS::Nova::FloatingIP", Row(
        {}, {"pool": "ext-net"}, _object(FLOATING_IPS, NewFloatingIp, network_uuid="<ext>"))),
    ("OS::Nova::FloatingIPAssociation", Row(
        {"floating_ip": "<fip>", "server_id": "<vm>"}, {"floating_ip": "<fip>", "server_id": ABSENT},
        _led, "adopted")),
    ("OS::Neutron::SecurityGroup", Row(
        {"name": "same"}, {"name": "same", "rules": [{"protocol": "icmp"}]},
        _object(SECURITY_GROUPS, NewSecurityGroup, name="same"))),
    ("AWS::EC2::SecurityGroup", Row({"GroupDescription": "same"}, {"GroupDescription": "then"},
        _object(SECURITY_GROUPS, NewSecurityGroup, name="ours-it", description="same"))),
    ("OS::Nova::KeyPair", Row(
        {"name": "same", "public_key": KEY}, {"name": "same", "public_key": OTHER_KEY}, _key, "refused")),
    ("OS::Nova::KeyPair", Row(
        {"name": "same", "public_key": OTHER_KEY}, {"name": "other"}, _key, "refused", {"public_key": KEY})),
    ("OS::Nova::Server", Row(
        {**SERVER, "name": "base", "networks": [{"network": "<net>"}]},
        {**SERVER, "name": "base", "networks": [{"subnet": "<sub>"}]},
        _object(PORTS, NewPort, name="ours-it", network_uuid="<net>"))),
    ("OS::Nova::Server", Row(  # a port and a volume that another server has
        {**SERVER, "networks": [{"port": "<port>"}]},
        {**SERVER, "networks": [{"port": "<port>"}], "metadata": {"a": 1}},
        _attached, "refused", theirs={"networks": [{"network": "<net>"}]})),
    ("OS::Nova::Server", Row(
        {**SERVER, "networks": [{"network": "<net>"}], **DISK},
        {**SERVER, "networks": [{"network": "<net>"}]}, _attached, "refused")),
    ("OS::Nova::Server", Row(
        {**SERVER, "networks": [{"port": "<free>"}], **DISK},
        {**SERVER, "networks": [{"port": "<free>"}]},
        _led, theirs={"networks": [{"network": "<net>"}], "block_device_mapping_v2": []},
        uses=("free", "vol"))),
    ("AWS::EC2::Instance", Row(
        {"InstanceType": "m1.nano", "ImageId": "debian", "SubnetId": "<sub>"},
        {"InstanceType": "m1.nano", "ImageId": "debian", "SubnetId": "<sub>",
         "Tags": [{"Key": "a", "Value": "b"}]},
        _object(PORTS, NewPort, name="ours-it", network_uuid="<net>"))),
    ("OS::Cinder::Volume", Row(
        {"size": 1, "name": "same"}, {"size": 2, "name": "same"},
        _object(VOLUMES, NewVolume, name="same", size=1))),
    ("OS::Cinder::VolumeAttachment", Row(
        {"volume_id": "<vol>", "instance_uuid": "<vm>"},
        {"volume_id": "<vol>", "instance_uuid": "<vm>", "mountpoint": "/x"},
        _attached, "refused")),
    ("OS::Nova::ServerGroup", Row({"name": "same"}, {"name": "then"}, memory_only=True)),
    ("OS::Heat::CloudConfig", Row({"cloud_config": {}}, {"cloud_config": {"a": 1}}, memory_only=True)),
    ("OS::Heat::SoftwareConfig", Row({"config": "a"}, {"config": "b"}, memory_only=True)),
    ("OS::Heat::MultipartMime", Row({"parts": []}, {"parts": [{"config": "b"}]}, memory_only=True)),
    ("OS::Heat::StructuredConfig", Row({"config": {}}, {"config": {"a": 1}}, memory_only=True)),
    ("OS::Heat::RandomString", Row({"length": 8}, {"length": 9}, memory_only=True)),
    ("OS::Heat::Value", Row({"value": 1}, {"value": 2}, memory_only=True)),
    ("OS::Heat::SoftwareDeployment", Row(
        {"config": "#!/bin/true", "server": ref("vm2")}, {"config": "#!/bin/false", "server": ref("vm2")},
        others=AGENT, memory_only=True)),
    ("OS::Heat::StructuredDeployment", Row(
        {"config": {"a": 1}, "server": ref("vm2")}, {"config": {"a": 2}, "server": ref("vm2")},
        others=AGENT, memory_only=True)),
    (HANDLE, Row({}, {"signal_transport": "HEAT_SIGNAL"}, memory_only=True)),
    (AWS_HANDLE, Row({}, {}, memory_only=True)),
    ("OS::Heat::WaitCondition", Row(
        {"handle": ref("h"), "timeout": 9}, {"handle": ref("h"), "timeout": 8},
        others={"h": made(HANDLE)}, memory_only=True)),
    ("AWS::CloudFormation::WaitCondition", Row(
        {"Handle": ref("h"), "Timeout": 9}, {"Handle": ref("h"), "Timeout": 8},
        others={"h": made(AWS_HANDLE)}, memory_only=True)),
    ("OS::Neutron::HealthMonitor", Row(MONITOR, {**MONITOR, "delay": 2}, memory_only=True)),
    ("OS::Neutron::Pool", Row(POOL, {**POOL, "lb_method": "SOURCE_IP"}, memory_only=True)),
    ("OS::Neutron::PoolMember", Row(
        {"pool_id": ref("p"), "address": "192.0.2.1", "protocol_port": 80},
        {"pool_id": ref("p"), "address": "192.0.2.2", "protocol_port": 80},
        others={"p": made("OS::Neutron::Pool", **POOL)}, memory_only=True)),
    ("OS::Neutron::LoadBalancer", Row(
        {"pool_id": ref("p"), "protocol_port": 80}, {"pool_id": ref("p"), "protocol_port": 81},
        others={"p": made("OS::Neutron::Pool", **POOL)}, memory_only=True)),
]  # fmt: skip


async def test_every_type_has_a_row() -> None:
    """A type that nobody has thought of is noticed here, and a relation has to say what becomes of it."""
    # Balancing is written out of a pool, never in a template.
    assert {name for name, _ in ROWS} | {BALANCING} == set(TYPES)
    of_relations = {row.outcome for name, row in ROWS if isinstance(TYPES[name], Relation)}
    assert of_relations == {"refused", "adopted"}


def _cases(*, memory_only: bool) -> list[Any]:
    return [
        pytest.param(name, row, maker, id=f"{name}-{number}-{maker}")
        for number, (name, row) in enumerate(ROWS)
        for maker in ("hand", "stack")
        if (maker == "stack" or row.hand) and row.memory_only is memory_only
    ]


@pytest.mark.parametrize(("name", "row", "maker"), _cases(memory_only=False))
@pytest.mark.parametrize("cloud", CLOUDS, indirect=True, scope="module")
async def test_what_was_there_before_survives_the_stack(
    base: Base, name: str, row: Row, maker: str
) -> None:
    """Its creation, a change and its end; afterwards everything is as it was before the stack."""
    await _survives(base, name, row, maker)


@pytest.mark.parametrize(("name", "row", "maker"), _cases(memory_only=True))
@pytest.mark.parametrize("cloud", ["memory"], indirect=True, scope="module")
async def test_what_lives_in_rows_of_another_stack_survives(
    base: Base, name: str, row: Row, maker: str
) -> None:
    """So do resources that no service has, or that wait for guests."""
    await _survives(base, name, row, maker)


async def _survives(base: Base, name: str, row: Row, maker: str) -> None:
    stacks, project = base.cloud.stacks, base.project
    clean = await base.things()
    theirs = base.template({**row.others, "it": made(name, **{**row.ours, **row.theirs})})
    take_away = None
    if maker == "hand" and row.hand is not None:
        take_away = await row.hand(base, name)
    else:
        await _settled(stacks.create(project, "theirs", theirs), failing=False)
    before = await base.things()
    lent = {base.ids[one] for one in row.uses}

    async def survives() -> None:
        now = await base.things()
        assert {(kind, one) for kind, one in before if one in lent} <= now.keys()
        kept = {key: one for key, one in before.items() if key[1] not in lent}
        assert {key: now.get(key) for key in kept} == kept

    ours = base.template({**row.others, "it": made(name, **row.ours)})
    try:
        await _settled(stacks.create(project, "ours", ours), failing=row.outcome == "refused")
        await survives()
        await stacks.update(project, "ours", ours)
        await survives()
        await stacks.update(
            project, "ours", base.template({**row.others, "it": made(name, **row.then)})
        )
        await survives()
    finally:
        left = await stacks.delete(project, "ours")
    assert left is None, left.reason
    assert await base.things() == before
    if take_away is not None:
        await take_away()
    else:
        assert (await stacks.plan(project, "theirs", theirs)).empty
        assert await stacks.delete(project, "theirs") is None
    assert await base.things() == clean


async def _settled(work: Awaitable[Any], *, failing: bool) -> None:
    stack = await work
    wanted = StackStatus.CREATE_FAILED if failing else StackStatus.CREATE_COMPLETE
    assert stack.status is wanted, stack.reason


# Values that only creation refuses

NOTHING: tuple[Json, ...] = ()
_PORT = {"network": "<net>"}
_RULE = {"direction": "ingress", "protocol": "tcp"}
_VOLUME = {"size": 1}
_NO_ID = (ABSENT, "no/such", "..", "", "not there")

REFUSED: dict[str, tuple[dict[str, Json], dict[str, tuple[Json, ...]]]] = {
    # The type: properties that are fine, and for each property values that are not.
    "OS::Neutron::Net": ({}, {"name": (LONG, "a\0b"), "tags": NOTHING}),
    "OS::Neutron::Subnet": (
        {"network": "<net>", "cidr": "SUBNET.44.0/24"},
        {
            "network": _NO_ID, "network_id": NOTHING,  # the other name of `network`
            "cidr": ("SUBNET.40.0/25", "127.0.0.0/24"), "ip_version": NOTHING, "name": (LONG,),
            "dns_nameservers": (["x"],), "gateway_ip": ("192.0.2.1", "x"), "tags": NOTHING,
        },
    ),
    "OS::Neutron::Router": (
        {}, {"name": (LONG,), "external_gateway_info": ({"network": "absent"}, {"network": ABSENT}),
             "tags": NOTHING},
    ),
    "OS::Neutron::RouterInterface": (
        {"router": "<router>", "subnet": "<sub>"},
        {"router": _NO_ID, "router_id": NOTHING, "subnet": _NO_ID, "subnet_id": NOTHING},
    ),
    "OS::Neutron::Port": (
        _PORT,
        {
            "network": _NO_ID, "network_id": NOTHING, "name": (LONG,),
            "fixed_ips": ([{"ip_address": "192.0.2.9"}], [{"ip_address": "SUBNET.40.1"}],
                          [{"subnet": ABSENT}], [{"ip_address": "x"}], [{"subnet": "<sub>"}] * 2),
            "security_groups": ([ABSENT], ["absent"]), "port_security_enabled": NOTHING,
            "allowed_address_pairs": ([{"ip_address": "x"}],), "tags": NOTHING,
        },
    ),
    "OS::Neutron::FloatingIP": (
        {"floating_network": "ext-net"},
        {"floating_network": _NO_ID, "floating_network_id": NOTHING, "port_id": _NO_ID},
    ),
    "OS::Neutron::FloatingIPAssociation": (
        {"floatingip_id": "<fip>", "port_id": "<port>"}, {"floatingip_id": _NO_ID, "port_id": _NO_ID}
    ),
    "OS::Nova::FloatingIP": ({}, {"pool": _NO_ID}),
    "OS::Nova::FloatingIPAssociation": (
        {"floating_ip": "<fip>", "server_id": "<vm>"}, {"floating_ip": _NO_ID, "server_id": _NO_ID}
    ),
    "OS::Neutron::SecurityGroup": (
        {},
        {
            "name": (LONG,), "description": ("d" * 20_000,),
            "rules": ([{**_RULE, "protocol": "x"}], [{**_RULE, "port_range_min": 9, "port_range_max": 8}],
                      [{**_RULE, "remote_group_id": ABSENT}], [{**_RULE, "remote_ip_prefix": "x"}]),
        },
    ),
    "AWS::EC2::SecurityGroup": (
        {"GroupDescription": "d"},
        {
            "GroupDescription": ("d" * 20_000,),
            "SecurityGroupIngress": ([{"IpProtocol": "x"}],), "SecurityGroupEgress": ([{"IpProtocol": "x"}],),
        },
    ),
    "OS::Nova::KeyPair": (
        {"name": "same", "public_key": KEY},
        {"name": NOTHING, "public_key": ("k" * 20_000,), "save_private_key": NOTHING},
    ),
    "OS::Nova::Server": (
        {**SERVER, "networks": [{"network": "<net>"}]},
        {
            "name": NOTHING, "flavor": ("absent",), "image": ("absent", ABSENT), "user_data": NOTHING,
            "user_data_format": NOTHING, "user_data_update_policy": NOTHING,
            "key_name": ("absent", "no/such"), "metadata": NOTHING,
            "networks": ([{"network": "absent"}], [{"port": ABSENT}], [{"port": "<port>"}],
                         [{"network": "<net>", "fixed_ip": "192.0.2.9"}], [{"subnet": ABSENT}]),
            "security_groups": (["absent"], [ABSENT]), "scheduler_hints": ({"group": "absent"},),
            "block_device_mapping_v2": ([{"volume_id": ABSENT, "boot_index": -1}],), "tags": NOTHING,
        },
    ),
    "AWS::EC2::Instance": (
        {"InstanceType": "m1.nano", "ImageId": "debian", "SubnetId": "<sub>"},
        {
            "InstanceType": ("absent",), "ImageId": ("absent",), "UserData": NOTHING, "KeyName": ("absent",),
            "SecurityGroups": (["absent"],), "SecurityGroupIds": ([ABSENT],),
            "NetworkInterfaces": ([ABSENT], ["<port>"]), "SubnetId": (ABSENT, "absent"), "Tags": NOTHING,
        },
    ),
    "OS::Cinder::Volume": (
        _VOLUME,
        {
            "size": (0, -1), "name": (LONG,), "metadata": ({"k": "v" * 300},), "image": _NO_ID[:3],
            "snapshot_id": _NO_ID[:3], "backup_id": _NO_ID[:3], "source_volid": _NO_ID[:3],
            "read_only": NOTHING,
        },
    ),
    "OS::Cinder::VolumeAttachment": (
        {"volume_id": "<vol>", "instance_uuid": "<vm>"},
        {"volume_id": _NO_ID, "instance_uuid": _NO_ID, "mountpoint": ("../x", "/\0", "x" * 300)},
    ),
    "OS::Heat::RandomString": (
        {},
        {
            "length": NOTHING, "sequence": NOTHING, "salt": NOTHING,
            "character_classes": ([{"class": "runes"}],), "character_sequences": ([{"sequence": ""}],),
        },
    ),
}  # fmt: skip


async def test_every_property_has_a_word() -> None:
    """Of every type that makes something outside of the stack's rows, and that says more than "yes"."""
    waiting = {HANDLE, AWS_HANDLE, "OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment"}
    for name, kind in TYPES.items():
        if name not in REFUSED:
            assert isinstance(kind, StackOnly) or name in {*waiting, BALANCING}, name
            continue
        has_effect = {
            key for key, one in kind.properties.items() if not one.ignored and not one.refused
        }
        assert set(REFUSED[name][1]) == has_effect, name


VALUES = [
    pytest.param(name, key, value, id=f"{name}-{key}-{number}")
    for name, (_, properties) in REFUSED.items()
    for key, values in properties.items()
    for number, value in enumerate(values)
]


@pytest.mark.parametrize(("name", "key", "value"), VALUES)
@pytest.mark.parametrize("cloud", CLOUDS, indirect=True, scope="module")
async def test_what_was_refused_leaves_nothing_and_can_be_removed(
    base: Base, name: str, key: str, value: Json
) -> None:
    """Whatever the value, the end of the stack succeeds and touches nothing else."""
    stacks, project = base.cloud.stacks, base.project
    before = await base.things()
    given = {**REFUSED[name][0], key: value}
    stack = await stacks.create(project, "ours", base.template({"it": made(name, **given)}))
    left = await stacks.delete(project, "ours")
    assert left is None, left.reason
    failed = stack.status is StackStatus.CREATE_FAILED
    # The cloud in memory takes some that the service refuses.
    assert failed or isinstance(stacks, MemoryStacks), stack.status
    assert await base.things() == before
