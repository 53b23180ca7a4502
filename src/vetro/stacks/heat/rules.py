"""The rules that a security group of Heat's should have, in Neutron's words, and whether Neutron has them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import cast

from vetro.digits import is_number
from vetro.stacks.model import Json

GROUP = "OS::Neutron::SecurityGroup"
AWS_GROUP = "AWS::EC2::SecurityGroup"
Rule = dict[str, Json]
_EGRESS: list[Rule] = [
    {"direction": "egress", "ethertype": "IPv4"},
    {"direction": "egress", "ethertype": "IPv6"},
]
_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "ipv6-icmp", "icmpv6": "ipv6-icmp"}
_ALL_PORTS = [1, 65535]
"""Neutron keeps them as none."""
_SAID = (
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "description",
)


def wanted_rules(
    type_: str, properties: Mapping[str, Json], own_id: str
) -> tuple[list[Rule], bool]:
    """The rules that a group's properties ask for, as Heat asks Neutron for them; those that are not known
    are left out. And whether some may be of the direction ``egress``: then it has no others of that."""
    if type_ == GROUP:
        rows, all_known = _rows(properties.get("rules"))
        rules = [_neutron(one, own_id) for one in rows]
    else:
        rows, all_known = _rows(properties.get("SecurityGroupIngress"))
        rules = [_of_aws(one, "ingress") for one in rows]
        rows, known = _rows(properties.get("SecurityGroupEgress"))
        rules += [_of_aws(one, "egress") for one in rows]
        all_known = all_known and known
    return rules, not all_known or any(one["direction"] == "egress" for one in rules)


def standard_egress(rows: Iterable[Mapping[str, Json]] | None) -> list[Rule]:
    """The rules that a new group has by itself: everything may go out, unless the cloud says other rules."""
    if rows is None:
        return [dict(one) for one in _EGRESS]
    return [
        {key: one[key] for key in _SAID if one.get(key) not in (None, "")}
        for one in rows
        if one.get("direction") == "egress"
        and one.get("used_in_non_default_sg", True)
        # A rule that refers to a group means each group itself, by a word.
        and not one.get("remote_group_id")
    ]


def is_there(rule: Mapping[str, Json], there: Iterable[Mapping[str, Json]]) -> bool:
    """Whether one of the rules says the same, in whatever spelling."""
    said = _plain(rule)
    return any(_plain(one) == said for one in there)


def _rows(value: Json) -> tuple[list[Rule], bool]:
    """The rules of a list, and whether all are known."""
    if value is None:
        return [], True
    if not isinstance(value, list):
        return [], False
    rows = cast("list[Json]", value)
    known = [cast("Rule", one) for one in rows if isinstance(one, dict)]
    return known, len(known) == len(rows)


def _neutron(given: Rule, own_id: str) -> Rule:
    rule = {key: given[key] for key in _SAID if given.get(key) not in (None, "")}
    rule.setdefault("direction", "ingress")
    rule.setdefault("ethertype", "IPv4")
    # Heat looks at the mode only.
    if given.get("remote_mode") == "remote_group_id":
        rule.pop("remote_ip_prefix", None)
        rule.setdefault("remote_group_id", own_id)
    else:
        rule.pop("remote_group_id", None)
    return rule


def _of_aws(given: Rule, direction: str) -> Rule:
    low, high = given.get("FromPort"), given.get("ToPort")
    rule: Rule = {
        "direction": direction,
        "ethertype": "IPv4",
        "protocol": given.get("IpProtocol"),
        "port_range_min": _positive(low),
        "port_range_max": _positive(high),
        # Without ports Heat leaves the range out.
        "remote_ip_prefix": None if low is None and high is None else given.get("CidrIp"),
        "remote_group_id": given.get("SourceSecurityGroupId")
        or given.get("SourceSecurityGroupName"),
    }
    return {key: one for key, one in rule.items() if one is not None}


def _positive(port: Json) -> Json:
    return None if port is None or str(port).startswith("-") else int(port)


def _plain(rule: Mapping[str, Json]) -> list[Json]:
    """What a rule says, in one spelling."""
    family = str(rule.get("ethertype") or "IPv4").lower()
    protocol = str(rule.get("protocol") or "").lower()
    protocol = _PROTOCOLS.get(protocol, protocol)
    if protocol == "icmp" and family == "ipv6":
        protocol = "ipv6-icmp"
    given = [rule.get("port_range_min"), rule.get("port_range_max")]
    ports = [int(one) if one is not None and is_number(str(one)) else None for one in given]
    if ports == _ALL_PORTS:
        ports = [None, None]
    return [
        str(rule.get("direction") or "ingress").lower(),
        family,
        "" if protocol in ("any", "-1") else protocol,
        *ports,
        _range(rule.get("remote_ip_prefix")),
        rule.get("remote_group_id") or None,
        # Heat makes none of these: such a rule is another one, which somebody has added.
        rule.get("remote_address_group_id") or None,
    ]


def _range(given: Json) -> str | None:
    """A range of addresses; all of them is none."""
    try:
        found = ipaddress.ip_network(str(given), strict=False)
    except ValueError:
        return str(given) if given else None
    return str(found) if found.prefixlen else None
