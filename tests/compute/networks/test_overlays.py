"""Networks with instances on several nodes: what each node is told of the others, and when."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select
from tests.compute.conftest import IMAGE, NODE, OTHER
from tests.waiting import eventually

from vetro.compute.networks.overlays import Span
from vetro.compute.networks.reconciler import NetworkReconciler
from vetro.compute.tables import spans_told
from vetro.compute.work.agents import NodeTaskError

THIRD = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a003"


class Fabric:
    """A network on some servers, each with an address of its own."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.subnet, self.group, self.network = (str(uuid4()) for _ in range(3))

    async def open(self) -> Fabric:
        for number, server in enumerate((NODE, OTHER, THIRD), 1):
            await self.world.server(server, **{"Admin IP": f"192.0.2.{number}"})
        await self.world.ok(
            "POST", "/networks", {"uuid": self.network, "name": "blue", "mtu": 1450}
        )
        await self.world.ok(
            "POST", "/subnets",
            {"uuid": self.subnet, "network_uuid": self.network, "cidr": "10.9.0.0/24"},
        )  # fmt: skip
        known = self.world.service.networks._has
        await eventually(lambda: all(known.get(server) for server in (NODE, OTHER, THIRD)))
        rule = {"direction": "ingress", "remote_mode": "remote_group_id"}
        await self.world.ok("POST", "/security-groups", {"uuid": self.group, "rules": [rule]})
        return self

    async def place(self, server: str, ip: str, *groups: str) -> str:
        """A VM with this address on a server."""
        vm: str = await self.world.vm(server, ports=[await self.port(ip, *groups)])
        return vm

    async def port(self, ip: str, *groups: str) -> str:
        """A port with this address."""
        port = str(uuid4())
        await self.world.ok(
            "POST", "/ports",
            {"uuid": port, "network_uuid": self.network, "fixed_ips": [{"ip": ip}],
             "security_groups": list(groups)},
        )  # fmt: skip
        return port

    def told(self, server: str) -> dict[str, Any]:
        """What a server was told last."""
        nodes = self.world.nodes
        return next(
            call.params
            for call, agent in reversed(list(zip(nodes.calls, nodes.agents, strict=True)))
            if call.task == "network_apply" and agent.server_uuid == server
        )

    async def until(self, server: str, **wanted: Any) -> dict[str, Any]:
        """Wait until a server knows this of the network, or has no network for no ``wanted``."""

        def network() -> list[dict[str, Any]]:
            found = next(iter(self.told(server)["networks"]), {})
            return [found] if all(found.get(name) == wanted[name] for name in wanted) else []

        return (await eventually(network))[0]


@pytest.fixture
async def fabric(any_world: Any) -> Fabric:
    """A network and three servers."""
    return await Fabric(any_world).open()


async def test_a_network_on_one_node_is_no_fabric(fabric: Fabric) -> None:
    """It has no number and no other nodes; its interfaces have its MTU."""
    vm = await fabric.place(NODE, "10.9.0.5")
    [network] = fabric.told(NODE)["networks"]
    assert {"vni", "remotes"} & set(network) == set()
    assert fabric.world.nodes.vms[vm]["nics"][0]["mtu"] == 1450


async def test_a_node_is_not_told_what_it_has(fabric: Fabric) -> None:
    """A VM without an interface changes nothing; a registering node is always notified."""

    def count() -> int:
        nodes = fabric.world.nodes
        return sum(
            call.task == "network_apply" and agent.server_uuid == NODE
            for call, agent in zip(nodes.calls, nodes.agents, strict=True)
        )

    await fabric.place(NODE, "10.9.0.5")
    networks = fabric.world.service.networks
    await networks.apply(NODE)
    before = count()
    await networks.apply(NODE)
    await fabric.world.vm(NODE)
    assert count() == before
    await networks.apply(NODE, renew=True)
    assert count() == before + 1
    # Another service has told it something in between.
    other = NetworkReconciler(
        fabric.world.database, fabric.world.service.fabric, fabric.world.service.servers,
        fabric.world.service.work,
    )  # fmt: skip
    await other.apply(NODE)
    await networks.apply(NODE)
    assert count() == before + 3


async def test_nodes_of_a_fabric_hear_of_each_other(fabric: Fabric) -> None:
    """The second node is notified of the first before its VM is made, the first at once after."""
    await fabric.place(NODE, "10.9.0.5")
    await fabric.place(OTHER, "10.9.0.6")
    first = await fabric.until(NODE, remotes=["192.0.2.2"])
    second = await fabric.until(OTHER, remotes=["192.0.2.1"])
    assert first["vni"] == second["vni"] > 0
    at_second = [
        call
        for call, agent in zip(fabric.world.nodes.calls, fabric.world.nodes.agents, strict=True)
        if agent.server_uuid == OTHER
    ]
    made = [call.task for call in at_second].index("machine_create")
    assert any(
        network.get("remotes") == ["192.0.2.1"]
        for call in at_second[:made]
        for network in call.params.get("networks", [])
    )
    await fabric.place(THIRD, "10.9.0.7")
    for server, remotes in (
        (NODE, ["192.0.2.2", "192.0.2.3"]),
        (OTHER, ["192.0.2.1", "192.0.2.3"]),
        (THIRD, ["192.0.2.1", "192.0.2.2"]),
    ):
        assert (await fabric.until(server, remotes=remotes))["vni"] == first["vni"]


