"""Rules for the parameters of networks: ranges, addresses, rules of security groups.

A node is given the whole state of its networks at once and refuses all of it for one value that it
cannot use, so such a value must not be stored. The rules are those of the node
(`vetro.node.network.state`), in the words of a caller: an error names the member
(``rules[2].port_range_min``).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import cast

from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import Json, Record
from vetro.http.parameters import ARRAY, OBJECT, STRING, FieldError, Param, Problem, Rule

#: The longest list that a parameter takes: each element becomes a line in the rules of every node.
LONGEST_LIST = 1000
#: Ranges that a node itself, or the protocol, uses for something else.
RESERVED = tuple(
    ipaddress.ip_network(one)
    for one in (
        "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3",
        # IPv6: loopback and addresses that stand for IPv4's, translated, local to a wire, multicast.
        "::/8", "64:ff9b::/96", "fe80::/10", "ff00::/8",
    )
)  # fmt: skip
_TRANSPORTS = {"tcp": 6, "udp": 17, "sctp": 132}
_ICMP = {"icmp": 1, "icmpv6": 58, "ipv6-icmp": 58}
_EVERY = ("", "any", "none", "-1")


def text_of(limit: int, *, none: bool = False) -> Rule:
    """A text that a column of this length takes."""

    def check(name: str, value: Json) -> list[Problem]:
        if value is None and none:
            return []
        errors = list(STRING.check(name, value))
        if not errors and "\0" in str(value):
            return ["value has a NUL character"]
        if not errors and len(str(value)) > limit:
            return [f"value is longer than {limit} characters"]
        return errors

    return Rule("text", check, {"type": "string", "maxLength": limit})


def _uuid(_name: str, value: Json) -> list[Problem]:
    good = value is None or (isinstance(value, str) and UUID.match(value))
    return [] if good else ["value was not a uuid"]


def _address(_name: str, value: Json) -> list[Problem]:
    try:
        found = ipaddress.ip_address(value if isinstance(value, str) else "")
    except ValueError as error:
        return [] if value is None else [f"value was not an IP address: {error}"]
    return ["value was an address of one interface (%)"] if "%" in str(found) else []


def _resolver(_name: str, value: Json) -> list[Problem]:
    try:
        ipaddress.ip_address(value if isinstance(value, str) else "")
    except ValueError as error:
        return [f"value was not an IP address: {error}"]
    return []


def _range(_name: str, value: Json) -> list[Problem]:
    try:
        network = ipaddress.ip_network(value if isinstance(value, str) else "")
    except ValueError as error:
        return [f"not a network: {error}"]
    if network.num_addresses < 4:
        return ["too small: a network needs at least 4 addresses"]
    taken = next((one for one in RESERVED if _overlap(one, network)), None)
    return [f"{taken} is reserved: choose a range outside of it"] if taken else []


def _overlap(
    one: ipaddress.IPv4Network | ipaddress.IPv6Network,
    other: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> bool:
    return one.version == other.version and one.overlaps(other)


def _prefix(_name: str, value: Json) -> list[Problem]:
    """A range or address; bits below the mask are ignored, as nodes do."""
    try:
        found = ipaddress.ip_network(value if isinstance(value, str) else "", strict=False)
    except ValueError as error:
        return [f"value was not an IP address or range: {error}"]
    return ["value was an address of one interface (%)"] if "%" in str(found) else []


def _mtu(_name: str, value: Json) -> list[Problem]:
    good = isinstance(value, int) and not isinstance(value, bool) and 576 <= value <= 65535
    return [] if good or value is None else ["value was not a whole number from 576 to 65535"]


def _uplink(_name: str, value: Json) -> list[Problem]:
    if value is None:
        return []
    given = cast("Record", value) if isinstance(value, dict) else {}
    tag, vlan = given.get("nic_tag"), given.get("vlan_id", 0)
    if not isinstance(tag, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,31}", tag):
        return ["value was not an object with the name of a NIC tag as nic_tag"]
    if not isinstance(vlan, int) or isinstance(vlan, bool) or not 0 <= vlan <= 4094:
        return ["vlan_id was not a whole number from 0 (untagged) to 4094"]
    unknown = sorted(given.keys() - {"nic_tag", "vlan_id"})
    return [f"there is no {unknown[0]!r} in an uplink"] if unknown else []


def each_of(rule: Rule) -> Rule:
    """An array whose elements meet a rule; ``null`` is empty. Errors name the first bad element."""

    def check(name: str, value: Json) -> list[Problem]:
        if value is None:
            return []
        errors = list(ARRAY.check(name, value))
        if errors:
            return errors
        elements = cast("list[object]", value)
        if len(elements) > LONGEST_LIST:
            return [f"value has {len(elements)} elements; at most {LONGEST_LIST}"]
        for number, one in enumerate(elements):
            place = f"{name}[{number}]"
            for problem in rule.check(place, one):
                named = problem if isinstance(problem, FieldError) else FieldError(place, problem)
                return [named]
        return []

    return Rule("array", check, {"type": "array", "items": rule.schema, "maxItems": LONGEST_LIST})


def _members(name: str, value: Json, rules: Mapping[str, Rule]) -> list[Problem]:
    """What is wrong with the members of an object that has no others."""
    errors = list(OBJECT.check(name, value))
    if errors:
        return errors
    given = cast("Record", value)
    unknown = sorted(given.keys() - rules.keys())
    if unknown:
        return [FieldError(f"{name}.{unknown[0][:64]}", f"only {', '.join(rules)} are known")]
    for member, rule in rules.items():
        for problem in rule.check(f"{name}.{member}", given[member]) if member in given else ():
            if isinstance(problem, FieldError):
                return [problem]
            return [FieldError(f"{name}.{member}", problem)]
    return []


def _one_of(*words: str) -> Rule:
    def check(_name: str, value: Json) -> list[Problem]:
        good = value is None or (isinstance(value, str) and value.lower() in words)
        return [] if good else [f"value was not {' or '.join(words)}"]

    return Rule("word", check, {"type": ["string", "null"]})


def _number_of(value: Json) -> int | None:
    """A number or its decimal text; ``None`` for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-1|\d{1,5}", value, re.ASCII):
        return int(value)
    return None


