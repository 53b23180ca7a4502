"""Interfaces of a VM that is there: by port, on the service's side (decision 0843)."""

from __future__ import annotations

import asyncio
import functools
import uuid
from typing import Any

import pytest
from tests.compute.conftest import NODE, PROJECT, World

from vetro.compute.wire import MOST_INTERFACES
from vetro.compute.work.agents import NodeTaskError, TaskCall
from vetro.node.errors import DriverError
from vetro.node.vm_objects import updated

LIKE_A_NODE = {"last_modified": "2026-01-01T00:00:00.000Z"}


def applied(world: World, call: TaskCall) -> dict[str, Any]:
    """An update as a node does it, by the node's own rules."""
    old = world.nodes.vms[call.params["uuid"]]
    try:
        new = updated({**LIKE_A_NODE, **old}, call.params)  # type: ignore[typeddict-item]
    except DriverError as error:
        raise NodeTaskError(str(error), {"restCode": error.rest_code}) from error
    world.nodes.vms[call.params["uuid"]] = {**new}
    return {"vm": {**new}}


class Site:
    """A world with a network, ports in it, and a VM with one interface."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.vm = ""
        world.nodes.answers["machine_update"] = functools.partial(applied, world)

    async def network(self, cidr: str, **more: Any) -> str:
        """A network with one range."""
        uplink = more.pop("uplink", None)
        body = {"name": cidr, "project_id": PROJECT, **({"uplink": uplink} if uplink else {})}
        made = await self.world.ok("POST", "/networks", body)
        body = {"network_uuid": made["uuid"], "cidr": cidr, "project_id": PROJECT, **more}
        await self.world.ok("POST", "/subnets", body)
        return str(made["uuid"])

    async def port(self, network: str, project: str = PROJECT) -> dict[str, Any]:
        """A port in a network."""
        body = {"network_uuid": network, "project_id": project}
        return dict(await self.world.ok("POST", "/ports", body))

    async def device(self, port: dict[str, Any]) -> str | None:
        """The VM that has a port."""
        found = await self.world.ok("GET", f"/ports/{port['uuid']}")
        return found["device_uuid"]

    def path(self, vm: str = "") -> str:
        """The path of the VM's interfaces."""
        return f"/servers/{NODE}/vms/{vm or self.vm}/interfaces"

    async def add(self, *ports: dict[str, Any]) -> dict[str, Any]:
        """Give the VM interfaces; the task when it has ended."""
        body = {"ports": [one["uuid"] for one in ports]}
        return await self.world.ended((await self.world.ok("POST", self.path(), body))["id"])

    async def remove(self, mac: str) -> dict[str, Any]:
        """Take an interface from the VM; the task when it has ended."""
        made = await self.world.ok("DELETE", f"{self.path()}/{mac}")
        return await self.world.ended(made["id"])

    def nics(self) -> dict[str, dict[str, Any]]:
        """What the node has, by MAC address."""
        return {nic["mac"]: nic for nic in self.world.nodes.vms[self.vm]["nics"]}

    def told(self) -> set[str]:
        """The MAC addresses in the network state that the node was sent last."""
        state = self.world.nodes.last("network_apply").params
        return {nic["mac"] for nic in state["nics"]}


@pytest.fixture
async def site(any_world: World) -> Site:
    """A VM in one network; two more ports in another one."""
    made = Site(any_world)
    home = await made.port(await made.network("10.9.0.0/24", dns=["10.9.0.2"]))
    made.vm = await any_world.vm(ports=[home["uuid"]], resolvers=["10.9.0.2"])
    return made


