"""Resource types one by one: what is made, what changes in place, what replaces, what goes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clouds import is_empty

from vetro.stacks import (
    AddressRangeTaken,
    PlacementFailure,
    ResourceFailure,
    StackEngine,
    StackStatus,
    TemplateError,
)
from vetro.stacks.memory import MemoryCompute, MemoryStacks
from vetro.stacks.resources.registry import TYPES

PROJECT = "p"
NETWORK: dict[str, Any] = {
    "net": {"type": "OS::Neutron::Net", "properties": {"name": "n"}},
    "sub": {
        "type": "OS::Neutron::Subnet",
        "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.0.0/24"},
    },
}
SERVER: dict[str, Any] = {
    **NETWORK,
    "vm": {
        "type": "OS::Nova::Server",
        "properties": {
            "flavor": "m1.small",
            "image": "debian",
            "networks": [{"network": {"get_resource": "net"}}],
            "security_groups": [],
        },
    },
}
SERVER["vm"]["depends_on"] = ["sub"]
VOLUME: dict[str, Any] = {"v": {"type": "OS::Cinder::Volume", "properties": {"size": 1}}}


def kind(name: str, /, **properties: Any) -> dict[str, Any]:
    """A resource `it` of a type."""
    return {"it": {"type": name, "properties": properties}}


# Each row: resources beside `it`, the type, properties at first, properties then, and what the
# change is: the same resource (True) or another (False).
CHANGES = [
    (NETWORK, "OS::Neutron::Net", {"name": "a"}, {"name": "b"}, True),
    (NETWORK, "OS::Neutron::Subnet", {"network": {"get_resource": "net"}, "cidr": "10.1.0.0/24"},
     {"network": {"get_resource": "net"}, "cidr": "10.1.0.0/24", "dns_nameservers": ["192.0.2.1"]}, True),
    (NETWORK, "OS::Neutron::Subnet", {"network": {"get_resource": "net"}, "cidr": "10.1.0.0/24"},
     {"network": {"get_resource": "net"}, "cidr": "10.2.0.0/24"}, False),
    ({}, "OS::Neutron::Router", {"name": "a"},
     {"name": "a", "external_gateway_info": {"network": "ext-net"}}, True),
    (NETWORK, "OS::Neutron::Port",
     {"network": {"get_resource": "net"}, "fixed_ips": [{"subnet": {"get_resource": "sub"}}]},
     {"network": {"get_resource": "net"}, "fixed_ips": [{"subnet": {"get_resource": "sub"}}],
      "allowed_address_pairs": [{"ip_address": "10.0.0.9/32"}]}, True),
    ({**NETWORK, "p": {"type": "OS::Neutron::Port", "depends_on": "sub",
                       "properties": {"network": {"get_resource": "net"}}}},
     "OS::Neutron::FloatingIP", {"floating_network": "ext-net"},
     {"floating_network": "ext-net", "port_id": {"get_resource": "p"}}, True),
    ({}, "OS::Neutron::SecurityGroup", {"rules": []}, {"rules": [{"protocol": "icmp"}]}, True),
    ({}, "AWS::EC2::SecurityGroup", {"GroupDescription": "d"},
     {"GroupDescription": "d", "SecurityGroupIngress": [
         {"FromPort": "1", "ToPort": "2", "IpProtocol": "tcp", "CidrIp": "0.0.0.0/0"}]}, True),
    ({}, "OS::Nova::KeyPair", {"name": "k", "public_key": "ssh-rsa a"},
     {"name": "k", "public_key": "ssh-rsa b"}, False),
    ({}, "OS::Heat::CloudConfig", {"cloud_config": {"a": 1}}, {"cloud_config": {"a": 2}}, False),
    ({}, "OS::Heat::SoftwareConfig", {"config": "a"}, {"config": "b"}, False),
    ({}, "OS::Heat::StructuredConfig", {"config": {"a": 1}}, {"config": {"a": 2}}, False),
    ({}, "OS::Nova::ServerGroup", {"policies": ["affinity"]}, {"policies": ["anti-affinity"]}, False),
    ({}, "OS::Nova::ServerGroup", {"name": "a", "policies": ["affinity"]},
     {"name": "b", "policies": ["affinity"]}, True),
    ({}, "OS::Cinder::Volume", {"size": 1}, {"size": 2}, True),
    ({}, "OS::Heat::RandomString", {"length": 8}, {"length": 9}, False),
    ({}, "OS::Heat::Value", {"value": 1}, {"value": [2]}, True),
    ({}, "OS::Cinder::Volume", {"size": 1}, {"size": 1, "name": "n", "metadata": {"a": "b"}}, True),
]  # fmt: skip


@pytest.mark.parametrize(("others", "name", "first", "then", "same"), CHANGES)
async def test_a_change_is_made_in_place_or_replaces(
    others: dict[str, Any], name: str, first: Any, then: Any, same: bool
) -> None:
    """Outputs tell which; unchanged nothing is called; afterwards everything can be removed."""
    stacks = MemoryStacks()

    def template(properties: Any) -> dict[str, Any]:
        return {
            "resources": {**others, **kind(name, **properties)},
            "outputs": {"id": {"value": {"get_resource": "it"}}},
        }

    made = await stacks.create(PROJECT, "s", template(first))
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    stacks.compute.calls.clear()
    again = await stacks.update(PROJECT, "s", template(first))
    assert stacks.compute.calls == []
    assert again.outputs == made.outputs
    plan = await stacks.plan(PROJECT, "s", template(then))
    changed = await stacks.update(PROJECT, "s", template(then))
    assert changed.status is StackStatus.UPDATE_COMPLETE, changed.reason
    before, after = made.resources["it"].physical_id, changed.resources["it"].physical_id
    assert (before == after) is (same or name == "OS::Nova::KeyPair")
    (foreseen,) = [one.kind.value for one in plan.changes if one.resource == "it"]
    assert foreseen == ("update" if same else "replace")
    assert await stacks.delete(PROJECT, "s") is None
    assert is_empty(stacks.compute)


def test_every_type_has_a_row() -> None:
    """A type without a test of its changes would be noticed here; the rest have tests of their own."""
    elsewhere = {
        "AWS::EC2::Instance", "OS::Nova::Server", "OS::Heat::MultipartMime",
        "OS::Neutron::RouterInterface", "OS::Neutron::FloatingIPAssociation",
        "OS::Nova::FloatingIP", "OS::Nova::FloatingIPAssociation", "OS::Cinder::VolumeAttachment",
        "OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment",
        # tests/stacks/conformance
        "OS::Heat::WaitConditionHandle", "AWS::CloudFormation::WaitConditionHandle",
        "OS::Heat::WaitCondition", "AWS::CloudFormation::WaitCondition",
        "OS::Neutron::HealthMonitor", "OS::Neutron::Pool", "OS::Neutron::PoolMember",
        "OS::Neutron::LoadBalancer", "Vetro::LoadBalancer::Balancing",
    }  # fmt: skip
    assert {row[1] for row in CHANGES} | elsewhere == set(TYPES)


@pytest.mark.parametrize(
    ("server", "more", "words"),
    [
        ({"user_data_format": "RAW"}, {}, "user_data_format: SOFTWARE_CONFIG"),
        ({}, {}, "user_data_format: SOFTWARE_CONFIG"),
        ({"user_data_format": "SOFTWARE_CONFIG"}, {"actions": ["DELETE"]}, "'DELETE' is not"),
    ],
)
async def test_deployments_that_cannot_be(
    server: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    """They are refused when the template is validated, with what to write instead."""
    given = {"config": "#!/bin/true", "server": {"get_resource": "vm"}, **more}
    resources = {
        **SERVER,
        "vm": {**SERVER["vm"], "properties": {**SERVER["vm"]["properties"], **server}},
        **kind("OS::Heat::SoftwareDeployment", **given),
    }
    stacks = MemoryStacks()
    with pytest.raises(TemplateError, match=words):
        await stacks.create(PROJECT, "s", {"resources": resources})
    assert stacks.compute.calls == []


REFUSED = [
    ("AWS::ElasticLoadBalancing::LoadBalancer", "has Neutron's load balancers"),
    ("Vetro::LoadBalancer::Balancing", "name a pool"),
    ("OS::Nova::Servers", "did you mean OS::Nova::Server?"),
    ("X::Y", "this back end has no such resources"),
]


@pytest.mark.parametrize(("name", "said"), REFUSED)
async def test_types_that_are_not_served_say_why(name: str, said: str) -> None:
    """With the resource's name, before anything is touched."""
    stacks = MemoryStacks()
    with pytest.raises(TemplateError, match=said.replace("?", r"\?")) as caught:
        await stacks.create(PROJECT, "s", {"resources": {**NETWORK, **kind(name)}})
    assert "'it'" in str(caught.value)
    assert stacks.compute.calls == []


