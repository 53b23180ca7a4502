"""What a native stack would lose: named with old and new, and refused before anything begins."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.stacks.conftest import PROJECT, application_template

from vetro.compute.client.calls import PORTS, VOLUMES
from vetro.stacks import LossRefused, ResourceFailure, StackBusy, StackEngine, StackStatus
from vetro.stacks.losses import ChangedProperty, LossHow, LossKind
from vetro.stacks.memory import EXTERNAL_NETWORK, MemoryCompute, MemoryStacks
from vetro.stacks.operations import losing
from vetro.stacks.resources.registry import TYPES

WEB = "web.0 x"
MACHINE, ADDRESS = f"machine {WEB}", "address 192.0.2.1"
Change = Callable[[dict[str, Any]], None]


def changed(*changes: Change, **properties: Any) -> dict[str, Any]:
    """The application's template with changes; ``properties``: of its server."""
    template = copy.deepcopy(application_template())
    template["resources"][WEB]["properties"] |= properties
    template["outputs"] = {}
    for change in changes:
        change(template["resources"])
    return template


def rows(stacks: MemoryStacks) -> Any:
    """All that is stored of stacks."""
    return copy.deepcopy(stacks.store.stacks)


async def refusal(stacks: StackEngine, template: dict[str, Any], *may_lose: str) -> LossRefused:
    """The refusal of an update."""
    with pytest.raises(LossRefused) as caught:
        await stacks.update(PROJECT, "env", template, may_lose=may_lose)
    return caught.value


def is_kept(kind: str, name: str) -> bool:
    """Whether a property is read at the first start only, so that another value replaces nothing."""
    return bool(getattr(TYPES[kind].properties[name], "first_start", False))


SERVER_PROPERTIES: dict[str, tuple[Any, tuple[str, str, str] | None]] = {
    "name": ("b", None),
    "flavor": ("m1.small", None),
    "image": ("vetro-balancer", ("image", "debian", "vetro-balancer")),
    "user_data": ("#!/bin/sh\n", ("user data", "***", "***")),
    "user_data_format": ("HEAT_CFNTOOLS", ("user data format", "RAW", "HEAT_CFNTOOLS")),
    "key_name": ("k", ("key pair", "none", "k")),
    "metadata": ({"role": "db"}, None),
    "networks": ([{"network": {"get_resource": "network-1"}}], ("network", "*", "*")),
    "security_groups": (["g"], None),
    "availability_zone": ("z", None),
    "scheduler_hints": ({"group": "g"}, ("placement", "none", "g")),
    "config_drive": (True, None),
    "block_device_mapping_v2": (
        [{"volume_id": "v", "boot_index": 0}],
        ("volume", "none", "volume_id: v, boot_index: 0"),
    ),
    "software_config_transport": ("POLL_SERVER_HEAT", None),
    "flavor_update_policy": ("REPLACE", None),
    "image_update_policy": ("REPLACE", None),
    "user_data_update_policy": ("REPLACE", None),
    "tags": (["t"], None),
}


@pytest.mark.parametrize(
    "name", [name for name, one in TYPES["OS::Nova::Server"].properties.items() if not one.refused]
)
async def test_each_property_of_a_server_that_replaces_it_is_named(name: str) -> None:
    """With its old and new value; what is changed in place is not asked for. A property without a row
    fails."""
    value, said = SERVER_PROPERTIES[name]
    if is_kept("OS::Nova::Server", name):
        said = None
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", application_template())
    before, server = rows(stacks), [*stacks.compute.server_list]
    stacks.compute.calls.clear()
    if said is None:
        plan = await stacks.plan(PROJECT, "env", changed(**{name: value}))
        assert all(one.kind.value != "replace" for one in plan.changes)
        return
    error = await refusal(stacks, changed(**{name: value}))
    (loss,) = error.losses
    assert (loss.kind, loss.name, loss.how) == (LossKind.MACHINE, WEB, LossHow.REPLACED)
    (change,) = loss.changes
    for found, wanted in zip((change.name, change.old, change.new), said, strict=True):
        assert wanted in (found, "*")
    assert rows(stacks) == before
    assert (stacks.compute.calls, [*stacks.compute.server_list]) == ([], server)


