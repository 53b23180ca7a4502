"""What happens to an object that others refer to when it is deleted: refused, or parted; never dangling."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.compute.conftest import NODE, PROJECT, World

from vetro.compute.http.endpoints import all_endpoints


async def network(world: World) -> dict[str, Any]:
    """A network with one subnet."""
    made = await world.ok("POST", "/networks", {"name": "n", "project_id": PROJECT})
    body = {"network_uuid": made["uuid"], "cidr": "10.9.0.0/24", "project_id": PROJECT}
    subnet = await world.ok("POST", "/subnets", body)
    return {**made, "subnet": subnet["uuid"]}


async def port(world: World, **more: Any) -> dict[str, Any]:
    """A port in a network of its own."""
    made = await network(world)
    body = {"network_uuid": made["uuid"], "project_id": PROJECT, **more}
    return {**await world.ok("POST", "/ports", body), "subnet": made["subnet"]}


async def subnet_of_network(world: World) -> tuple[str, str]:
    made = await network(world)
    return f"/networks/{made['uuid']}", f"subnet {made['subnet']}"


async def port_of_network(world: World) -> tuple[str, str]:
    made = await port(world)
    return f"/networks/{made['network_uuid']}", f"port {made['uuid']}"


async def router_to_network(world: World) -> tuple[str, str]:
    (outside,) = [one for one in await world.ok("GET", "/networks") if one["external"]]
    router = await world.ok("POST", "/routers", {"external_network": outside["uuid"]})
    return f"/networks/{outside['uuid']}", f"router {router['uuid']}"


async def address_of_network(world: World) -> tuple[str, str]:
    made = await world.ok("POST", "/floating-ips", {})
    return f"/networks/{made['network_uuid']}", f"floating address {made['address']}"


async def port_of_subnet(world: World) -> tuple[str, str]:
    made = await port(world)
    return f"/subnets/{made['subnet']}", f"port {made['uuid']}"


async def joined(world: World) -> tuple[str, str]:
    made = await network(world)
    router = await world.ok("POST", "/routers", {})
    path = f"/routers/{router['uuid']}/interfaces/{made['subnet']}"
    assert (await world.call("PUT", path)).status == 204
    return made["subnet"], router["uuid"]


async def router_of_subnet(world: World) -> tuple[str, str]:
    subnet, router = await joined(world)
    return f"/subnets/{subnet}", f"router {router}"


async def subnet_of_router(world: World) -> tuple[str, str]:
    subnet, router = await joined(world)
    return f"/routers/{router}", f"subnet {subnet}"


async def vm_of_port(world: World) -> tuple[str, str]:
    made = await port(world)
    machine = await world.vm(ports=[made["uuid"]])
    return f"/ports/{made['uuid']}", f"VM {machine}"


async def port_of_group(world: World) -> tuple[str, str]:
    group = await world.ok("POST", "/security-groups", {"project_id": PROJECT})
    made = await port(world, security_groups=[group["uuid"]])
    return f"/security-groups/{group['uuid']}", f"port {made['uuid']}"


async def rule_of_group(world: World) -> tuple[str, str]:
    group = await world.ok("POST", "/security-groups", {})
    rules = [{"direction": "ingress", "remote_group_id": group["uuid"]}]
    other = await world.ok("POST", "/security-groups", {"rules": rules})
    return f"/security-groups/{group['uuid']}", f"a rule of security group {other['uuid']}"


async def vm_of_image(world: World) -> tuple[str, str]:
    image = await world.image()
    machine = await world.vm()
    return f"/images/{image}", machine


async def snapshot_of_volume(world: World) -> tuple[str, str]:
    volume = await world.ok("POST", "/volumes", {"size": 1, "project_id": PROJECT})
    snapshot = {"uuid": str(uuid.uuid4()), "volume_uuid": volume["uuid"]}
    # Nothing was ever in the volume: the snapshot is there, as one that failed.
    await world.refused("POST", "/volume-snapshots", snapshot)
    return f"/volumes/{volume['uuid']}", snapshot["uuid"]


Refused = Callable[[World], Awaitable[tuple[str, str]]]
REFUSED: list[tuple[str, Refused]] = [
    ("NetworkDelete", subnet_of_network),
    ("NetworkDelete", port_of_network),
    ("NetworkDelete", router_to_network),
    ("NetworkDelete", address_of_network),
    ("SubnetDelete", port_of_subnet),
    ("SubnetDelete", router_of_subnet),
    ("RouterDelete", subnet_of_router),
    ("PortDelete", vm_of_port),
    ("SecurityGroupDelete", port_of_group),
    ("SecurityGroupDelete", rule_of_group),
    ("ImageDelete", vm_of_image),
    ("VolumeDelete", snapshot_of_volume),
]
#: What nothing refers to in a way that it would miss; why is in docs/compute/using.md.
FREE = {
    "FloatingAddressDelete",
    "KeypairDelete",
    "RouterInterfaceRemove",
    # The machine is asked for it; its port is free then, or goes with it.
    "VmInterfaceRemove",
    "ServerDelete",
    # A machine takes its snapshots along; nothing is made of them without copying.
    "VmDestroy",
    "VmSnapshotDestroy",
    "DatasetDestroy",
    # Volumes that were made of them are copies.
    "VolumeSnapshotDelete",
    "VolumeBackupDelete",
    # A turn in a queue: who waited for it is told.
    "ServerWaitlistTicketsDeleteAll",
    "ServerWaitlistDeleteTicket",
}


@pytest.mark.parametrize("build", [one for _, one in REFUSED], ids=lambda one: one.__name__)
async def test_what_is_used_is_not_deleted(any_world: World, build: Refused) -> None:
    """409 says who uses it, and both are still there."""
    path, user = await build(any_world)
    before = await any_world.ok("GET", path)
    status, _, message = await any_world.refused("DELETE", path)
    assert status == 409
    assert user in message
    assert await any_world.ok("GET", path) == before


def test_every_removal_is_decided() -> None:
    """A new DELETE is either refused for what is used, or listed as free with the reason."""
    there = {one.name for one in all_endpoints() if "DELETE" in one.verbs.split()}
    assert there == {name for name, _ in REFUSED} | FREE


async def test_a_removed_port_leaves_its_address(any_world: World) -> None:
    """A floating address whose port is deleted leads nowhere, and can lead to another."""
    made = await port(any_world)
    address = await any_world.ok("POST", "/floating-ips", {"port_uuid": made["uuid"]})
    assert (await any_world.call("DELETE", f"/ports/{made['uuid']}")).status == 204
    left = await any_world.ok("GET", f"/floating-ips/{address['uuid']}")
    assert (left["address"], left["port_uuid"], left["fixed_ip"]) == (
        address["address"],
        None,
        None,
    )


async def test_a_port_whose_machine_was_destroyed_can_be_deleted(any_world: World) -> None:
    """The port is free as soon as the destruction has ended."""
    made = await port(any_world)
    machine = await any_world.vm(ports=[made["uuid"]])
    task = await any_world.ok("DELETE", f"/servers/{NODE}/vms/{machine}")
    await any_world.ended(task["id"])
    assert (await any_world.call("DELETE", f"/ports/{made['uuid']}")).status == 204


async def test_a_group_that_names_itself_can_be_deleted(any_world: World) -> None:
    """Rules for the members of the own group are not another's use of it."""
    own = str(uuid.uuid4())
    rules = [{"direction": "ingress", "remote_group_id": own}]
    await any_world.ok("POST", "/security-groups", {"uuid": own, "rules": rules})
    assert (await any_world.call("DELETE", f"/security-groups/{own}")).status == 204