async def test_a_node_that_leaves_is_forgotten_by_the_others(fabric: Fabric) -> None:
    """With its last VM; a fabric of one node is none, and gets its number again later."""
    await fabric.place(NODE, "10.9.0.5")
    vm = await fabric.place(OTHER, "10.9.0.6")
    number = (await fabric.until(NODE, remotes=["192.0.2.2"]))["vni"]
    task = await fabric.world.ok("DELETE", f"/servers/{OTHER}/vms/{vm}")
    assert (await fabric.world.ended(task["id"]))["status"] == "complete"
    assert "vni" not in await fabric.until(NODE, remotes=None)
    await fabric.place(THIRD, "10.9.0.7")
    assert (await fabric.until(NODE, remotes=["192.0.2.3"]))["vni"] == number


async def test_a_node_with_a_new_address_is_followed(fabric: Fabric) -> None:
    """The others hear it when it registers."""
    await fabric.place(NODE, "10.9.0.5")
    await fabric.place(OTHER, "10.9.0.6")
    await fabric.until(NODE, remotes=["192.0.2.2"])
    await fabric.world.server(OTHER, **{"Admin IP": "192.0.2.77"})
    await fabric.until(NODE, remotes=["192.0.2.77"])


async def test_groups_know_their_members_elsewhere(fabric: Fabric) -> None:
    """Those in networks both nodes have, as they come and go."""

    async def members(server: str, wanted: list[str]) -> None:
        await eventually(lambda: fabric.told(server)["security_groups"][0].get("members") == wanted)

    await fabric.place(NODE, "10.9.0.5", fabric.group)
    vm = await fabric.place(OTHER, "10.9.0.6", fabric.group)
    await members(NODE, ["10.9.0.6"])
    await members(OTHER, ["10.9.0.5"])
    await fabric.place(OTHER, "10.9.0.8", fabric.group)
    await members(NODE, ["10.9.0.6", "10.9.0.8"])
    task = await fabric.world.ok("DELETE", f"/servers/{OTHER}/vms/{vm}")
    await fabric.world.ended(task["id"])
    await members(NODE, ["10.9.0.8"])


def test_only_what_others_see_is_news() -> None:
    """Another instance without a group is none; a member is, but not to a node that is alone."""

    def seen(addresses: dict[str, str], *members: str) -> str:
        span = Span(addresses)
        span.members["g"].update((NODE, ip) for ip in members)
        return span.fingerprint()

    two = {NODE: "192.0.2.1", OTHER: "192.0.2.2"}
    assert seen(two, "10.9.0.5") == seen(dict(reversed(two.items())), "10.9.0.5")
    assert seen(two, "10.9.0.5") != seen(two, "10.9.0.5", "10.9.0.6")
    assert seen(two) != seen({**two, OTHER: "192.0.2.3"})
    one = {NODE: "192.0.2.1"}
    assert seen(one, "10.9.0.5") == seen(one, "10.9.0.5", "10.9.0.6")


async def test_a_node_nobody_reaches_takes_no_part(fabric: Fabric) -> None:
    """The creation fails and says what to do; the first node is not affected."""
    await fabric.place(NODE, "10.9.0.5")
    await fabric.world.server(OTHER, **{"Admin IP": "127.0.0.1"})
    made = await fabric.world.ok(
        "POST", f"/servers/{OTHER}/vms",
        {"image_uuid": IMAGE, "brand": "lx", "owner_uuid": str(uuid4()),
         "max_physical_memory": 256, "ports": [await fabric.port("10.9.0.6")]},
    )  # fmt: skip
    ended = await fabric.world.ended(made["id"])
    assert ended["status"] == "failure"
    assert "node.admin_ip" in str(ended["result"])
    await fabric.place(NODE, "10.9.0.7")
    assert "vni" not in fabric.told(NODE)["networks"][0]


async def test_a_node_that_was_not_told_is_told_again(fabric: Fabric) -> None:
    """A failure is remembered: the next change in the network tells it whatever it knew."""
    await fabric.place(NODE, "10.9.0.5")
    nodes = fabric.world.nodes
    failing = asyncio.Event()

    def answer(call: Any) -> Any:
        if nodes.agents[-1].server_uuid == NODE and not failing.is_set():
            failing.set()
            return NodeTaskError("it has no room")
        return {}

    nodes.answers["network_apply"] = answer
    vm = await fabric.place(OTHER, "10.9.0.6")
    query = select(spans_told.c.server_uuid).where(spans_told.c.fingerprint == "")

    async def only_the_first() -> bool:
        async with fabric.world.database.read() as tx:
            return [row.server_uuid for row in await tx.execute(query)] == [NODE]

    await eventually(only_the_first)
    version = fabric.told(NODE)["version"]
    nodes.answers.clear()
    # Nothing that the first node should know changes with this one.
    await fabric.place(OTHER, "10.9.0.8")
    await eventually(lambda: fabric.told(NODE)["version"] != version)
    assert fabric.told(NODE)["networks"][0]["remotes"] == ["192.0.2.2"]
    assert vm in nodes.vms
