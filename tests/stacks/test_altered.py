"""What people do by hand to the security groups of a stack."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.compute.wire import Rule
from vetro.stacks import ResourceFailure, StackEngine, StackStatus
from vetro.stacks.memory import MemoryCompute

PROJECT = "p"
NEUTRON = [
    {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80},
    {
        "protocol": "tcp",
        "port_range_min": 443,
        "port_range_max": 443,
        "remote_mode": "remote_group_id",
    },
    {"direction": "egress", "protocol": "udp", "port_range_min": "53", "port_range_max": "53"},
    {"ethertype": "IPv6", "protocol": "icmp", "remote_ip_prefix": "::/0"},
]
AWS = [
    {"IpProtocol": "tcp", "FromPort": "80", "ToPort": "80", "CidrIp": "0.0.0.0/0"},
    {"IpProtocol": "icmp", "FromPort": "-1", "ToPort": "-1"},
]


def template(rules: list[Any]) -> dict[str, Any]:
    """A stack with one group of these rules, and another resource beside it."""
    is_aws = "IpProtocol" in rules[0]
    properties = (
        {"GroupDescription": "d", "SecurityGroupIngress": rules} if is_aws else {"rules": rules}
    )
    type_ = "AWS::EC2::SecurityGroup" if is_aws else "OS::Neutron::SecurityGroup"
    return {
        "heat_template_version": "2013-05-23",
        "resources": {
            "group": {"type": type_, "properties": properties},
            "net": {"type": "OS::Neutron::Net", "properties": {"name": "n"}},
        },
    }


def rules(compute: MemoryCompute) -> list[Rule]:
    """Those of the only group, as the service has them."""
    (group,) = compute.group_list.values()
    return list(group.rules)


def by_hand(compute: MemoryCompute, changed: list[Rule]) -> None:
    """Somebody gives the group other rules."""
    (group,) = compute.group_list.values()
    group.rules = changed


BY_HAND: Rule = {
    "direction": "ingress",
    "ethertype": "IPv4",
    "protocol": "tcp",
    "remote_group_id": None,
    "port_range_min": 99,
    "port_range_max": 99,
    "remote_ip_prefix": "192.0.2.0/24",
}


@pytest.mark.parametrize("given", [NEUTRON, AWS], ids=["neutron", "aws"])
async def test_each_rule_that_was_removed_by_hand_is_put_back(
    stacks: StackEngine, compute: MemoryCompute, given: list[Any]
) -> None:
    """The stack says that something is missing; an update with the same template puts it back, once."""
    await stacks.create(PROJECT, "s", template(given))
    whole = rules(compute)
    for number in range(len(whole)):
        by_hand(compute, [*whole[:number], *whole[number + 1 :], BY_HAND])
        assert await stacks.altered(PROJECT, "s") == ["group"]
        done = await stacks.update(PROJECT, "s", template(given))
        assert done.status is StackStatus.UPDATE_COMPLETE
        assert sorted(map(repr, rules(compute))) == sorted(map(repr, [*whole, BY_HAND]))
        assert await stacks.altered(PROJECT, "s") == []
        compute.calls.clear()
        await stacks.update(PROJECT, "s", template(given))
        assert compute.calls == []


@pytest.mark.parametrize("given", [NEUTRON, AWS], ids=["neutron", "aws"])
async def test_a_change_of_rules_keeps_those_that_were_added_by_hand(
    stacks: StackEngine, compute: MemoryCompute, given: list[Any]
) -> None:
    """Rules of the template come and go with it; after a change that failed only they count."""
    await stacks.create(PROJECT, "s", template(given))
    first = rules(compute)
    by_hand(compute, [*first, BY_HAND])
    await stacks.update(PROJECT, "s", template(given[1:]))
    assert BY_HAND in rules(compute)
    assert first[0] not in rules(compute)
    await stacks.update(PROJECT, "s", template(given))
    assert sorted(map(repr, rules(compute))) == sorted(map(repr, [*first, BY_HAND]))
    compute.fail["update_security_group"] = ResourceFailure("no room")
    failed = await stacks.update(PROJECT, "s", template(given[1:]))
    assert failed.status is StackStatus.UPDATE_FAILED
    del compute.fail["update_security_group"]
    await stacks.update(PROJECT, "s", template(given[:1]))
    assert BY_HAND not in rules(compute)


async def test_a_group_that_cannot_be_restored_fails_the_update(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """The failure names the group, and the next update tries again."""
    await stacks.create(PROJECT, "s", template(NEUTRON))
    whole = rules(compute)
    by_hand(compute, whole[1:])
    compute.fail["update_security_group"] = ResourceFailure("no room")
    failed = await stacks.update(PROJECT, "s", template(NEUTRON))
    assert (failed.status, failed.reason) == (
        StackStatus.UPDATE_FAILED, "Resource 'group' failed: no room",
    )  # fmt: skip
    del compute.fail["update_security_group"]
    await stacks.update(PROJECT, "s", template(NEUTRON))
    assert sorted(map(repr, rules(compute))) == sorted(map(repr, whole))


async def test_a_stack_without_what_people_alter_is_unaltered(stacks: StackEngine) -> None:
    """One that does not exist, too."""
    assert await stacks.altered(PROJECT, "none") == []
    await stacks.create(PROJECT, "s", template(NEUTRON))
    assert await stacks.altered(PROJECT, "s") == []
