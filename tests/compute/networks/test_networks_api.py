"""Networks, ports, addresses over HTTP: whose they are, what is refused, replacing a range."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from tests.compute.conftest import IMAGE, NODE, PROJECT, MakeWorld, World

from vetro.compute.values.records import DISK_KEYS

GIB = 2**30


async def subnet(world: World, cidr: str = "10.9.0.0/24", **more: Any) -> dict[str, Any]:
    """A network with one subnet."""
    network = await world.ok("POST", "/networks", {"name": "n", "project_id": PROJECT})
    body = {"network_uuid": network["uuid"], "cidr": cidr, "project_id": PROJECT, **more}
    return await world.ok("POST", "/subnets", body)


@pytest.mark.parametrize("kind", ["networks", "subnets", "routers", "security-groups", "ports"])
async def test_objects_are_made_once_shown_changed_and_removed(any_world: World, kind: str) -> None:
    """The caller's uuid makes repeating harmless; another project does not see them."""
    world = any_world
    given: dict[str, Any] = {"uuid": str(uuid.uuid4()), "name": "one", "project_id": PROJECT}
    if kind in ("subnets", "ports"):
        made = await subnet(world)
        given |= {"network_uuid": made["network_uuid"], "cidr": "10.10.0.0/24"}
    if kind == "ports":
        del given["cidr"]
    first = await world.ok("POST", f"/{kind}", given)
    assert await world.ok("POST", f"/{kind}", given) == first
    path = f"/{kind}/{given['uuid']}"
    assert await world.ok("GET", path, token="user") == first
    assert first in await world.ok("GET", f"/{kind}?project_id={PROJECT}")
    assert (await world.ok("PUT", path, {"name": "two"}, token="user"))["name"] == "two"
    assert (await world.call("DELETE", path)).status == 204
    assert (await world.call("DELETE", path)).status == 404
    other = await world.ok("POST", "/routers", {"project_id": "another"})
    assert (await world.call("GET", f"/routers/{other['uuid']}", token="user")).status == 404
    refused = await world.refused("POST", "/routers", {"project_id": "another"}, token="user")
    assert refused[:2] == (403, "NotAuthorized")


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        ("networks", {"name": "x" * 300}, "name"),
        ("networks", {"mtu": 1}, "mtu"),
        ("networks", {"uuid": "x"}, "uuid"),
        ("subnets", {}, "network_uuid"),
        ("subnets", {"network_uuid": NODE, "cidr": "10.0.0.0/33"}, "cidr"),
        ("subnets", {"network_uuid": NODE, "cidr": "10.0.0.0/31"}, "cidr"),
        ("subnets", {"network_uuid": NODE, "cidr": "10.0.0.0/24", "gateway": "x"}, "gateway"),
        ("subnets", {"network_uuid": NODE, "cidr": "10.0.0.0/24", "dns": [5]}, "dns[0]"),
        ("ports", {"network_uuid": NODE, "fixed_ips": [5]}, "fixed_ips[0]"),
        ("ports", {"network_uuid": NODE, "fixed_ips": [{"ip": "x"}]}, "fixed_ips[0].ip"),
        ("ports", {"network_uuid": NODE, "security_groups": [None]}, "security_groups[0]"),
        ("security-groups", {"rules": ["x"]}, "rules[0]"),
        ("floating-ips", {"port_uuid": 5}, "port_uuid"),
    ],
)
async def test_bad_values_are_named(
    world: World, kind: str, body: dict[str, Any], field: str
) -> None:
    """500 InvalidParameters with the field."""
    answer = await world.call("POST", f"/{kind}", body)
    assert (answer.status, answer.json()["code"]) == (500, "InvalidParameters")
    assert field in [one["field"] for one in answer.json()["errors"]]


async def test_ports_whose_uuids_begin_alike_have_addresses_of_their_own(any_world: World) -> None:
    """A MAC comes from the uuid's first digits; the second port with these digits gets another."""
    made = await subnet(any_world)
    ports = [
        await any_world.ok(
            "POST",
            "/ports",
            {
                "uuid": f"0badcafe-0000-4000-8000-00000000000{n}",
                "network_uuid": made["network_uuid"],
            },
        )
        for n in range(3)
    ]
    assert ports[0]["mac"].endswith("0b:ad:ca:fe")
    assert len({port["mac"] for port in ports}) == 3


