"""What people take by hand from a stack at Heat comes back (decision 0798).

Heat and Neutron are on paper; tests/openstack/test_by_hand.py asks real ones.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.openstack.stub import serving

from vetro.openstack import PasswordCredential, Session
from vetro.stacks import KnowsAlterations, LossRefused, StackError, StackStatus
from vetro.stacks.heat import HeatSettings, HeatStacks, Patience

from .paper_heat import PaperHeat, servers
from .paper_neutron import PaperNeutron

P = "p"
GROUP = "OS::Neutron::SecurityGroup"


class Bench:
    """Stacks at a Heat and a Neutron on paper."""

    def __init__(self, heat: PaperHeat, session: Session) -> None:
        settings = HeatSettings(patience=Patience(1.0, first_pause=0.01), first_pause=0.001)
        self.heat = heat
        self.neutron = PaperNeutron(heat)
        self.stacks = HeatStacks(session, settings)

    async def create(self, resources: dict[str, Any], **more: Any) -> None:
        """The stack, and nothing noted of how it was made."""
        await self.stacks.create(P, "s", hot(resources), **more)
        self.neutron.see()
        self.heat.changes.clear()

    async def again(self, resources: dict[str, Any], **more: Any) -> list[str]:
        """Deploy and give what was warned of."""
        done = await self.stacks.update(P, "s", hot(resources), **more)
        assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
        self.neutron.see()
        return done.warnings

    async def altered(self) -> list[str]:
        """The resources of which something is missing."""
        assert isinstance(self.stacks, KnowsAlterations)
        return await self.stacks.altered(P, "s")

    def id_of(self, path: str) -> str:
        """The id of a resource."""
        return self.heat.stacks["s"].made[path].id

    def rules(self, path: str) -> list[dict[str, Any]]:
        """The rules of a group, without their ids, in any order."""
        rows = self.neutron.groups[self.id_of(path)]
        plain = [{k: v for k, v in one.items() if k != "id" and v is not None} for one in rows]
        return sorted(plain, key=repr)


@asynccontextmanager
async def benched() -> AsyncGenerator[Bench]:
    """A Heat without stacks."""
    async with (
        serving() as stub,
        Session(stub.url, PasswordCredential("ann", "pw", "demo")) as session,
    ):
        yield Bench(PaperHeat(stub), session)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """The same as a fixture."""
    async with benched() as one:
        yield one


def hot(resources: dict[str, Any]) -> dict[str, Any]:
    """A template."""
    return {
        "heat_template_version": "2018-08-31",
        "parameters": {"cidr": {"type": "string", "default": "198.51.100.0/24"}},
        "resources": resources,
    }


def of(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource of a type."""
    return {"type": kind, "properties": properties}


def ref(name: str) -> dict[str, Any]:
    """The id of a resource."""
    return {"get_resource": name}