OTHERS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, str]]]] = {
    "AWS::EC2::Instance": (
        {"ImageId": "debian", "InstanceType": "m1.tiny", "SubnetId": {"get_resource": "subnet-1"}},
        {
            "ImageId": ("vetro-balancer", "image debian → vetro-balancer"),
            "InstanceType": ("m1.small", "flavor m1.tiny → m1.small"),
            "UserData": ("#!/bin/sh", "UserData none → ***"),
            "KeyName": ("k", "key pair none → k"),
            "SecurityGroups": (["g"], "security groups none → g"),
            "SecurityGroupIds": (["g"], "security groups none → g"),
            "NetworkInterfaces": (["p"], "network none → p"),
            "SubnetId": ("s", "network"),
        },
    ),
    "OS::Cinder::Volume": (
        {"size": 1},
        {
            "image": ("debian", "image none → debian"),
            "snapshot_id": ("s", "snapshot none → s"),
            "backup_id": ("b", "backup none → b"),
            "source_volid": ("v", "source volume none → v"),
        },
    ),
    "OS::Neutron::FloatingIP": (
        {"floating_network": EXTERNAL_NETWORK},
        {
            "floating_network": ("n", f"floating network {EXTERNAL_NETWORK} → n"),
            "floating_network_id": ("n", "floating network none → n"),
        },
    ),
    "OS::Nova::FloatingIP": ({}, {"pool": ("n", "pool none → n")}),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_each_property_that_replaces_what_holds_data_is_named(kind: str) -> None:
    """A property that replaces without a row fails."""
    given, rows_of = OTHERS[kind]
    known = TYPES[kind].properties
    replacing = {
        name for name, one in known.items() if not (one.update or one.ignored or one.refused)
    }
    assert replacing == rows_of.keys()
    for name, (value, said) in rows_of.items():
        if is_kept(kind, name):
            continue
        stacks = MemoryStacks()
        body = {"type": kind, "properties": given, "depends_on": ["ri-1"]}
        template = changed()
        template["resources"]["one"] = body
        made = await stacks.create(PROJECT, "env", template)
        assert made.status is StackStatus.CREATE_COMPLETE, made.reason
        other = copy.deepcopy(template)
        other["resources"]["one"]["properties"][name] = value
        (loss,) = (await refusal(stacks, other)).losses
        assert loss.how is LossHow.REPLACED
        assert said in loss.text


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("AWS::EC2::Instance", {"ImageId": "nowhere"}),
        ("AWS::EC2::Instance", {"ImageId": "vetro-balancer", "SecurityGroups": ["nobody's"]}),
        ("OS::Cinder::Volume", {"image": "nowhere"}),
        ("OS::Cinder::Volume", {"source_volid": "nowhere"}),
    ],
)
async def test_what_cannot_be_replaced_is_kept(
    stacks: StackEngine, compute: MemoryCompute, kind: str, missing: dict[str, Any]
) -> None:
    """Also when it may be lost: what the new one is made of is looked up first, and the way back is free."""
    template = changed()
    body = {"type": kind, "properties": OTHERS[kind][0], "depends_on": ["ri-1"]}
    template["resources"]["one"] = body
    await stacks.create(PROJECT, "env", template)
    there = [*compute.server_list, *compute.volume_list]
    other = copy.deepcopy(template)
    other["resources"]["one"]["properties"] |= missing
    lost = [one.key for one in (await refusal(stacks, other)).losses]
    failed = await stacks.update(PROJECT, "env", other, may_lose=lost)
    assert failed.status is StackStatus.UPDATE_FAILED
    back = await stacks.update(PROJECT, "env", template, may_lose=[])
    assert back.status is StackStatus.UPDATE_COMPLETE
    assert [*compute.server_list, *compute.volume_list] == there


