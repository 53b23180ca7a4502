"""Values of networks, groups and ports that no node can use are refused before they are stored."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from tests.compute.conftest import NODE, PROJECT, World

from vetro.node.network.ruleset import render
from vetro.node.network.state import parse

HOSTILE: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 10**40, 1e308, 0.5, "", " ", "x", "\0", "a\0b", "x" * 70_000,
    "²", "1e9", "9" * 40, "0.0.0.0/0", "127.0.0.0/8", "10.0.0.0/33", "10.0.0.1/24", "10.0.0.300",
    "::/0", "1.2.3.4\nx", "../..", [], [None], [[]], [{}], ["x"], ["\0"], [5] * 2000, {}, {"": 1},
    {"\0": "\0"}, {"a": {"b": []}}, [{"ip": 5}], [{"nonsense": 1}], NODE, [NODE],
]  # fmt: skip
PARAMETERS = {
    "networks": ("uuid", "name", "project_id", "mtu", "uplink"),
    "subnets": ("uuid", "name", "network_uuid", "cidr", "gateway", "dns", "replaces"),
    "routers": ("uuid", "name", "external_network"),
    "security-groups": ("uuid", "name", "description", "rules"),
    "ports": (
        *("uuid", "name", "network_uuid", "fixed_ips", "security_groups", "port_security"),
        "allowed_addresses",
    ),
    "floating-ips": ("uuid", "network_uuid", "port_uuid"),
}
MEMBERS = (
    *("direction", "ethertype", "protocol", "port_range_min", "port_range_max"),
    *("remote_ip_prefix", "remote_group_id", "remote_mode", "description", "nonsense"),
)


class Wired:
    """A VM on a port with a security group, so that its node is told of every change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.uuids: dict[str, str] = {}

    async def make(self) -> None:
        """One object of each kind."""
        ok = self.world.ok
        owned = {"project_id": PROJECT}
        network = (await ok("POST", "/networks", owned))["uuid"]
        group = (await ok("POST", "/security-groups", owned))["uuid"]
        subnet = {"network_uuid": network, "cidr": "10.9.0.0/24", **owned}
        port = {"network_uuid": network, "security_groups": [group], **owned}
        self.uuids = {
            "networks": network,
            "security-groups": group,
            "subnets": (await ok("POST", "/subnets", subnet))["uuid"],
            "routers": (await ok("POST", "/routers", owned))["uuid"],
            "ports": (await ok("POST", "/ports", port))["uuid"],
            "floating-ips": (await ok("POST", "/floating-ips", owned))["uuid"],
        }
        await self.world.vm(ports=[self.uuids["ports"]])

    async def send(self, method: str, kind: str, body: Any) -> int:
        """The status of a call, whose refusal must say what is wrong, and not be an accident."""
        path = f"/{kind}" if method == "POST" else f"/{kind}/{self.uuids[kind]}"
        answer = await self.world.call(method, path, body)
        said = f"{method} {path} {str(body)[:200]} -> {answer.status} {answer.text[:300]}"
        if answer.status >= 400:
            given = answer.json()
            assert answer.status < 500 or given["code"] == "InvalidParameters", said
            assert given["message"], said
            assert given["code"] != "InvalidParameters" or given["errors"][0]["field"], said
        return answer.status

    def understood(self) -> None:
        """The node reads what it was told last, and makes its packet rules of it."""
        told = self.world.nodes.last("network_apply").params
        assert "table inet" in render(parse(told, "vt"), "vt")