async def test_a_port_becomes_an_interface_and_is_free_again(site: Site) -> None:
    """The network is on the node before the interface; both are gone after the removal, the port stays."""
    other = await site.network("10.10.0.0/24", dns=["10.10.0.2", "10.9.0.2"])
    port = await site.port(other)
    sent = site.world.nodes.calls
    sent.clear()
    assert (await site.add(port))["status"] == "complete"
    assert [call.task for call in sent] == ["network_apply", "machine_update"]
    added = site.nics()[port["mac"]]
    assert (added["ip"], added["netmask"], added["interface"]) == (
        port["fixed_ips"][0][1], "255.255.255.0", "net1",
    )  # fmt: skip
    assert not added["primary"]
    assert await site.device(port) == site.vm
    assert site.world.nodes.vms[site.vm]["resolvers"] == ["10.9.0.2", "10.10.0.2"]
    assert "is in use by" in (await site.world.refused("DELETE", f"/ports/{port['uuid']}"))[2]
    assert (await site.remove(port["mac"].upper()))["status"] == "complete"
    assert [call.task for call in sent[2:]] == ["machine_update", "network_apply"]
    assert port["mac"] not in {*site.nics(), *site.told()}
    assert site.world.nodes.vms[site.vm]["resolvers"] == ["10.9.0.2"]
    assert await site.device(port) is None
    assert (await site.world.call("DELETE", f"/ports/{port['uuid']}")).status == 204


async def test_the_last_interface_goes_and_another_is_primary(site: Site) -> None:
    """Without the first one the next is primary; a VM in no network gets a primary one again."""
    (home,) = site.nics()
    port = await site.port(await site.network("10.10.0.0/24"))
    await site.add(port)
    await site.remove(home)
    assert site.nics()[port["mac"]]["primary"]
    await site.remove(port["mac"])
    assert site.nics() == {}
    await site.add(port)
    assert site.nics()[port["mac"]]["primary"]


async def test_a_failed_update_leaves_the_ports_as_they_were(site: Site) -> None:
    """A port that was not brought is free, one that was not taken stays bound; the node is told."""
    (home,) = site.nics()
    port = await site.port(await site.network("10.10.0.0/24"))
    site.world.nodes.answers["machine_update"] = NodeTaskError("no such bridge", {"restCode": "X"})
    ended = await site.add(port)
    assert (ended["status"], ended["result"]["error"]) == ("failure", "no such bridge")
    assert await site.device(port) is None
    assert site.told() == {home}
    assert (await site.remove(home))["status"] == "failure"
    ports = await site.world.ok("GET", f"/ports?project_id={PROJECT}")
    assert {one["mac"]: one["device_uuid"] for one in ports}[home] == site.vm


async def test_networks_that_the_node_refuses_free_the_port(site: Site) -> None:
    """The interface is not asked for, and what was bound for it is free."""
    port = await site.port(await site.network("10.10.0.0/24"))
    site.world.nodes.answers["network_apply"] = NodeTaskError("no tunnel here")
    ended = await site.add(port)
    assert (ended["status"], ended["result"]["error"]) == ("failure", "no tunnel here")
    assert "machine_update" not in site.world.nodes.tasks
    assert await site.device(port) is None


@pytest.mark.parametrize("verb", ["add", "remove"])
async def test_what_a_lost_agent_has_done_counts(site: Site, verb: str) -> None:
    """The answer was lost, the node has done it: the task is complete, and the port as the node has it."""
    port = await site.port(await site.network("10.10.0.0/24"))
    if verb == "remove":
        await site.add(port)

    def done_and_lost(call: TaskCall) -> Any:
        applied(site.world, call)
        return NodeTaskError("the agent closed the connection")

    site.world.nodes.answers["machine_update"] = done_and_lost
    ended = await (site.add(port) if verb == "add" else site.remove(port["mac"]))
    assert ended["status"] == "complete"
    assert await site.device(port) == (site.vm if verb == "add" else None)


async def test_a_port_stays_bound_while_nobody_knows(site: Site) -> None:
    """A node that does not say what the VM has may have given it the interface; asked again, it is added."""
    port = await site.port(await site.network("10.10.0.0/24"))
    answers = site.world.nodes.answers
    update = answers["machine_update"]
    answers["machine_update"] = answers["machine_load"] = NodeTaskError("the agent is lost")
    assert (await site.add(port))["status"] == "failure"
    assert await site.device(port) == site.vm
    answers["machine_update"] = update
    del answers["machine_load"]
    assert (await site.add(port))["status"] == "complete"
    assert port["mac"] in site.nics()