@pytest.mark.parametrize(
    "resources",
    [
        VOLUME,
        kind("OS::Nova::Server", flavor="m1.small", block_device_mapping_v2=[]),
    ],
)
async def test_what_a_service_does_not_offer_is_refused(resources: dict[str, Any]) -> None:
    """By the same types that work where it is offered."""
    stacks = MemoryStacks()
    stacks.compute.offers = frozenset()
    with pytest.raises(TemplateError, match="this back end has no"):
        await stacks.create(PROJECT, "s", {"resources": resources})
    with pytest.raises(TemplateError, match="this back end has no"):
        await stacks.plan(PROJECT, "s", {"resources": resources})
    assert stacks.compute.calls == []


async def test_a_type_that_a_service_no_longer_offers_can_still_be_removed() -> None:
    """Removal needs nothing but the rows."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "s", {"resources": VOLUME})
    stacks.compute.offers = frozenset()
    assert await stacks.delete(PROJECT, "s") is None
    assert stacks.compute.volume_list == {}


# Volumes


async def test_volumes_are_attached_and_detached() -> None:
    """The attachment is shown by the volume, and goes before either."""
    attachment = kind(
        "OS::Cinder::VolumeAttachment",
        instance_uuid={"get_resource": "vm"},
        volume_id={"get_resource": "v"},
        mountpoint="/data",
    )
    outputs = {"a": {"value": {"get_attr": ["v", "attachments_list"]}}}
    stacks = MemoryStacks()
    made = await stacks.create(
        PROJECT, "s", {"resources": {**SERVER, **VOLUME, **attachment}, "outputs": outputs}
    )
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    (shown,) = made.outputs["a"]
    assert (shown["device"], shown["server_id"]) == ("/data", made.resources["vm"].physical_id)
    changed = await stacks.update(
        PROJECT, "s", {"resources": {**SERVER, **VOLUME}, "outputs": outputs}
    )
    assert changed.outputs["a"] == []
    await stacks.update(PROJECT, "s", {"resources": {**SERVER, **VOLUME, **attachment}})
    stacks.compute.calls.clear()
    assert await stacks.delete(PROJECT, "s") is None
    calls = stacks.compute.calls
    assert calls.index("detach_volume") < min(
        calls.index("delete_volume"), calls.index("delete_server")
    )
    assert is_empty(stacks.compute)


async def test_a_server_boots_from_the_volume_of_the_lowest_index() -> None:
    """Whose image decides what kind of machine it is."""
    volumes = {
        name: {"type": "OS::Cinder::Volume", "properties": {"size": 1, **properties}}
        for name, properties in {"boot": {"image": "debian"}, "data": {}}.items()
    }
    devices = [
        {"volume_id": {"get_resource": "data"}, "boot_index": 1, "device_name": "vdb"},
        {"volume_id": {"get_resource": "boot"}, "boot_index": 0, "device_name": "vda"},
    ]
    server = {**SERVER["vm"], "properties": {**SERVER["vm"]["properties"]}}
    del server["properties"]["image"]
    server["properties"]["block_device_mapping_v2"] = devices
    stacks = MemoryStacks()
    made = await stacks.create(PROJECT, "s", {"resources": {**NETWORK, **volumes, "vm": server}})
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    (machine,) = stacks.compute.server_list.values()
    assert machine.spec.image.name == "debian"
    assert set(machine.spec.volumes.values()) == {"vda", "vdb"}


async def test_an_empty_list_of_volumes_is_no_boot_source() -> None:
    """The failure names the server."""
    server = {"it": {"type": "OS::Nova::Server", "properties": {
        "flavor": "m1.small", "block_device_mapping_v2": []}}}  # fmt: skip
    made = await MemoryStacks().create(PROJECT, "s", {"resources": server})
    assert made.status is StackStatus.CREATE_FAILED
    assert "neither an image nor a volume" in made.reason


# Server groups


def grouped(policy: str, count: int) -> dict[str, Any]:
    """Servers of one group."""
    group = {"g": {"type": "OS::Nova::ServerGroup", "properties": {"policies": [policy]}}}
    servers = {
        f"vm{number}": {
            **SERVER["vm"],
            "properties": {
                **SERVER["vm"]["properties"],
                "scheduler_hints": {"group": {"get_resource": "g"}},
            },
        }
        for number in range(count)
    }
    return {**NETWORK, **group, **servers}


@pytest.mark.parametrize(
    ("policy", "hosts", "used"),
    [
        ("affinity", 3, 1),
        ("anti-affinity", 3, 3),
        ("soft-affinity", 3, 1),
        ("soft-anti-affinity", 4, 3),
    ],
)
async def test_servers_of_a_group_know_where_the_others_are(
    policy: str, hosts: int, used: int
) -> None:
    """Although all are made side by side; one that comes later joins them."""
    stacks = MemoryStacks(MemoryCompute(hosts=hosts))
    made = await stacks.create(PROJECT, "s", {"resources": grouped(policy, 3)})
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    assert len(set(stacks.compute.placed.values())) == used
    if hosts > used or policy == "affinity":
        await stacks.update(PROJECT, "s", {"resources": grouped(policy, 4)})
        expected = used + 1 if "anti" in policy else used
        assert len(set(stacks.compute.placed.values())) == expected


async def test_a_group_that_cannot_be_apart_fails_with_the_allocators_steps() -> None:
    """What fitted stays; the failure carries resource, kind and steps."""
    stacks = MemoryStacks(MemoryCompute(hosts=2))
    made = await stacks.create(PROJECT, "s", {"resources": grouped("anti-affinity", 3)})
    assert made.status is StackStatus.CREATE_FAILED
    assert made.failure is not None
    assert made.failure.kind == PlacementFailure.__name__
    assert made.failure.resource.startswith("vm")
    assert made.failure.details[0]["remaining"] == []
    assert len(stacks.compute.server_list) == 2


async def test_a_policy_that_does_not_exist_is_refused() -> None:
    """The error names the existing policies."""
    with pytest.raises(
        TemplateError, match="the policy 'near' does not exist; use one of affinity"
    ):
        await MemoryStacks().create(
            PROJECT, "s", {"resources": kind("OS::Nova::ServerGroup", policies=["near"])}
        )


async def test_a_group_of_another_stack_is_an_error() -> None:
    """Members are known from the stack's rows only."""
    resources = {**SERVER, "vm": {**SERVER["vm"], "properties": {
        **SERVER["vm"]["properties"], "scheduler_hints": {"group": "elsewhere"}}}}  # fmt: skip
    made = await MemoryStacks().create(PROJECT, "s", {"resources": resources})
    assert "There is no server group 'elsewhere' in the stack" in made.reason