async def test_a_resource_that_cannot_be_judged_now_is_left_to_the_operation(
    stacks: StackEngine, compute: MemoryCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation says what is wrong with it, as ever; what it would replace is kept."""
    template = changed(image={"list_join": ["", [{"get_attr": ["second", "name"]}]]})
    template["heat_template_version"] = "2015-04-30"
    template["resources"]["second"] = {
        "type": "OS::Neutron::Port",
        "depends_on": "subnet-1",
        "properties": {"network": {"get_resource": "network-1"}, "name": "debian"},
    }
    await stacks.create(PROJECT, "env", template)
    monkeypatch.setattr(compute, "find", _away)
    done = await stacks.update(PROJECT, "env", template, may_lose=[])
    assert done.status is StackStatus.UPDATE_FAILED
    assert "is away" in done.reason
    assert len(compute.server_list) == 1


async def _away(*_: object) -> None:
    raise ResourceFailure("the service is away")


def other_name(resources: dict[str, Any]) -> None:
    """As a class that calls the resource after the host name writes it."""
    body = resources.pop(WEB)
    body["properties"]["name"] = "b"
    resources["b"] = body


def no_machine(resources: dict[str, Any]) -> None:
    """Neither the server nor its port."""
    for name in (WEB, f"port-{WEB}", f"fip-{WEB}"):
        del resources[name]


def other_network(resources: dict[str, Any]) -> None:
    """The network is replaced, and all that is in it."""
    resources["network-2"] = {"type": "OS::Neutron::Net"}
    resources["subnet-1"]["properties"]["network"] = {"get_resource": "network-2"}
    resources[f"port-{WEB}"]["properties"]["network"] = {"get_resource": "network-2"}


def set_port(**properties: Any) -> Change:
    """Other properties of the port."""
    return lambda resources: resources[f"port-{WEB}"]["properties"].update(properties)


DIFFERENCES: dict[str, tuple[Change, list[str]]] = {
    "another host name": (
        other_name,
        [f"replaces {MACHINE}, its data is lost: host name {WEB} → b"],
    ),
    "no machine": (no_machine, [f"removes {MACHINE}, its data is lost", f"removes {ADDRESS}"]),
    "another network": (
        other_network,
        [f"replaces {MACHINE}, its data is lost: network PORT → depends on port-{WEB}"],
    ),
    "no floating address": (
        lambda resources: resources.pop(f"fip-{WEB}"),
        [f"removes {ADDRESS}"],
    ),
    "a floating address of another network": (
        lambda resources: resources[f"fip-{WEB}"]["properties"].update(floating_network="other"),
        [f"replaces {ADDRESS}: floating network {EXTERNAL_NETWORK} → other"],
    ),
    "another type": (
        lambda resources: resources[WEB].update(
            type="AWS::EC2::Instance",
            properties={"ImageId": "debian", "InstanceType": "m1.tiny"},
        ),
        [f"replaces {MACHINE}, its data is lost: type OS::Nova::Server → AWS::EC2::Instance"],
    ),
}


@pytest.mark.parametrize("case", DIFFERENCES)
async def test_a_difference_is_refused_in_words_and_done_when_it_is_named(
    stacks: StackEngine, compute: MemoryCompute, case: str
) -> None:
    """All of it or nothing: one name too few refuses it all."""
    change, said = DIFFERENCES[case]
    await stacks.create(PROJECT, "env", changed())
    (port,) = compute.port_list
    before, server = await stacks.get(PROJECT, "env"), [*compute.server_list]
    compute.calls.clear()
    error = await refusal(stacks, changed(change), "machine of-somebody-else")
    assert [one.text.replace(port, "PORT") for one in error.losses] == said
    assert str(error).startswith("Nothing was changed, because this " + error.losses[0].text)
    assert await stacks.get(PROJECT, "env") == before
    assert (compute.calls, [*compute.server_list]) == ([], server)
    keys = [one.key for one in error.losses]
    if len(keys) > 1:
        assert [
            one.key for one in (await refusal(stacks, changed(change), keys[0])).losses
        ] == keys[1:]
    if case == "a floating address of another network":
        return  # there is none in this cloud
    done = await stacks.update(PROJECT, "env", changed(change), may_lose=keys)
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


KEPT: dict[str, Change] = {
    "nothing": lambda resources: None,
    "a rule of the group": lambda resources: resources["group"]["properties"]["rules"].pop(),
    "the port's groups": set_port(security_groups=[]),
    "the router's other name": lambda resources: resources["router"]["properties"].update(name="r"),
    "another machine": lambda resources: resources.update(
        second={
            "type": "OS::Nova::Server",
            "properties": {
                "image": "debian",
                "flavor": "m1.tiny",
                "networks": [{"network": {"get_resource": "network-1"}}],
            },
        }
    ),
    "the server is retained and goes": lambda resources: None,
}


@pytest.mark.parametrize("case", KEPT)
async def test_what_loses_nothing_is_not_refused(stacks: StackEngine, case: str) -> None:
    """Updates in place, what comes, and machines that outlive the stack."""
    template = changed()
    if "retained" in case:
        template["resources"][WEB]["deletion_policy"] = "Retain"
        await stacks.create(PROJECT, "env", template, may_lose=[])
        del template["resources"][WEB]
    else:
        await stacks.create(PROJECT, "env", template, may_lose=[])
        KEPT[case](template["resources"])
    done = await stacks.update(PROJECT, "env", template, may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_a_key_pair_that_is_made_again_under_its_name_replaces_no_server(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """What refers to it gets the same name."""
    key = {"type": "OS::Nova::KeyPair", "properties": {"name": "k", "public_key": "ssh-ed25519 AA"}}
    template = changed(
        lambda resources: resources.update(key=key), key_name={"get_resource": "key"}
    )
    await stacks.create(PROJECT, "env", template)
    server = [*compute.server_list]
    template["resources"]["key"]["properties"]["public_key"] = "ssh-ed25519 BB"
    done = await stacks.update(PROJECT, "env", template, may_lose=[])
    assert (done.status, [*compute.server_list]) == (StackStatus.UPDATE_COMPLETE, server)


async def test_a_value_that_is_changed_in_place_is_planned_as_it_will_be(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """What uses it is replaced by the same operation, and named before it."""
    value = {"type": "OS::Heat::Value", "properties": {"value": "debian"}}
    template = changed(
        lambda resources: resources.update(image=value), image={"get_attr": ["image", "value"]}
    )
    await stacks.create(PROJECT, "env", template)
    template["resources"]["image"]["properties"]["value"] = "vetro-balancer"
    (loss,) = (await refusal(stacks, template)).losses
    assert loss.changes == (ChangedProperty("image", "debian", "vetro-balancer"),)
    assert len(compute.server_list) == 1


def disk(**properties: Any) -> dict[str, Any]:
    """A template with a volume."""
    volume = {"type": "OS::Cinder::Volume", "properties": {"size": 1, **properties}}
    return {"heat_template_version": "2013-05-23", "resources": {"disk": volume}}


async def test_a_volume_is_lost_when_it_is_made_of_something_else_or_goes(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """By its name; growing it loses nothing, and one that is retained stays."""
    await stacks.create(PROJECT, "env", disk(name="posts"))
    assert (
        await stacks.update(PROJECT, "env", disk(name="posts", size=2), may_lose=[])
    ).status is (StackStatus.UPDATE_COMPLETE)
    (loss,) = (await refusal(stacks, disk(name="posts", size=2, image="debian"))).losses
    assert loss.text == "replaces volume posts, its data is lost: image none → debian"
    empty: dict[str, Any] = {"heat_template_version": "2013-05-23", "resources": {}}
    (loss,) = (await refusal(stacks, empty)).losses
    assert (loss.key, loss.text) == ("volume posts", "removes volume posts, its data is lost")
    with pytest.raises(LossRefused):
        await stacks.delete(PROJECT, "env", may_lose=["machine posts"])
    kept = disk(name="posts", size=2)
    kept["resources"]["disk"]["deletion_policy"] = "Retain"
    await stacks.update(PROJECT, "env", kept, may_lose=[])
    assert await stacks.delete(PROJECT, "env", may_lose=[]) is None
    assert [one.name for one in await compute.all(VOLUMES, PROJECT)] == ["posts"]


async def test_removing_a_stack_is_guarded_too(stacks: StackEngine, compute: MemoryCompute) -> None:
    """Everything that it has is named."""
    await stacks.create(PROJECT, "env", application_template())
    before = await stacks.get(PROJECT, "env")
    with pytest.raises(LossRefused) as caught:
        await stacks.delete(PROJECT, "env", may_lose=[])
    assert [one.key for one in caught.value.losses] == [MACHINE, ADDRESS]
    assert await stacks.get(PROJECT, "env") == before
    assert await stacks.delete(PROJECT, "env", may_lose=[MACHINE, ADDRESS]) is None
    assert compute.server_list == {}


async def test_the_members_of_groups_and_nested_templates_are_named(stacks: StackEngine) -> None:
    """Each by its own name."""
    server = {
        "type": "OS::Nova::Server",
        "properties": {
            "name": "web-%index%",
            "image": "debian",
            "flavor": "m1.tiny",
            "networks": [{"network": {"get_resource": "net"}}],
        },
    }
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 3, "resource_def": server}}
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.9.0/24"},
        },
        "web": {**group, "depends_on": "subnet"},
    }
    template: dict[str, Any] = {"heat_template_version": "2015-04-30", "resources": resources}
    made = await stacks.create(PROJECT, "env", template)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    resources["web"]["properties"]["count"] = 1
    error = await refusal(stacks, template)
    assert [one.key for one in error.losses] == ["machine web-1", "machine web-2"]


async def test_two_machines_of_one_name_are_told_apart(stacks: StackEngine) -> None:
    """The name of one does not let the other go."""
    template = changed(
        lambda resources: resources.update(
            second={
                "type": "OS::Nova::Server",
                "properties": {
                    "name": WEB,
                    "image": "debian",
                    "flavor": "m1.tiny",
                    "networks": [{"network": {"get_resource": "network-1"}}],
                },
            }
        )
    )
    await stacks.create(PROJECT, "env", template)
    del template["resources"]["second"]
    (loss,) = (await refusal(stacks, template, MACHINE)).losses
    assert loss.key == f"machine {WEB} (second)"


async def test_what_an_earlier_operation_could_not_remove_is_named_as_before(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """The same request again goes on with it; one that names nothing keeps it."""
    await stacks.create(PROJECT, "env", changed())
    compute.fail["delete_server"] = ResourceFailure("busy")
    other = changed(image="vetro-balancer")
    failed = await stacks.update(PROJECT, "env", other, may_lose=[MACHINE])
    assert failed.status is StackStatus.UPDATE_FAILED
    compute.fail.clear()
    (loss,) = (await refusal(stacks, other)).losses
    assert loss.text == f"removes {MACHINE}, its data is lost"
    done = await stacks.update(PROJECT, "env", other, may_lose=[MACHINE])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert len(compute.server_list) == 1


async def test_what_was_never_made_is_no_loss(stacks: StackEngine, compute: MemoryCompute) -> None:
    """A creation that failed is repeated with other values without a question."""
    compute.fail["create_server"] = ResourceFailure("no")
    failed = await stacks.create(PROJECT, "env", changed(), may_lose=[])
    assert failed.status is StackStatus.CREATE_FAILED
    compute.fail.clear()
    done = await stacks.update(PROJECT, "env", changed(image="vetro-balancer"), may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_a_machine_that_somebody_has_removed_by_hand_is_no_loss(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """There is nothing to lose any more."""
    await stacks.create(PROJECT, "env", changed())
    await compute.delete_server(next(iter(compute.server_list)))
    done = await stacks.update(PROJECT, "env", changed(image="vetro-balancer"), may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_the_address_of_a_port_without_a_machine_is_named(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """An address that somebody has chosen is lost with the port; the same one again is not."""
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.9.0/24"},
        },
        "vip": {
            "type": "OS::Neutron::Port",
            "depends_on": "subnet",
            "properties": {
                "network": {"get_resource": "net"},
                "fixed_ips": [{"ip_address": "10.0.9.50"}],
            },
        },
    }
    template: dict[str, Any] = {"heat_template_version": "2015-04-30", "resources": resources}
    await stacks.create(PROJECT, "env", template)
    other = copy.deepcopy(template)
    other["resources"]["vip"]["properties"]["fixed_ips"] = [{"ip_address": "10.0.9.51"}]
    (loss,) = (await refusal(stacks, other)).losses
    assert loss.text == "replaces address 10.0.9.50: address 10.0.9.50 → 10.0.9.51"
    renamed = copy.deepcopy(template)
    renamed["resources"]["second"] = renamed["resources"].pop("vip")
    # The address is wanted again, so nothing is lost; that it is not free yet is another matter.
    await stacks.update(PROJECT, "env", renamed, may_lose=[])
    ports = await compute.all(PORTS, PROJECT)
    assert ["10.0.9.50"] in [[ip for _, ip in one.fixed_ips] for one in ports]
    with pytest.raises(LossRefused):
        await stacks.delete(PROJECT, "env", may_lose=[])
    assert await stacks.delete(PROJECT, "env", may_lose=["address 10.0.9.50"]) is None


def shared(**second: Any) -> dict[str, Any]:
    """A machine that answers on an address of its own and on one that has a port of its own."""
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.9.0/24"},
        },
        **{
            name: {
                "type": "OS::Neutron::Port",
                "depends_on": "subnet",
                "properties": {"network": {"get_resource": "net"}},
            }
            for name in ("shared", "port")
        },
        "web": {
            "type": "OS::Nova::Server",
            "properties": {
                "name": "web",
                "image": "debian",
                "flavor": "m1.tiny",
                "networks": [{"port": {"get_resource": "port"}}],
            },
        },
    }
    resources["port"]["properties"]["allowed_address_pairs"] = [
        {"ip_address": {"get_attr": ["shared", "fixed_ips", 0, "ip_address"]}}
    ]
    resources["shared"]["properties"] |= second
    return {"heat_template_version": "2015-04-30", "resources": resources}


async def test_the_address_of_a_port_that_no_machine_was_made_for_is_named(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """Nobody has chosen it, and others know it: removed alone, with its users, or made anew. That of a port
    for a machine is nobody's when the machine has gone by hand, or was never made."""
    await stacks.create(PROJECT, "env", shared())
    stack = await stacks.get(PROJECT, "env")
    assert stack is not None
    ids = {name: one.physical_id or "" for name, one in stack.resources.items()}
    port = await compute.find(PORTS, ids["shared"])
    assert port is not None
    ((_, address),) = port.fixed_ips
    without = shared()
    del without["resources"]["shared"]
    del without["resources"]["port"]["properties"]["allowed_address_pairs"]
    assert [one.text for one in (await refusal(stacks, without)).losses] == [
        f"removes address {address}"
    ]
    anew = shared(replacement_policy="REPLACE_ALWAYS", fixed_ips=[{"ip_address": "10.0.9.99"}])
    assert [one.key for one in (await refusal(stacks, anew)).losses] == [f"address {address}"]
    with pytest.raises(LossRefused, match=f"this removes address {address}"):
        await stacks.delete(PROJECT, "env", may_lose=["machine web"])
    await compute.delete_server(ids["web"])
    assert await stacks.delete(PROJECT, "env", may_lose=[f"address {address}"]) is None
    compute.fail["create_server"] = ResourceFailure("no")
    template = shared()
    template["resources"]["web"]["depends_on"] = "shared"
    await stacks.create(PROJECT, "env", template)
    assert [
        one.text.partition(" 10.")[0]
        for one in await stacks.would_lose(PROJECT, "env", template["resources"])
    ] == ["removes address"]


def balanced() -> dict[str, Any]:
    """A machine behind a load balancer."""
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.9.0/24"},
        },
        "web": {
            "type": "OS::Nova::Server",
            "depends_on": "subnet",
            "properties": {
                "name": "web",
                "image": "debian",
                "flavor": "m1.tiny",
                "networks": [{"network": {"get_resource": "net"}}],
            },
        },
        "pool": {
            "type": "OS::Neutron::Pool",
            "properties": {
                "name": "shop",
                "protocol": "HTTP",
                "lb_method": "ROUND_ROBIN",
                "subnet_id": {"get_resource": "subnet"},
                "vip": {"protocol_port": 80, "address": "10.0.9.200"},
            },
        },
        "lb": {
            "type": "OS::Neutron::LoadBalancer",
            "properties": {
                "pool_id": {"get_resource": "pool"},
                "protocol_port": 80,
                "members": [{"get_resource": "web"}],
            },
        },
    }
    return {"heat_template_version": "2015-04-30", "resources": resources}