def _port_number(_name: str, value: Json) -> list[Problem]:
    number = _number_of(value)
    good = value in (None, "") or (number is not None and -1 <= number <= 65535)
    return [] if good else ["value was not a whole number from 0 to 65535, or -1 for any"]


def _protocol(_name: str, value: Json) -> list[Problem]:
    if value is None or _protocol_number(value) is not None:
        return []
    return [f"value was not {', '.join((*_TRANSPORTS, *_ICMP))}, any or a number from 0 to 255"]


def _protocol_number(value: Json) -> int | None:
    """A protocol's number, 0 for every protocol; ``None`` for anything else."""
    word = value.lower() if isinstance(value, str) else value
    if word is None or word in _EVERY or word == -1:
        return 0
    if isinstance(word, str) and (number := {**_TRANSPORTS, **_ICMP}.get(word)):
        return number
    given = _number_of(word)
    return given if given is not None and 0 <= given <= 255 else None


def _remote(_name: str, value: Json) -> list[Problem]:
    """A range of either family."""
    if value in (None, ""):
        return []
    try:
        ipaddress.ip_network(value if isinstance(value, str) else "-", strict=False)
    except ValueError as error:
        return [f"value was not an address range: {error}"]
    return []


_RULE = {
    "direction": _one_of("ingress", "egress"),
    "ethertype": _one_of("ipv4", "ipv6"),
    "protocol": Rule("protocol", _protocol, {"type": ["string", "integer", "null"]}),
    "port_range_min": Rule("port", _port_number, {"type": ["integer", "string", "null"]}),
    "port_range_max": Rule("port", _port_number, {"type": ["integer", "string", "null"]}),
    "remote_ip_prefix": Rule("range", _remote, {"type": ["string", "null"]}),
    "remote_group_id": Rule("uuid", _uuid, {"type": ["string", "null"]}),
    "remote_mode": _one_of("remote_ip_prefix", "remote_group_id"),
    "description": text_of(255, none=True),
}