async def test_what_is_in_use_stays(any_world: World) -> None:
    """A network with a subnet, a subnet with a port: 409 names the user."""
    made = await subnet(any_world)
    network = made["network_uuid"]
    await any_world.ok("POST", "/ports", {"network_uuid": network})
    for path in (f"/networks/{network}", f"/subnets/{made['uuid']}"):
        status, code, message = await any_world.refused("DELETE", path)
        assert (status, code) == (409, "Conflict")
        assert "is in use by" in message


async def test_a_range_that_two_choose_at_once_goes_to_one(make_world: MakeWorld) -> None:
    """The error for the second request names the conflicting range."""
    worlds = [await make_world(), await make_world()]
    networks = [await one.ok("POST", "/networks", {"name": "n"}) for one in worlds]
    answers = await asyncio.gather(
        *(
            world.call("POST", "/subnets", {"network_uuid": n["uuid"], "cidr": "10.9.0.0/24"})
            for world, n in zip(worlds, networks, strict=True)
        )
    )
    assert sorted(one.status for one in answers) == [200, 409]
    (lost,) = [one.json() for one in answers if one.status == 409]
    assert (lost["code"], lost["overlaps"]) == ("Conflict", "10.9.0.0/24")
    (won,) = [one.json() for one in answers if one.status == 200]
    assert lost["subnet_uuid"] == won["uuid"]


async def test_a_range_may_be_taken_over_from_a_subnet_that_leaves(any_world: World) -> None:
    """Both exist for a time; a node with instances on both is notified only of the new one."""
    world = any_world
    old = await subnet(world)
    taken = await world.refused(
        "POST", "/subnets", {"network_uuid": old["network_uuid"], "cidr": "10.9.0.0/24"}
    )
    assert taken[0] == 409
    new = await subnet(world, replaces=[old["uuid"]])
    ports = [
        await world.ok("POST", "/ports", {"network_uuid": one["network_uuid"]})
        for one in (old, new)
    ]

    async def told() -> list[str]:
        state = world.nodes.last("network_apply").params
        nics = {one["network_uuid"] for one in state["nics"]}
        named = [one["uuid"] for one in state["networks"]]
        assert nics == set(named)
        return named

    await world.vm(ports=[ports[0]["uuid"]])
    assert await told() == [old["uuid"]]
    await world.vm(ports=[ports[1]["uuid"]])
    assert await told() == [new["uuid"]]


async def test_another_projects_range_is_not_taken_over(world: World) -> None:
    """What leaves must be the project's own."""
    old = await subnet(world)
    network = await world.ok("POST", "/networks", {"name": "n"})
    body = {
        "network_uuid": network["uuid"], "cidr": "10.9.0.0/24", "replaces": [old["uuid"]],
    }  # fmt: skip
    assert (await world.refused("POST", "/subnets", body))[0] == 409


@pytest.mark.parametrize("acting", [{}, {"X-Acting-Project": PROJECT}])
async def test_a_subnet_may_replace_one_that_was_never_created(
    world: World, acting: dict[str, str]
) -> None:
    """A stack whose first choice of a range was refused names that subnet as leaving."""
    network = (await subnet(world))["network_uuid"]
    body = {"network_uuid": network, "cidr": "10.9.1.0/24", "replaces": [str(uuid.uuid4())]}
    answer = await world.call("POST", "/subnets", body, headers=acting)
    assert answer.status == 200, answer.json()


async def test_a_replacement_that_is_given_up(world: World) -> None:
    """The old subnet is itself again when the new one is removed."""
    old = await subnet(world)
    new = await subnet(world, replaces=[old["uuid"]])
    assert (await world.call("DELETE", f"/subnets/{new['uuid']}")).status == 204
    port = await world.ok("POST", "/ports", {"network_uuid": old["network_uuid"]})
    await world.vm(ports=[port["uuid"]])
    state = world.nodes.last("network_apply").params
    assert [one["uuid"] for one in state["networks"]] == [old["uuid"]]


async def test_floating_addresses_follow_their_port(any_world: World) -> None:
    """The node with the port's instance is notified before the call returns."""
    world = any_world
    made = await subnet(world)
    port = await world.ok("POST", "/ports", {"network_uuid": made["network_uuid"]})
    await world.vm(ports=[port["uuid"]])
    one = await world.ok("POST", "/floating-ips", {"port_uuid": port["uuid"]})
    told = world.nodes.last("network_apply").params["floating_ips"]
    assert told[0]["address"] == one["address"]
    await world.ok("PUT", f"/floating-ips/{one['uuid']}", {"port_uuid": None})
    assert world.nodes.last("network_apply").params["floating_ips"] == []
    assert (await world.call("DELETE", f"/floating-ips/{one['uuid']}")).status == 204