async def test_a_deleted_server_has_its_machines_when_it_comes_back(any_world: World) -> None:
    """The record goes, as the document has it; machines keep theirs and are the server's again."""
    machine = await any_world.vm()
    assert (await any_world.call("DELETE", f"/servers/{NODE}")).status == 204
    await any_world.server()
    assert machine in [one["uuid"] for one in await any_world.ok("GET", f"/servers/{NODE}/vms")]


async def test_many_users_are_counted(any_world: World) -> None:
    """The message names five, and `users` has all."""
    made = await network(any_world)
    body = {"network_uuid": made["uuid"], "project_id": PROJECT}
    ports = {(await any_world.ok("POST", "/ports", body))["uuid"] for _ in range(7)}
    answer = await any_world.call("DELETE", f"/subnets/{made['subnet']}")
    assert "and 2 more" in answer.json()["message"]
    assert set(answer.json()["users"]) == {f"port {one}" for one in ports}


async def test_a_key_pair_is_what_was_set_first(any_world: World) -> None:
    """Setting it again is harmless; another key under its name is refused, and the first one stays."""
    first = {"name": "k", "project_id": PROJECT, "public_key": "ssh-ed25519 AAAA ann"}
    for _ in range(2):
        body = {"public_key": first["public_key"]}
        assert await any_world.ok("PUT", "/keypairs/k", body, token="user") == first
    other = {"public_key": "ssh-ed25519 BBBB bob"}
    status, code, message = await any_world.refused("PUT", "/keypairs/k", other, token="user")
    assert (status, code) == (409, "Conflict")
    assert "another key" in message
    assert await any_world.ok("GET", "/keypairs/k", token="user") == first
    assert await any_world.ok("GET", "/keypairs", token="user") == [first]
    assert await any_world.ok("GET", "/keypairs?project_id=another") == []
    assert (await any_world.call("DELETE", "/keypairs/k", token="user")).status == 204
    assert (await any_world.ok("PUT", "/keypairs/k", other, token="user"))["public_key"][12] == "B"