async def test_a_load_balancer_is_called_one() -> None:
    """It has no data, and its virtual address is named: removed, moved, or left by a failed operation."""
    stacks = MemoryStacks()
    compute = stacks.compute
    made = await stacks.create(PROJECT, "env", balanced())
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    moved = balanced()
    moved["resources"]["pool"]["properties"]["vip"]["address"] = "10.0.9.201"
    said = [one.text for one in (await refusal(stacks, moved)).losses]
    assert said[0].startswith("replaces load balancer shop: network ")
    assert said[1:] == ["replaces address 10.0.9.200: address 10.0.9.200 → 10.0.9.201"]
    without = balanced()
    del without["resources"]["pool"], without["resources"]["lb"]
    keys = ["load balancer shop", "address 10.0.9.200"]
    losses = (await refusal(stacks, without)).losses
    assert [one.key for one in losses] == keys
    assert losses[0].text == "removes load balancer shop"
    compute.fail["delete_server"] = ResourceFailure("no")
    failed = await stacks.update(PROJECT, "env", without, may_lose=keys)
    assert failed.status is StackStatus.UPDATE_FAILED
    assert [one.kind for one in (await refusal(stacks, without)).losses] == [
        LossKind.BALANCER,
        LossKind.ADDRESS,
    ]


async def test_a_virtual_address_that_is_not_written_any_more_stays() -> None:
    """The balancer has one of that subnet; in another subnet it is told in words that it is any one there."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", balanced())
    there, ports = [*stacks.compute.server_list], [*stacks.compute.port_list]
    without = balanced()
    del without["resources"]["pool"]["properties"]["vip"]["address"]
    done = await stacks.update(PROJECT, "env", without, may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert ([*stacks.compute.server_list], [*stacks.compute.port_list]) == (there, ports)
    without["resources"]["sub2"] = copy.deepcopy(without["resources"]["subnet"])
    without["resources"]["sub2"]["properties"]["cidr"] = "10.0.8.0/24"
    without["resources"]["pool"]["properties"]["subnet_id"] = {"get_resource": "sub2"}
    said = [one.text for one in (await refusal(stacks, without)).losses]
    assert said[1] == ("replaces address 10.0.9.200: address 10.0.9.200 → any in subnet sub2")


async def test_a_machine_that_is_called_like_the_server_of_a_pool_is_a_machine() -> None:
    """Beside a port and a security group that are called like a pool's as well; also while its removal is
    repeated."""
    stacks = MemoryStacks()
    template = servers(**{"x.server": {"networks": [{"port": {"get_resource": "x.vip"}}]}})
    template["resources"] |= {
        "x.vip": {
            "type": "OS::Neutron::Port",
            "properties": {"network": {"get_resource": "net"}},
            "depends_on": "sub",
        },
        "x.access": {"type": "OS::Neutron::SecurityGroup"},
    }
    await stacks.create(PROJECT, "env", template)
    gone = copy.deepcopy(template)
    del gone["resources"]["x.server"]
    assert [one.key for one in (await refusal(stacks, gone)).losses] == ["machine env-x.server"]
    stacks.compute.fail["delete_server"] = ResourceFailure("no")
    await stacks.update(PROJECT, "env", gone, may_lose=["machine env-x.server"])
    assert [one.key for one in (await refusal(stacks, gone)).losses] == ["machine env-x.server"]


async def test_what_a_removal_would_lose_is_what_the_update_is_refused_for() -> None:
    """Asked before, for each part of a template: machines, balancers, volumes, addresses, groups."""
    stacks = MemoryStacks()
    compute = stacks.compute
    template = balanced()
    resources = template["resources"]
    server = copy.deepcopy(resources["web"])
    server["properties"]["name"] = "many-%index%"
    resources["many"] = {
        "type": "OS::Heat::ResourceGroup",
        "properties": {"count": 2, "resource_def": server},
    }
    resources["many.disk"] = {"type": "OS::Cinder::Volume", "properties": {"size": 1}}
    resources["vip"] = {
        "type": "OS::Neutron::Port",
        "depends_on": "subnet",
        "properties": {"network": {"get_resource": "net"}},
    }
    resources["lost"] = {
        "type": "OS::Cinder::Volume",
        "properties": {"size": 1},
        "deletion_policy": "Retain",
    }
    made = await stacks.create(PROJECT, "env", template)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    compute.calls.clear()
    removed = [["many"], ["many.disk"], ["vip"], ["pool", "lb"], ["lost"], ["no such"],
               ["web", "lb", "vip", "many"], [*resources]]  # fmt: skip
    for names in removed:
        less = copy.deepcopy(template)
        for name in names:
            less["resources"].pop(name, None)
        asked = [one.text for one in await stacks.would_lose(PROJECT, "env", names)]
        if names in (["lost"], ["no such"]):
            assert asked == []
            continue
        assert asked == [one.text for one in (await refusal(stacks, less)).losses]
        assert asked == [x.text for x in await stacks.would_lose_with(PROJECT, "env", less)]
        assert asked
    assert compute.calls == []
    assert await stacks.would_lose(PROJECT, "absent", ["web"]) == []
    assert await stacks.would_lose_with(PROJECT, "absent", template) == []


async def test_a_stack_that_was_changed_since_it_was_judged_is_busy(
    make_stacks: Callable[[], StackEngine], compute: MemoryCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another operation came between: what this one would lose is judged again, not done."""
    first, second = make_stacks(), make_stacks()
    await first.create(PROJECT, "env", changed())
    judge = StackEngine._guard  # pyright: ignore[reportPrivateUsage]

    async def late(self: StackEngine, *arguments: Any) -> None:
        await judge(self, *arguments)
        if self is first:
            await second.update(PROJECT, "env", changed(key_name=None))

    monkeypatch.setattr(StackEngine, "_guard", late)
    with pytest.raises(StackBusy):
        await first.update(PROJECT, "env", changed(), may_lose=[])
    found = await first.get(PROJECT, "env")
    assert found is not None
    assert found.status is StackStatus.UPDATE_COMPLETE