# Servers and their volumes


async def test_a_server_is_placed_where_its_volumes_are() -> None:
    """Although they are attached when it runs."""
    stacks = MemoryStacks(MemoryCompute(hosts=3))
    first = {
        **grouped("anti-affinity", 3),
        **{f"v{n}": VOLUME["v"] for n in range(3)},
        **{f"a{n}": attachment({"get_resource": f"v{n}"}, f"vm{n}") for n in range(3)},
    }
    outputs = {f"v{n}": {"value": {"get_resource": f"v{n}"}} for n in range(3)}
    made = await stacks.create(PROJECT, "first", {"resources": first, "outputs": outputs})
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    # Their servers go, the volumes stay.
    left = {name: one for name, one in first.items() if not name.startswith(("vm", "a"))}
    await stacks.update(PROJECT, "first", {"resources": left, "outputs": outputs})
    for number in range(3):
        volume = made.outputs[f"v{number}"]
        host = stacks.compute.volume_list[volume].server_uuid
        after = {**NETWORK, "vm": SERVER["vm"], "a": attachment(volume, "vm")}
        after["sub"] = {**NETWORK["sub"], "properties": {
            **NETWORK["sub"]["properties"], "cidr": f"10.{number + 1}.0.0/24"}}  # fmt: skip
        result = await stacks.create(PROJECT, f"s{number}", {"resources": after})
        assert result.status is StackStatus.CREATE_COMPLETE, result.reason
        assert stacks.compute.placed[result.resources["vm"].physical_id] == host