async def test_a_repeated_call_gives_the_same_task(site: Site) -> None:
    """While the task runs its id, afterwards none: nothing is done twice."""
    port = await site.port(await site.network("10.10.0.0/24"))
    gate = asyncio.Event()

    async def slowly(call: TaskCall) -> dict[str, Any]:
        await gate.wait()
        return applied(site.world, call)

    site.world.nodes.answers["machine_update"] = slowly
    body = {"ports": [port["uuid"]]}
    first = [await site.world.ok("POST", site.path(), body) for _ in range(2)]
    assert first[0] == first[1]
    gate.set()
    assert (await site.world.ended(first[0]["id"]))["status"] == "complete"
    again = await site.world.ok("POST", site.path(), body)
    assert again == {"vm_uuid": site.vm, "id": None}
    assert site.world.nodes.tasks.count("machine_update") == 1


async def test_what_cannot_be_an_interface_is_refused_before_a_task(site: Site) -> None:
    """A port of another VM, a network without its wire, an unknown port or MAC, and one too many."""
    world = site.world
    lan = await site.network("10.10.0.0/24")
    theirs = await site.port(lan)
    other = await world.vm(ports=[theirs["uuid"]])
    sent = len(world.nodes.calls)

    async def refused(*ports: str) -> tuple[int, str]:
        status, _, message = await world.refused("POST", site.path(), {"ports": [*ports]})
        return status, message

    assert await refused(theirs["uuid"]) == (409, f"port {theirs['uuid']} is used by VM {other}")
    assert (await refused(str(uuid.uuid4())))[0] == 404
    assert (await refused())[0] == 500
    wire = await site.port(
        await site.network("10.11.0.0/24", uplink={"nic_tag": "lab", "vlan_id": 7})
    )
    status, message = await refused(wire["uuid"])
    assert (status, "NIC tag lab" in message) == (409, True)
    assert await site.device(wire) is None
    many = [(await site.port(lan))["uuid"] for _ in range(MOST_INTERFACES)]
    assert f"at most {MOST_INTERFACES}" in (await refused(*many))[1]
    assert (await world.refused("DELETE", f"{site.path()}/02:00:00:00:00:99"))[0] == 404
    assert (await world.refused("POST", site.path(str(uuid.uuid4())), {"ports": many}))[0] == 404
    assert len(world.nodes.calls) == sent


async def test_who_acts_for_a_project_uses_its_ports(site: Site) -> None:
    """Another project's port is not found; users of a project do not call."""
    port = await site.port(await site.network("10.10.0.0/24"), project="another")
    body = {"ports": [port["uuid"]]}
    acting = {"X-Acting-Project": PROJECT}
    assert (await site.world.refused("POST", site.path(), body, headers=acting))[0] == 404
    assert (await site.world.refused("POST", site.path(), body, token="user"))[0] == 403


async def test_a_vm_that_is_not_made_has_no_interfaces_to_change(site: Site) -> None:
    """Its creation failed: 409, and the port is free."""
    site.world.nodes.answers["machine_create"] = NodeTaskError("no room")
    vm = str(uuid.uuid4())
    payload = {"uuid": vm, "image_uuid": await site.world.image(), "brand": "lx"}
    made = await site.world.ok("POST", f"/servers/{NODE}/vms", {**payload, "owner_uuid": PROJECT})
    await site.world.ended(made["id"])
    port = await site.port(await site.network("10.10.0.0/24"))
    refused = await site.world.refused("POST", site.path(vm), {"ports": [port["uuid"]]})
    assert (refused[0], "is failed" in refused[2]) == (409, True)
    assert await site.device(port) is None