async def test_what_only_turns_out_during_the_operation_is_kept_as_well(
    stacks: StackEngine, compute: MemoryCompute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan did not see it: the machine stays, the operation fails, and says what it needs."""
    port = {"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "network-1"}}}
    template = changed(
        lambda resources: resources.update(other={**port, "depends_on": "subnet-1"}),
        image={"get_attr": ["other", "name"]},
    )
    template["resources"]["other"]["properties"]["name"] = "debian"
    await stacks.create(PROJECT, "env", template)
    server = [*compute.server_list]
    template["resources"]["other"]["properties"]["name"] = "vetro-balancer"

    # The service gives the new name only when the port was changed.
    found = await stacks.plan(PROJECT, "env", template)
    assert not any(one.kind.value == "replace" for one in found.changes)
    error = await refusal(stacks, template)
    assert str(error).startswith("It was stopped before the loss, because this replaces machine")
    assert [*compute.server_list] == server
    assert [one.name for one in await compute.all(PORTS, PROJECT)].count("vetro-balancer") == 1
    done = await stacks.update(PROJECT, "env", template, may_lose=[MACHINE])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


def servers(**of: dict[str, Any]) -> dict[str, Any]:
    """A template with servers in one network; each with its properties."""
    common = {
        "image": "debian",
        "flavor": "m1.tiny",
        "networks": [{"network": {"get_resource": "net"}}],
    }
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "sub": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.9.0/24"},
        },
    }
    for name, given in of.items():
        properties = {**common, **given}
        resources[name] = {
            "type": "OS::Nova::Server",
            "depends_on": "sub",
            "properties": properties,
        }
    return {"heat_template_version": "2015-04-30", "resources": resources}


async def test_what_is_called_after_its_resource_is_told_apart_from_what_was_given_that_name(
    stacks: StackEngine,
) -> None:
    """A machine and a volume without a name, beside others whose given name is the one they get."""
    template = servers(web={}, other={"name": "env-web"})
    for name, given in (("posts", {}), ("copy", {"name": "posts"})):
        volume = {"type": "OS::Cinder::Volume", "properties": {"size": 1, **given}}
        template["resources"][name] = volume
    await stacks.create(PROJECT, "env", template)
    error = await refusal(stacks, servers(), "machine env-web", "volume posts")
    assert [one.key for one in error.losses] == [
        "machine env-web (other)",
        "machine env-web (web)",
        "volume posts (copy)",
        "volume posts (posts)",
    ]


async def test_a_machine_whose_creation_seemed_to_fail_is_named_with_the_reason(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """It runs, so it may have data; nothing in the template has changed."""

    def late(call: str) -> None:
        if call == "create_server":
            raise ResourceFailure("no answer")

    compute.after = late
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    compute.after = lambda _call: None
    (loss,) = (await refusal(stacks, servers(web={"name": "web"}))).losses
    assert loss.text == (
        "replaces machine web, its data is lost: state creation failed → made again"
    )


async def test_a_machine_whose_resource_is_called_otherwise_is_named_with_the_reason(
    stacks: StackEngine,
) -> None:
    """Its own name stays the same."""
    await stacks.create(PROJECT, "env", servers(web={"name": "blog"}))
    (loss,) = (await refusal(stacks, servers(shop={"name": "blog"}))).losses
    assert loss.text == "replaces machine blog, its data is lost: resource web → shop"


async def test_a_gateway_that_is_given_up_is_another_subnet(stacks: StackEngine) -> None:
    """An empty text says there is none; no word says the first address."""
    template = servers()
    await stacks.create(PROJECT, "env", template)
    template["resources"]["sub"]["properties"]["gateway_ip"] = ""
    plan = await stacks.plan(PROJECT, "env", template)
    assert [one.kind.value for one in plan.changes if one.resource == "sub"] == ["replace"]


def test_a_changed_list_says_what_is_not_in_both() -> None:
    """A machine that joins one more network keeps the others; in another order it has all of them."""
    a, b = {"port": "a"}, {"port": "b"}
    told = [
        losing.changed("networks", *lists)
        for lists in (([a], [a, b]), ([a, b], [a]), ([a, b], [b, a]))
    ]
    assert [one.text for one in told] == [
        "network none → b", "network b → none", "network a, b → b, a",
    ]  # fmt: skip
    assert (
        losing.changed("networks", [a], [{"port": "a", "tag": "b"}]).text
        == "network a → port: a, tag: b"
    )
    assert ChangedProperty("password", "***", "***").text == "another password"


async def test_a_range_of_shared_addresses_is_named_when_it_goes_or_becomes_another(
    stacks: StackEngine,
) -> None:
    """As one address; a subnet of machines alone is not."""
    template = servers(web={"name": "web"})
    shared = {"network": {"get_resource": "net"}, "cidr": "10.99.0.0/24", "enable_dhcp": False}
    template["resources"]["AllowedAddressPairsSubnet-ip"] = {
        "type": "OS::Neutron::Subnet",
        "properties": shared,
    }
    await stacks.create(PROJECT, "env", template)
    shared["cidr"] = "10.98.0.0/24"
    (loss,) = (await refusal(stacks, template)).losses
    assert loss.text == "replaces address 10.99.0.0/24: cidr 10.99.0.0/24 → 10.98.0.0/24"
    (loss,) = (await refusal(stacks, servers(web={"name": "web"}))).losses
    assert loss.text == "removes address 10.99.0.0/24"
    done = await stacks.update(
        PROJECT, "env", servers(web={"name": "web"}), may_lose=["address 10.99.0.0/24"]
    )
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
