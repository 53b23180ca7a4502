"""What templates name: written in other words it is the same, and what is not there costs no machine."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from tests.stacks.conftest import PROJECT
from tests.stacks.test_guard import refusal, rows, servers

from vetro.compute.wire import Image
from vetro.stacks import StackStatus
from vetro.stacks.memory import EXTERNAL_NETWORK, MemoryStacks
from vetro.stacks.resources.base import entries, items

ABSENT_ID = "0d2c2ae8-7ba5-4b2d-9d3f-000000000001"
SPELLINGS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "no hints": ("web", {}, {"scheduler_hints": {}}),
    "no volumes": ("web", {}, {"block_device_mapping_v2": []}),
    "no key pair": ("web", {}, {"key_name": ""}),
    "no addresses": ("port", {"network": "NET"}, {"network": "NET", "fixed_ips": []}),
    "the network by its id": ("port", {"network": "NET"}, {"network_id": "NET"}),
    "the subnet's network by its id": (
        "sub",
        {"network": "NET", "cidr": "10.0.9.0/24", "ip_version": 4},
        {"network_id": "NET", "cidr": "10.0.9.0/24", "ip_version": "4"},
    ),
    "no source": ("disk", {"size": 1}, {"size": "1", "source_volid": "", "snapshot_id": ""}),
    "the external network by its id": (
        "address",
        {"floating_network": "ext-net"},
        {"floating_network_id": "ext-net"},
    ),
    "the network by its name": ("port", {"network": "NET"}, {"network": "shop"}),
    "the subnet's network by its name": (
        "sub",
        {"network_id": "NET", "cidr": "10.0.9.0/24"},
        {"network": "shop", "cidr": "10.0.9.0/24"},
    ),
    "an address that is not asked for any more": (
        "port",
        {"network": "NET", "fixed_ips": [{"subnet": "SUB", "ip_address": "10.0.9.77"}]},
        {"network": "NET", "fixed_ips": [{"subnet_id": "SUB"}]},
    ),
    "the external network by its uuid": (
        "address",
        {"floating_network": "ext-net"},
        {"floating_network": EXTERNAL_NETWORK},
    ),
    "the image by its id": ("web", {"image": "debian"}, {"image": "IMAGE"}),
    "the key pair under another name": ("web", {"key_name": "a"}, {"key_name": "b"}),
    "the server's network by its name": (
        "plain",
        {"networks": [{"network": "NET"}]},
        {"networks": [{"uuid": "shop"}]},
    ),
    "the server's network by its subnet": (
        "plain",
        {"networks": [{"network": "NET", "subnet": "SUB"}]},
        {"networks": [{"subnet": "SUB"}]},
    ),
    "the image of a volume by its id": (
        "disk",
        {"size": 1, "image": "debian"},
        {"size": 1, "image": "IMAGE"},
    ),
    "an EC2 image by its id": (
        "aws",
        {"ImageId": "debian", "KeyName": "a", "SecurityGroups": ["open"]},
        {"ImageId": "IMAGE", "KeyName": "b", "SecurityGroups": ["GROUP"]},
    ),
    "a length as text": ("secret", {"length": 12}, {"length": "12", "salt": ""}),
    "a private key in words": (
        "key",
        {"name": "k", "save_private_key": True},
        {"name": "k", "save_private_key": "true"},
    ),
}


@pytest.mark.parametrize("case", SPELLINGS)
async def test_another_spelling_of_the_same_replaces_nothing(case: str) -> None:
    """As a new version of a package may write it, or a user who takes the id of an image for its name;
    nobody is asked, and values that were made stay."""
    one, old, new = SPELLINGS[case]
    template = servers(
        web={"networks": [{"port": {"get_resource": "port"}}]},
        plain={"networks": [{"network": "NET"}]},
    )
    resources = template["resources"]
    for name, kind, properties in (
        ("port", "OS::Neutron::Port", {"network": "NET"}),
        ("disk", "OS::Cinder::Volume", {"size": 1}),
        ("address", "OS::Neutron::FloatingIP", {"floating_network": "ext-net"}),
        ("secret", "OS::Heat::RandomString", {"length": 12}),
        ("key", "OS::Nova::KeyPair", {"name": "k", "save_private_key": True}),
        ("group", "OS::Neutron::SecurityGroup", {"name": "open"}),
        (
            "aws",
            "AWS::EC2::Instance",
            {"ImageId": "debian", "InstanceType": "m1.tiny", "SubnetId": "SUB"},
        ),
    ):
        resources[name] = {"type": kind, "properties": properties, "depends_on": "sub"}
    resources["aws"]["depends_on"] = ["sub", "group"]
    resources["net"]["properties"] = {"name": "shop"}
    resources["sub"]["properties"]["network"] = "NET"
    stacks = MemoryStacks()
    compute = stacks.compute
    for name in ("a", "b"):
        await compute.create_keypair(name, project_id=PROJECT, public_key="ssh-ed25519 AAAA")
    refs = {"NET": "net", "SUB": "sub", "GROUP": "group"}

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(one) for key, one in entries(value).items()}
        if isinstance(value, list):
            return [filled(one) for one in items(value)]
        if value == "IMAGE":
            return compute.images["debian"].uuid
        return {"get_resource": refs[value]} if value in refs else value

    def spelled(given: dict[str, Any]) -> dict[str, Any]:
        result = copy.deepcopy(template)
        body = result["resources"][one]["properties"]
        for name in (*old, *new):
            body.pop(name, None)
        body |= given
        return filled(result)

    made = await stacks.create(PROJECT, "env", spelled(old))
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    there = [*compute.server_list]
    for given in (new, old):
        plan = await stacks.plan(PROJECT, "env", spelled(given))
        assert [x.kind.value for x in plan.changes if x.resource == "web"] == ["keep"]
        assert "replace" not in [x.kind.value for x in plan.changes]
        done = await stacks.update(PROJECT, "env", spelled(given), may_lose=[])
        assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
        assert [*compute.server_list] == there


async def test_a_port_that_asks_for_the_address_that_it_has_stays() -> None:
    """Another address is another port."""
    template = servers(web={"networks": [{"port": {"get_resource": "port"}}]})
    wish: dict[str, Any] = {"subnet": {"get_resource": "sub"}}
    template["resources"]["port"] = {
        "type": "OS::Neutron::Port",
        "properties": {"network": {"get_resource": "net"}, "fixed_ips": [wish]},
    }
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", template)
    there = [*stacks.compute.server_list]
    ((uuid, port),) = stacks.compute.port_list.items()
    wish["ip_address"] = port.fixed_ips[0][1]
    done = await stacks.update(PROJECT, "env", template, may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert ([*stacks.compute.server_list], [*stacks.compute.port_list]) == (there, [uuid])
    wish["ip_address"] = "10.0.9.99"
    assert [one.key for one in (await refusal(stacks, template)).losses] == ["machine env-web"]


async def built_again() -> tuple[MemoryStacks, Image]:
    """A machine of an image whose name is another one's by now; the image that it was made of."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    images = stacks.compute.images
    first = images.pop("debian")
    images["old"] = msgspec.structs.replace(first, name="old")
    images["debian"] = Image(uuid="0d2c2ae8-7ba5-4b2d-9d3f-5f2b7c1f0a11", name="debian")
    return stacks, first