async def test_routers_and_key_pairs(any_world: World) -> None:
    """Interfaces join and part; keys are a project's."""
    world = any_world
    made = await subnet(world)
    router = await world.ok("POST", "/routers", {"external_network": "ext-net"})
    path = f"/routers/{router['uuid']}/interfaces/{made['uuid']}"
    for _ in range(2):
        assert (await world.call("PUT", path)).status == 204
    assert (await world.ok("GET", f"/routers/{router['uuid']}"))["subnets"] == [made["uuid"]]
    assert (await world.call("DELETE", path)).status == 204
    assert (
        await world.call("PUT", "/keypairs/k", {"public_key": "ssh"}, token="user")
    ).status == 200
    assert (await world.ok("GET", "/keypairs/k", token="user"))["public_key"] == "ssh"
    assert (await world.call("GET", "/keypairs/k")).status == 404
    assert (await world.ok("GET", f"/keypairs/k?project_id={PROJECT}"))["name"] == "k"
    assert (await world.call("DELETE", "/keypairs/k", token="user")).status == 204
    assert (await world.call("DELETE", "/keypairs/k", token="user")).status == 404


async def test_images_over_http(any_world: World) -> None:
    """A record, its file with a checksum, a download, names; others' private images are not seen."""
    world = any_world
    made = await world.ok("POST", "/images", {"name": "img", "public": False})
    path = f"/images/{made['uuid']}"
    assert (await world.refused("GET", f"{path}/file"))[0] == 404
    wrong = await world.call("PUT", f"{path}/file?sha256={'0' * 64}", content=b"data")
    assert (wrong.status, wrong.json()["code"]) == (409, "Conflict")
    shown = (await world.call("PUT", f"{path}/file", content=b"data")).json()
    assert (shown["state"], shown["size"]) == ("active", 4)
    assert (await world.call("GET", f"{path}/file")).content == b"data"
    assert (await world.ok("GET", "/images/img"))["uuid"] == made["uuid"]
    assert (await world.call("GET", path, token="user")).status == 404
    node = {"token": "", "headers": world.key_of(NODE)}
    assert (await world.call("GET", f"{path}/file", **node)).content == b"data"
    assert [one["name"] for one in await world.ok("GET", "/images")] == ["img"]
    assert (await world.call("DELETE", path)).status == 204
    assert (await world.call("GET", path)).status == 404


@pytest.mark.parametrize(
    "payload",
    [
        {"alias": "web"},
        {"brand": "kvm", "image_uuid": PROJECT, "disks": [{"image_uuid": IMAGE}, {"size": 1024}]},
        {"disks": [{"size": 1024}, {"image_uuid": IMAGE}]},
    ],
)
async def test_an_image_in_use_is_deleted_only_by_force(any_world: World, payload: Any) -> None:
    """409 names the instances made of it, whichever disk; without them, or by force, it goes."""
    world = any_world
    await world.server()
    vm = await world.vm(**payload)
    status, code, message = await world.refused("DELETE", f"/images/{IMAGE}")
    assert (status, code) == (409, "Conflict")
    assert vm in message
    assert payload.get("alias", "") in message
    assert (await world.call("DELETE", f"/images/{IMAGE}?force=false")).status == 409
    assert (await world.ok("GET", f"/images/{IMAGE}"))["uuid"] == IMAGE
    made = await world.ok("POST", "/images", {"name": "debian"})
    assert (await world.call("DELETE", f"/images/{made['uuid']}")).status == 204
    assert (await world.call("DELETE", f"/images/{IMAGE}?force=true")).status == 204
    assert (await world.call("GET", f"/images/{IMAGE}")).status == 404