BY_HAND = {
    "id": "by-hand",
    "direction": "ingress",
    "ethertype": "IPv4",
    "protocol": "tcp",
    "port_range_min": 99,
    "port_range_max": 99,
    "remote_ip_prefix": None,
    "remote_group_id": None,
}
RULES = [
    {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80},
    {"protocol": "TCP", "port_range_min": "8080", "port_range_max": "8081"},
    {"protocol": "17", "port_range_min": 53, "port_range_max": 53, "remote_ip_prefix": "0.0.0.0/0"},
    {"protocol": "icmp", "ethertype": "IPv6", "remote_ip_prefix": "::/0"},
    {"protocol": "tcp", "remote_ip_prefix": "192.0.2.7/32"},
    {"protocol": "sctp", "port_range_min": 1, "port_range_max": 65535},
    {"protocol": "icmp", "port_range_min": 8, "port_range_max": 0},
    {"protocol": "tcp", "remote_ip_prefix": {"get_param": "cidr"}},
    {"protocol": "tcp", "remote_ip_prefix": {"get_attr": ["sub", "cidr"]}},
    {"protocol": "tcp", "remote_mode": "remote_group_id"},
    {"protocol": "tcp", "remote_mode": "remote_group_id", "remote_group_id": ref("other")},
    {"protocol": "udp", "remote_group_id": "nobody-looks-at-it"},
]
AWS = [
    {"IpProtocol": "tcp", "FromPort": "80", "ToPort": "80", "CidrIp": "0.0.0.0/0"},
    {"IpProtocol": "icmp", "FromPort": "-1", "ToPort": "-1", "CidrIp": "192.0.2.0/24"},
    {"IpProtocol": "udp", "CidrIp": "192.0.2.0/24"},
]
KINDS = {
    "neutron": of(GROUP, rules=RULES),
    "without rules": of(GROUP),
    "egress": of(GROUP, rules=[{"direction": "egress", "protocol": "udp"}, *RULES[:1]]),
    "aws": of("AWS::EC2::SecurityGroup", GroupDescription="d", SecurityGroupIngress=AWS),
    "nested": of("OS::Heat::ResourceGroup", count=1, resource_def=of(GROUP, rules=RULES[:3])),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_rule_that_was_removed_by_hand_is_put_back(bench: Bench, kind: str) -> None:
    """Once, by an update with the same template, which Heat is not asked for; a rule added by hand stays."""
    resources = {
        "group": KINDS[kind],
        "other": of(GROUP),
        "sub": of("OS::Neutron::Subnet", cidr="10.0.0.0/24"),
    }
    path = "group.0" if kind == "nested" else "group"
    await bench.create(resources)
    rows = bench.neutron.groups[bench.id_of(path)]
    rows.append(BY_HAND)
    whole = bench.rules(path)
    assert await bench.altered() == []
    for number in range(len(rows) - 1):
        gone = rows.pop(number)
        assert await bench.altered() == [path], gone
        assert await bench.again(resources) == []
        assert sorted(map(_said, bench.rules(path))) == sorted(map(_said, whole)), gone
        rows.insert(number, rows.pop())
    done = len(bench.neutron.changes)
    assert await bench.again(resources) == []
    assert len(bench.neutron.changes) == done == len(rows) - 1
    assert bench.heat.changes == []


def _said(rule: dict[str, Any]) -> str:
    protocol = {"tcp": "tcp", "17": "udp", "icmp": "icmp", "sctp": "sctp"}.get(
        str(rule.get("protocol")).lower()
    )
    prefix = rule.get("remote_ip_prefix")
    ports = [rule.get("port_range_min"), rule.get("port_range_max")]
    numbers = [None if one is None else int(one) for one in ports]
    everything = prefix in ("0.0.0.0/0", "::/0", None)
    return repr([rule["direction"], rule["ethertype"], protocol, numbers,
                 None if everything else prefix, rule.get("remote_group_id")])  # fmt: skip


async def test_a_rule_comes_back_with_a_change_of_something_else(bench: Bench) -> None:
    """Also when the same update gives the group another rule, and when the group leaves nothing comes."""
    resources = {"group": of(GROUP, rules=RULES[:2]), "other": of(GROUP, rules=RULES[:1])}
    await bench.create(resources)
    whole = bench.rules("group")
    bench.neutron.groups[bench.id_of("group")].pop()
    more = {**resources, "net": of("OS::Neutron::Net")}
    assert await bench.again(more) == []
    assert sorted(map(_said, bench.rules("group"))) == sorted(map(_said, whole))
    del bench.neutron.groups[bench.id_of("other")]
    bench.heat.changes.clear()
    assert await bench.again({"group": resources["group"]}) == []
    assert [one for one in bench.heat.changes if one.startswith("mark")] == []


async def test_what_the_cloud_gives_new_groups_is_the_clouds(bench: Bench) -> None:
    """Where Neutron says which rules new groups have, no other rule for what goes out is made."""
    resources = {"group": of(GROUP, rules=RULES[:1])}
    await bench.create(resources)
    rows = bench.neutron.groups[bench.id_of("group")]
    rows[:] = [one for one in rows if one["direction"] == "ingress"]
    bench.neutron.defaults = [
        {"direction": "egress", "ethertype": "IPv4", "protocol": "tcp", "used_in_non_default_sg": True},
        {"direction": "egress", "ethertype": "IPv6", "used_in_non_default_sg": False},
    ]  # fmt: skip
    assert await bench.again(resources) == []
    egress = [one for one in bench.rules("group") if one["direction"] == "egress"]
    assert egress == [{"direction": "egress", "ethertype": "IPv4", "protocol": "tcp"}]
    assert await bench.altered() == []


def machine(**properties: Any) -> dict[str, Any]:
    """A machine."""
    return of("OS::Nova::Server", **{"name": "web-1", "image": "i", "flavor": "f", **properties})


PORT = of("OS::Neutron::Port", network="n", security_groups=[ref("group")])
WITH_GROUP = {
    "group": of(GROUP, name="g", rules=RULES[:1]),
    "port": PORT,
    "web": machine(networks=[{"port": ref("port")}]),
    "inner": of("OS::Heat::ResourceGroup", count=1, resource_def=of(GROUP, rules=RULES[:1])),
    "single": of("OS::Neutron::SecurityGroupRule", security_group=ref("group"), protocol="tcp"),
    "outside": of("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port")),
}


@pytest.mark.parametrize("guard", [None, []])
@pytest.mark.parametrize("path", ["group", "inner.0", "single", "outside"])
async def test_what_was_removed_by_hand_is_made_again(bench: Bench, path: str, guard: Any) -> None:
    """With the same template; machines and everything else are the same, and then nothing is done."""
    await bench.create(WITH_GROUP)
    before = {one: made.id for one, made in bench.heat.stacks["s"].made.items()}
    id_ = bench.id_of(path)
    for there in (bench.neutron.groups, bench.neutron.floating):
        there.pop(id_, None)
    bench.neutron.single_rules.discard(id_)
    assert await bench.altered() == [path]
    assert await bench.again(WITH_GROUP, may_lose=guard) == []
    after = {one: made.id for one, made in bench.heat.stacks["s"].made.items()}
    others = {"single"} if path == "group" else set[str]()
    assert {one for one in before if after[one] != before[one]} == {path} | others
    assert bench.heat.changes[0] == f"mark {path}"
    bench.heat.changes.clear()
    assert await bench.altered() == []
    assert await bench.again(WITH_GROUP, may_lose=guard) == []
    assert bench.heat.changes == []