def attachment(volume: Any, server: str) -> dict[str, Any]:
    """A volume at a server."""
    properties = {"instance_uuid": {"get_resource": server}, "volume_id": volume}
    return {"type": "OS::Cinder::VolumeAttachment", "properties": properties}


async def test_volumes_that_need_their_server_are_made_after_it() -> None:
    """A volume is made first only if it requires nothing: no circle comes about."""
    stacks = MemoryStacks()
    volume = {**VOLUME["v"], "depends_on": ["vm"]}
    resources = {**SERVER, "v": volume, "a": attachment({"get_resource": "v"}, "vm")}
    made = await stacks.create(PROJECT, "s", {"resources": resources})
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason


# Software deployments


async def test_deployments_carry_configurations_out() -> None:
    """With their inputs; what they print is an attribute; another configuration runs again."""
    server = {**SERVER["vm"]["properties"], "user_data_format": "SOFTWARE_CONFIG"}

    def template(config: str) -> dict[str, Any]:
        return {
            "resources": {
                **SERVER,
                "vm": {**SERVER["vm"], "properties": server},
                "c": {"type": "OS::Heat::SoftwareConfig", "properties": {"config": config}},
                "d": {"type": "OS::Heat::SoftwareDeployment", "properties": {
                    "config": {"get_resource": "c"}, "server": {"get_resource": "vm"},
                    "input_values": {"x": 1}}},
            },
            "outputs": {"o": {"value": {"get_attr": ["d", "deploy_stdout"]}}},
        }  # fmt: skip

    stacks = MemoryStacks()
    assert (await stacks.create(PROJECT, "s", template("one"))).outputs["o"].startswith("ran ")
    await stacks.update(PROJECT, "s", template("two"))
    ran = list(stacks.guests.ran.values())
    assert [one["config"] for one in ran] == ["one", "two"]
    assert all({"name": "x", "value": 1} in one["inputs"] for one in ran)