async def test_a_network_on_the_wire_is_where_its_tag_is(any_world: World) -> None:
    """An uplink is an operator's to make, reaches the node, and only servers with the tag are chosen."""
    world = any_world
    uplink = {"nic_tag": "office", "vlan_id": 12}
    refused = await world.refused("POST", "/networks", {"uplink": uplink}, token="user")
    assert refused[:2] == (403, "NotAuthorized")
    for wrong in ("office", {"vlan_id": 1}, {"nic_tag": "a b"}, {"nic_tag": "a", "vlan_id": 5000}):
        answer = await world.call("POST", "/networks", {"uplink": wrong})
        assert [one["field"] for one in answer.json()["errors"]] == ["uplink"]
    plain = await world.ok("POST", "/networks", {"name": "fabric"})
    assert (plain["mtu"], plain["uplink"]) == (1450, None)
    made = await world.ok("POST", "/networks", {"name": "office", "uplink": uplink})
    assert (made["mtu"], made["uplink"]) == (1500, uplink)
    body = {"network_uuid": made["uuid"], "cidr": "10.77.0.0/24"}
    await world.ok("POST", "/subnets", body)
    port = await world.ok("POST", "/ports", {"network_uuid": made["uuid"]})
    asked = {
        "vm": {
            "vm_uuid": str(uuid.uuid4()),
            "ram": 128,
            "quota": 1,
            "owner_uuid": str(uuid.uuid4()),
            "brand": "lx",
        },
        "image": {"type": "lxd"},
        "package": {"max_physical_memory": 128},
        "nic_tags": [],
        "ports": [port["uuid"]],
    }
    await world.server(NODE)
    sample = {
        "vms": {},
        "diskinfo": dict.fromkeys(DISK_KEYS, 0) | {"pool_size_bytes": 100 * GIB},
        "meminfo": {"availrmem_bytes": GIB, "arcsize_bytes": 0, "total_bytes": 8 * GIB},
        "timestamp": "2026-01-01T00:00:00.000Z",
    }
    await world.ok("POST", f"/servers/{NODE}/events/status", sample)
    none = await world.call("POST", "/allocate", asked)
    assert none.status == 409, none.text
    assert "office" in none.text
    assert (await world.call("POST", "/allocate", {**asked, "ports": ["x"]})).status == 500
    vm = await world.vm(NODE, ports=[port["uuid"]])
    assert world.nodes.vms[vm]["nics"][0]["nic_tag"] == "office"
    state = world.nodes.last("network_apply").params
    assert [one["uplink"] for one in state["networks"]] == [uplink]