@pytest.fixture
async def wired(world: World) -> Wired:
    """A service whose node carries one of everything."""
    one = Wired(world)
    await one.make()
    return one


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", PARAMETERS)
async def test_no_hostile_value_is_an_accident_or_reaches_a_node(wired: Wired, kind: str) -> None:
    """Each parameter takes every hostile value or names it; the node can use what was taken."""
    good: dict[str, Any] = {"project_id": PROJECT}
    if kind in ("subnets", "ports"):
        good["network_uuid"] = wired.uuids["networks"]
    if kind == "subnets":
        good["cidr"] = "10.10.0.0/24"
    for value in HOSTILE:
        await wired.send("POST", kind, value if isinstance(value, list | dict) else [value])
        for name in PARAMETERS[kind]:
            await wired.send("POST", kind, {**good, "uuid": str(uuid.uuid4()), name: value})
            await wired.send("PUT", kind, {name: value})
    wired.understood()


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("member", MEMBERS)
async def test_no_hostile_rule_is_an_accident_or_reaches_a_node(wired: Wired, member: str) -> None:
    """Each member of a rule takes every hostile value or names it; the node can use what was taken."""
    taken = 0
    beside = itertools.cycle(
        ({}, {"protocol": "tcp", "port_range_max": 80}, {"direction": "egress"})
    )
    for value in (*HOSTILE, *((1, "tcp", "egress") if member != "nonsense" else ())):
        rules = [{**next(beside), member: value}]
        if await wired.send("PUT", "security-groups", {"rules": rules}) == 200:
            taken += 1
            wired.understood()
        else:
            await wired.send("POST", "security-groups", {"rules": rules})
    assert (taken > 0) is (member != "nonsense")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (5, "rules[1]"),
        ({"nonsense": 1}, "rules[1].nonsense"),
        ({"direction": "sideways"}, "rules[1].direction"),
        ({"ethertype": "ipx"}, "rules[1].ethertype"),
        ({"protocol": "gopher"}, "rules[1].protocol"),
        ({"protocol": 256}, "rules[1].protocol"),
        ({"protocol": "tcp", "port_range_min": 70_000}, "rules[1].port_range_min"),
        ({"protocol": "tcp", "port_range_max": "http"}, "rules[1].port_range_max"),
        ({"protocol": "udp", "port_range_min": 9, "port_range_max": 8}, "rules[1].port_range_min"),
        ({"port_range_min": 22}, "rules[1].port_range_min"),
        ({"protocol": "47", "port_range_max": 22}, "rules[1].port_range_max"),
        ({"protocol": "icmp", "port_range_min": 256}, "rules[1].port_range_min"),
        ({"protocol": "icmp", "port_range_max": 3}, "rules[1].port_range_max"),
        ({"remote_ip_prefix": "10.0.0.0/40"}, "rules[1].remote_ip_prefix"),
        ({"remote_ip_prefix": 10}, "rules[1].remote_ip_prefix"),
        ({"remote_group_id": "web"}, "rules[1].remote_group_id"),
        ({"remote_mode": "x"}, "rules[1].remote_mode"),
    ],
)
async def test_a_bad_rule_is_refused_by_its_member(wired: Wired, rule: Any, field: str) -> None:
    """POST and PUT name the rule's number and the member that is wrong; nothing is stored."""
    body = {"rules": [{"protocol": "tcp", "port_range_min": "22"}, rule]}
    path = f"/security-groups/{wired.uuids['security-groups']}"
    for method, where in (("POST", "/security-groups"), ("PUT", path)):
        answer = await wired.world.call(method, where, body)
        assert (answer.status, answer.json()["code"]) == (500, "InvalidParameters")
        assert [one["field"] for one in answer.json()["errors"]] == [field]
    assert (await wired.world.ok("GET", path))["rules"] == []
    assert len(await wired.world.ok("GET", "/security-groups?all_projects=true")) == 1


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("networks", {"nonsense": 1}, 409),
        ("subnets", {"cidr": "10.77.0.0/24"}, 409),
        ("subnets", {"cidr": "10.9.0.0/24", "name": "same"}, 200),
        ("ports", {"mac": "02:00:00:00:00:01"}, 409),
        ("floating-ips", {"address": "1.2.3.4"}, 409),
    ],
)
async def test_what_cannot_change_is_not_dropped(
    wired: Wired, kind: str, body: dict[str, Any], status: int
) -> None:
    """A change of a fixed or unknown member is refused by its name; its present value may be given."""
    answer = await wired.world.call("PUT", f"/{kind}/{wired.uuids[kind]}", body)
    assert answer.status == status
    if status == 409:
        assert f"`{next(iter(body))}`" in answer.json()["message"]


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "127.9.0.0/16", "169.254.0.0/24", "239.0.0.0/24"])
async def test_a_range_of_the_machine_is_no_subnet(wired: Wired, cidr: str) -> None:
    """Loopback, link-local and multicast ranges would take the node's own addresses away."""
    body = {"network_uuid": wired.uuids["networks"], "cidr": cidr}
    assert (await wired.world.call("POST", "/subnets", body)).json()["errors"][0]["field"] == "cidr"


@pytest.mark.parametrize("address", ["10.9.0.0", "10.9.0.255"])
async def test_the_ends_of_a_range_are_no_addresses(wired: Wired, address: str) -> None:
    """The first and the last address of a subnet mean the network and everybody in it."""
    body = {"network_uuid": wired.uuids["networks"], "fixed_ips": [{"ip": address}]}
    assert (await wired.world.refused("POST", "/ports", body))[:2] == (409, "Conflict")