# Failures


@pytest.mark.parametrize(
    ("error", "kind_name"),
    [
        (AddressRangeTaken("subnet overlaps"), "AddressRangeTaken"),
        (ResourceFailure("no"), "ResourceFailure"),
        (ValueError("odd"), "ValueError"),
    ],
)
async def test_a_failure_tells_what_it_was(
    stacks: StackEngine, compute: MemoryCompute, error: Exception, kind_name: str
) -> None:
    """The operation's caller gets the kind; a later read has only the reason."""
    compute.fail["create_subnet"] = error
    made = await stacks.create(PROJECT, "s", {"resources": NETWORK})
    assert made.failure is not None
    assert (made.failure.resource, made.failure.kind) == ("sub", kind_name)
    assert str(error) in made.failure.text
    later = await stacks.get(PROJECT, "s")
    assert later is not None
    assert later.failure is None
    assert str(error) in later.reason
    compute.fail.clear()
    mended = await stacks.update(PROJECT, "s", {"resources": NETWORK})
    assert (mended.status, mended.failure) == (StackStatus.UPDATE_COMPLETE, None)


async def test_a_subnet_that_overlaps_another_projects(
    compute: MemoryCompute, stacks: StackEngine
) -> None:
    """Is refused by the service, and another range can take its place in the same stack."""
    await stacks.create("other", "s", {"resources": NETWORK})
    made = await stacks.create(PROJECT, "s", {"resources": NETWORK})
    assert made.failure is not None
    assert made.failure.kind == AddressRangeTaken.__name__
    moved = {**NETWORK, "sub": {**NETWORK["sub"], "properties": {
        **NETWORK["sub"]["properties"], "cidr": "10.0.1.0/24"}}}  # fmt: skip
    mended = await stacks.update(PROJECT, "s", {"resources": moved})
    assert mended.status is StackStatus.UPDATE_COMPLETE
    assert sorted(one.cidr for one in compute.subnet_list.values()) == [
        "10.0.0.0/24",
        "10.0.1.0/24",
    ]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"length": 0}, "from 1 to 512"),
        ({"length": 513}, "from 1 to 512"),
        ({"length": 2, "character_classes": [{"class": "digits", "min": 3}]}, "cannot have the 3"),
        ({"character_classes": [{"class": "runes"}]}, "no class of characters 'runes'"),
        ({"character_sequences": [{"sequence": ""}]}, "is empty"),
        ({"sequence": "runes"}, "use one of"),
    ],
)
async def test_random_strings_that_cannot_be(properties: dict[str, Any], words: str) -> None:
    """They are refused with what is wrong, not shortened."""
    stacks = MemoryStacks()
    template = {"resources": kind("OS::Heat::RandomString", **properties)}
    try:
        reason = (await stacks.create(PROJECT, "s", template)).reason
    except TemplateError as error:
        reason = str(error)
    assert words in reason