def _rule(name: str, value: Json) -> list[Problem]:
    """A rule of a security group, in Neutron's words."""
    errors = _members(name, value, _RULE)
    return errors or _ports_of_rule(name, cast("Record", value))


def _ports_of_rule(name: str, rule: Record) -> list[Problem]:
    """What is wrong with ports as a pair, and for their protocol."""
    low, high = (
        number if (number := _number_of(rule.get(one))) is not None and number >= 0 else None
        for one in ("port_range_min", "port_range_max")
    )
    if low is None and high is None:
        return []
    field = f"{name}.port_range_{'min' if low is not None else 'max'}"
    protocol = _protocol_number(rule.get("protocol"))
    if protocol in _TRANSPORTS.values():
        if low is not None and high is not None and low > high:
            return [FieldError(field, f"{low} is above port_range_max, {high}")]
        return []
    if protocol in _ICMP.values():
        if low is None:
            return [FieldError(field, "a code of ICMP needs its type, port_range_min")]
        if max(low, high or 0) > 255:
            return [FieldError(field, "types and codes of ICMP are numbers from 0 to 255")]
        return []
    return [FieldError(field, "ports need the protocol tcp, udp or sctp (icmp: type and code)")]


def _wish(name: str, value: Json) -> list[Problem]:
    """One of ``fixed_ips``: ``{subnet_uuid?, ip?}``."""
    return _members(name, value, {"subnet_uuid": AN_UUID, "ip": ADDRESS})


def _wishes(name: str, value: Json) -> list[Problem]:
    if isinstance(value, list) and len(cast("list[object]", value)) > 1:
        return ["a port has one address"]
    return list(each_of(Rule("wish", _wish, {"type": "object"})).check(name, value))


TEXT, LONG = text_of(255), text_of(16_384)
OPTIONAL_TEXT = text_of(255, none=True)
#: The caller's mark on what has no uuid of its own; with it a call leaves alone what has another mark.
MADE_BY = Param("made_by", text_of(64))
AN_UUID = Rule("uuid", _uuid, {"type": "string", "format": "uuid"})
ADDRESS = Rule("address", _address, {"type": "string", "examples": ["10.0.0.1", "fd00::1"]})
RANGE = Rule("range", _range, {"type": "string", "examples": ["10.0.0.0/24"]})
MTU = Rule("mtu", _mtu, {"type": "integer", "minimum": 576, "maximum": 65535})
UPLINK = Rule("uplink", _uplink, {"type": "object", "properties": {"nic_tag": {"type": "string"}}})
UUIDS = each_of(
    Rule("uuid", lambda name, value: _uuid(name, 0 if value is None else value), AN_UUID.schema)
)
RESOLVERS = each_of(Rule("resolver", _resolver, {"type": "string", "examples": ["10.0.0.2"]}))
PREFIXES = each_of(Rule("prefix", _prefix, RANGE.schema))
RULES = each_of(
    Rule(
        "rule",
        _rule,
        {
            "type": "object",
            "properties": {name: rule.schema for name, rule in _RULE.items()},
            "additionalProperties": False,
        },
    )
)
WISHES = Rule(
    "wishes",
    _wishes,
    {
        "type": "array",
        "maxItems": 1,
        "items": {
            "type": "object",
            "properties": {"subnet_uuid": AN_UUID.schema, "ip": ADDRESS.schema},
            "additionalProperties": False,
        },
    },
)