async def test_the_name_of_an_image_that_was_built_again_is_not_what_its_machine_was_made_of() -> (
    None
):
    """The id of the image that the machine has keeps it; that of the new one is another machine."""
    stacks, first = await built_again()
    images = stacks.compute.images
    kept = await stacks.update(
        PROJECT, "env", servers(web={"name": "web", "image": first.uuid}), may_lose=[]
    )
    assert kept.status is StackStatus.UPDATE_COMPLETE, kept.reason
    wanted = servers(web={"name": "web", "image": images["debian"].uuid})
    assert [one.key for one in (await refusal(stacks, wanted)).losses] == ["machine web"]


async def test_a_machine_of_which_nobody_noted_its_image_is_asked_about() -> None:
    """An earlier release noted none: a newer image under the name must not pass for the one it has."""
    stacks, _ = await built_again()
    for row in stacks.store.stacks.values():
        for one in row.resources:
            one.data.pop("image_uuid", None)
    wanted = servers(web={"name": "web", "image": stacks.compute.images["debian"].uuid})
    assert [one.key for one in (await refusal(stacks, wanted)).losses] == ["machine web"]


ABSENT: dict[str, tuple[dict[str, Any], str]] = {
    "image": ({"image": "absent"}, "There is no image 'absent'"),
    "flavor": ({"image": "vetro-balancer", "flavor": "absent"}, "There is no flavor 'absent'"),
    "key pair": ({"key_name": "absent"}, "There is no key pair 'absent'"),
    "network": ({"networks": [{"network": "absent"}]}, "There is no network 'absent'"),
    "network by id": ({"networks": [{"network": ABSENT_ID}]}, "There is no network"),
    "subnet": ({"networks": [{"subnet": ABSENT_ID}]}, "There is no subnet"),
    "port": ({"networks": [{"port": ABSENT_ID}]}, "There is no port"),
    "security group": (
        {"image": "vetro-balancer", "security_groups": ["absent"]},
        "There is no security group 'absent'",
    ),
    "server group": ({"scheduler_hints": {"group": ABSENT_ID}}, "There is no server group"),
}


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("case", ABSENT)
async def test_an_agreed_replacement_by_what_cannot_be_made_keeps_the_machine(
    case: str, renamed: bool
) -> None:
    """What is not there is looked for first, also for a machine whose resource has another name."""
    given, reason = ABSENT[case]
    stacks = MemoryStacks()
    compute = stacks.compute
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    there, before = [*compute.server_list], rows(stacks)
    wanted = servers(**{"web2" if renamed else "web": {"name": "web", **given}})
    compute.calls.clear()
    failed = await stacks.update(PROJECT, "env", wanted, may_lose=["machine web"])
    assert failed.status is StackStatus.UPDATE_FAILED
    assert reason in failed.reason
    assert ([*compute.server_list], compute.calls) == (there, [])
    done = await stacks.update(PROJECT, "env", servers(web={"name": "web"}), may_lose=[])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert [*compute.server_list] == there
    assert [one.resources for one in rows(stacks).values()] == [
        one.resources for one in before.values()
    ]