async def test_parents_of_other_projects_are_not_there(any_world: World) -> None:
    """Everything that a member's call names is his project's; shared networks are read only.

    So is what an operator names who acts for a project, as the engine does for its packages.
    """
    world = any_world
    theirs = {"project_id": "another"}
    network = (await world.ok("POST", "/networks", theirs))["uuid"]
    subnet_ = await world.ok(
        "POST", "/subnets", {**theirs, "network_uuid": network, "cidr": "10.70.0.0/24"}
    )
    port = (await world.ok("POST", "/ports", {**theirs, "network_uuid": network}))["uuid"]
    group = (await world.ok("POST", "/security-groups", theirs))["uuid"]
    router = (await world.ok("POST", "/routers", theirs))["uuid"]
    image = (await world.ok("POST", "/images", {"name": "secret", "public": False}))["uuid"]
    shared = next(one for one in await world.ok("GET", "/networks") if one["external"])["uuid"]
    before = await rows_of(world)
    acting = {"headers": {"X-Acting-Project": PROJECT}}
    for caller in ({"token": "user"}, acting):
        mine = await subnet(world, cidr=f"10.7{1 + len(caller)}.{len(str(caller))}.0/24")
        own_port = await world.ok(
            "POST", "/ports", {"network_uuid": mine["network_uuid"]}, **caller
        )
        own_router = await world.ok("POST", "/routers", {}, **caller)
        own_group = await world.ok("POST", "/security-groups", {}, **caller)
        floating = await world.ok("POST", "/floating-ips", {}, **caller)
        rules = [{"remote_group_id": group}]
        for status, method, path, body in (
            (404, "POST", "/subnets", {"network_uuid": network, "cidr": "10.80.0.0/24"}),
            (403, "POST", "/subnets", {"network_uuid": shared, "cidr": "10.80.0.0/24"}),
            (404, "POST", "/subnets", {"network_uuid": mine["network_uuid"],
                                       "cidr": "10.70.0.0/24", "replaces": [subnet_["uuid"]]}),
            (404, "POST", "/ports", {"network_uuid": network}),
            (403, "POST", "/ports", {"network_uuid": shared}),
            (404, "POST", "/ports", {"network_uuid": mine["network_uuid"],
                                     "security_groups": [group]}),
            (404, "PUT", f"/ports/{own_port['uuid']}", {"security_groups": [group]}),
            (404, "POST", "/security-groups", {"rules": rules}),
            (404, "PUT", f"/security-groups/{own_group['uuid']}", {"rules": rules}),
            (404, "POST", "/floating-ips", {"port_uuid": port}),
            (404, "PUT", f"/floating-ips/{floating['uuid']}", {"port_uuid": port}),
            (404, "POST", "/routers", {"external_network": network}),
            (404, "PUT", f"/routers/{own_router['uuid']}", {"external_network": network}),
            (404, "PUT", f"/routers/{own_router['uuid']}/interfaces/{subnet_['uuid']}", None),
            (404, "PUT", f"/routers/{router}/interfaces/{mine['uuid']}", None),
            (404, "DELETE", f"/routers/{router}/interfaces/{subnet_['uuid']}", None),
            (403, "PUT", f"/networks/{shared}", {"name": "mine"}),
            (403, "DELETE", f"/networks/{shared}", None),
            (404, "DELETE", f"/networks/{network}", None),
            (409, "POST", "/networks", {"uuid": network}),
            (409, "POST", "/ports", {"uuid": port, "network_uuid": mine["network_uuid"]}),
            (404, "GET", f"/images/{image}", None),
        ):  # fmt: skip
            refused = await world.refused(method, path, body, **caller)
            assert refused[0] == status, (caller, method, path, body, refused)
        taken = await world.call(
            "POST", "/subnets",
            {"network_uuid": mine["network_uuid"], "cidr": "10.70.0.0/24"}, **caller,
        )  # fmt: skip
        assert (taken.status, taken.json()["overlaps"]) == (409, "10.70.0.0/24")
        assert network not in taken.text
        assert subnet_["uuid"] not in taken.text
        for kind, one in (("floating-ips", floating), ("security-groups", own_group),
                          ("routers", own_router), ("ports", own_port), ("subnets", mine),
                          ("networks", {"uuid": mine["network_uuid"]})):  # fmt: skip
            assert (await world.call("DELETE", f"/{kind}/{one['uuid']}", **caller)).status == 204
    assert await rows_of(world) == before
    owner = {"headers": {"X-Acting-Project": "another"}}
    for path in (f"/ports/{port}", f"/subnets/{subnet_['uuid']}", f"/networks/{network}"):
        assert (await world.call("DELETE", path, **owner)).status == 204


async def rows_of(world: World) -> dict[str, list[Any]]:
    """Every object of the networks' tables."""
    kinds = ("networks", "subnets", "ports", "routers", "security-groups", "floating-ips")
    return {kind: await world.ok("GET", f"/{kind}") for kind in kinds}


async def test_who_acts_for_a_project_makes_its_vms_only(world: World) -> None:
    """The engine's way does not lead to a port, an owner or a VM of another project either."""
    made = await subnet(world)
    port = (await world.ok("POST", "/ports", {"network_uuid": made["network_uuid"]}))["uuid"]
    image = await world.image()
    acting = {"headers": {"X-Acting-Project": PROJECT}}
    body = {"image_uuid": image, "brand": "lx", "max_physical_memory": 256, "quota": 5}
    path = f"/servers/{NODE}/vms"
    given = {**body, "owner_uuid": PROJECT, "ports": [port]}
    assert (await world.refused("POST", path, given, **acting))[0] == 404
    given = {**body, "owner_uuid": "somebody"}
    assert (await world.refused("POST", path, given, **acting))[0] == 403
    other = await world.vm(owner_uuid="somebody")
    for method, where in (("POST", "/update"), ("DELETE", ""), ("GET", "")):
        for server in (NODE, "default"):
            vm_path = f"/servers/{server}/vms/{other}{where}"
            assert (await world.refused(method, vm_path, **acting))[0] == 404
    mine = await world.ok("POST", path, {**body, "owner_uuid": PROJECT}, **acting)
    assert (await world.ended(mine["id"]))["status"] == "complete"
    # The header gives nothing to a user.
    refused = await world.call("GET", f"{path}/{other}", token="user", headers={
        "X-Acting-Project": "somebody"})  # fmt: skip
    assert refused.status == 404