async def test_a_group_whose_making_would_cost_a_machine_is_named(bench: Bench) -> None:
    """Guarded or not: the machine is kept with a warning, until a request lets it go."""
    resources = {"group": WITH_GROUP["group"], "web": machine(security_groups=[ref("group")])}
    await bench.create(resources)
    before = dict(servers(bench.heat.stacks["s"]))
    del bench.neutron.groups[bench.id_of("group")]
    guards: tuple[list[str] | None, ...] = (None, [])
    for guard in guards:
        (warning,) = await bench.again(resources, may_lose=guard)
        assert "group of the stack s was removed by hand" in warning
        assert (
            "replaces machine web-1, its data is lost: security groups group → depends" in warning
        )
    more = {**resources, "net": of("OS::Neutron::Net")}
    assert len(await bench.again(more, may_lose=[])) == 1
    assert dict(servers(bench.heat.stacks["s"])) == before
    assert not any(one.startswith("mark") for one in bench.heat.changes)
    # What the request itself would lose is refused as ever.
    other = {**more, "web": machine(security_groups=[ref("group")], key_name="k")}
    with pytest.raises(LossRefused):
        await bench.stacks.update(P, "s", hot(other), may_lose=[])
    assert await bench.again(more, may_lose=["machine web-1"]) == []
    assert dict(servers(bench.heat.stacks["s"])) != before


async def test_ways_that_were_taken_away_come_back(bench: Bench) -> None:
    """The port of a floating address, and a router's interface; what leads elsewhere now is left alone."""
    resources = {
        "interface": of("OS::Neutron::RouterInterface", router="r", subnet="u"),
        "port": of("OS::Neutron::Port", network="n"),
        "one": of("OS::Neutron::FloatingIP", floating_network="public", port_id=ref("port")),
        "two": of("OS::Neutron::FloatingIP", floating_network="public"),
        "way": of(
            "OS::Neutron::FloatingIPAssociation", floatingip_id=ref("two"), port_id=ref("port")
        ),
    }
    await bench.create(resources)
    there = dict(bench.neutron.floating), set(bench.neutron.interfaces)
    for id_ in bench.neutron.floating:
        bench.neutron.floating[id_] = None
    bench.neutron.interfaces.clear()
    assert await bench.altered() == ["interface", "one", "way"]
    assert await bench.again(resources) == []
    assert (bench.neutron.floating, bench.neutron.interfaces) == there
    bench.neutron.floating[bench.id_of("one")] = "of somebody"
    assert await bench.altered() == []
    assert bench.heat.changes == []


async def test_a_network_service_that_cannot_be_asked_stops_nothing(bench: Bench) -> None:
    """The look says so; an update is done, with a warning."""
    resources = {"group": of(GROUP, rules=RULES[:1])}
    await bench.create(resources)
    path = "GET /network/v2.0/security-groups"
    answers: list[tuple[int, Any]] = [
        (503, None),
        (403, {"NeutronError": {"message": "not for you"}}),
        (200, []),
    ]
    for answer in answers:
        bench.heat.says(path, answer)
        with pytest.raises(StackError, match="stack s by hand could not be seen"):
            await bench.altered()
        (warning,) = await bench.again(resources)
        assert warning.endswith("Mend that and deploy again")
    more = {**resources, "net": of("OS::Neutron::Net")}
    bench.heat.says(path, (503, None))
    assert len(await bench.again(more)) == 1
    assert "net" in bench.heat.stacks["s"].made


async def test_a_rule_that_neutron_refuses_fails_the_update(bench: Bench) -> None:
    """The failure names the group; what Neutron has already, or has lost, is no failure."""
    resources = {"group": of(GROUP, rules=RULES[:1])}
    await bench.create(resources)
    bench.neutron.groups[bench.id_of("group")].pop()
    for status, text, failed in (
        (409, "Quota exceeded for resources: ['security_group_rule'].", True),
        (403, "not for you", True),
        (409, "Security group rule already exists. Rule id is 1.", False),
        (404, "Security group 1 does not exist", False),
    ):
        bench.neutron.refuses = status, text
        done = await bench.stacks.update(P, "s", hot(resources))
        assert (done.status is StackStatus.UPDATE_FAILED) is failed, text
        if failed:
            assert done.failure is not None
            assert done.failure.resource == "group"
            assert text in done.reason


async def test_a_stack_without_such_things_asks_the_network_service_nothing(bench: Bench) -> None:
    """Nor one that does not exist."""
    assert await bench.altered() == []
    await bench.create({"net": of("OS::Neutron::Net"), "web": machine()})
    assert await bench.again({"net": of("OS::Neutron::Net"), "web": machine()}) == []
    assert await bench.altered() == []
    assert bench.neutron.asked == 0