async def test_a_renamed_machine_stays_when_the_port_of_its_successor_cannot_be_made() -> None:
    """Its port is another resource of the template, which is looked at as well."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    there = [*stacks.compute.server_list]
    wanted = servers(shop={"networks": [{"port": {"get_resource": "port"}}]})
    wanted["resources"]["port"] = {
        "type": "OS::Neutron::Port",
        "properties": {"network": "absent"},
    }
    failed = await stacks.update(PROJECT, "env", wanted, may_lose=["machine web"])
    assert "There is no network 'absent'" in failed.reason
    assert [*stacks.compute.server_list] == there


async def test_what_a_template_makes_itself_is_not_looked_for_before() -> None:
    """Machines may name by its name what the same template makes for them."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    key = {"type": "OS::Nova::KeyPair", "properties": {"name": "k", "save_private_key": True}}
    wanted = servers(web={"name": "web", "key_name": "k"})
    wanted["resources"]["key"] = key
    wanted["resources"]["web"]["depends_on"] = ["sub", "key"]
    done = await stacks.update(PROJECT, "env", wanted, may_lose=["machine web"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_words_in_free_maps_are_not_looked_for() -> None:
    """Metadata says what people want it to, also under words for what a machine is made of."""
    stacks = MemoryStacks()
    await stacks.create(PROJECT, "env", servers(web={"name": "web"}))
    free = {"image": "blue", "flavor": "sweet", "network": "prod"}
    wanted = servers(web={"name": "web2", "metadata": free, "scheduler_hints": {"image": "blue"}})
    done = await stacks.update(PROJECT, "env", wanted, may_lose=["machine web"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
