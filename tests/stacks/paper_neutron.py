"""A Neutron on paper, beside a Heat on paper: groups with rules, floating addresses, interfaces of routers.

What Heat has made is there; tests take things away. Rules are kept as Neutron keeps them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs

from tests.openstack.stub import Answer

from .paper_heat import PaperHeat, with_ids

ROOT = "/network/v2.0"
GROUPS = ("OS::Neutron::SecurityGroup", "AWS::EC2::SecurityGroup")
EGRESS = [{"direction": "egress", "ethertype": one} for one in ("IPv4", "IPv6")]
FIELDS = ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id")
Row = dict[str, Any]


class PaperNeutron:
    """Neutron at the stub of a Heat."""

    def __init__(self, heat: PaperHeat) -> None:
        self.heat = heat
        self.groups: dict[str, list[Row]] = {}
        self.single_rules: set[str] = set()
        self.floating: dict[str, str | None] = {}
        self.interfaces: set[tuple[str, str]] = set()
        self.changes: list[str] = []
        """What it was asked for that changes anything."""
        self.asked = 0
        self.refuses: tuple[int, str] | None = None
        self.defaults: list[Row] | None = None
        """What `default-security-group-rules` has, where there is such a thing."""
        self._known: set[str] = set()
        self._ids = itertools.count(1)
        heat.stub.keystone("orchestration", "compute", "network")
        heat.network = self._answer

    def see(self) -> None:
        """What Heat has made meanwhile is there."""
        for stack in self.heat.stacks.values():
            definitions = self.heat.definitions(stack.body)
            for path, one in stack.made.items():
                if one.id in self._known or path not in definitions:
                    continue
                self._known.add(one.id)
                properties = with_ids(definitions[path][1], stack.made)
                if one.type in GROUPS:
                    self.groups[one.id] = [self._row(rule) for rule in _rules(one.id, properties)]
                elif one.type == "OS::Neutron::SecurityGroupRule":
                    self.single_rules.add(one.id)
                elif one.type == "OS::Neutron::FloatingIP":
                    self.floating[one.id] = properties.get("port_id")
                elif one.type == "OS::Neutron::RouterInterface":
                    pair = properties["router"], properties["subnet"]
                    one.id = f"{pair[0]}:subnet_id={pair[1]}"
                    self._known.add(one.id)
                    self.interfaces.add(pair)
                if one.type == "OS::Neutron::FloatingIPAssociation":
                    self.floating[properties["floatingip_id"]] = properties["port_id"]

    def _row(self, rule: Mapping[str, Any]) -> Row:
        """A rule as Neutron answers it."""
        kept: Row = {"ethertype": "IPv4", **dict.fromkeys(FIELDS), **rule}
        if kept["ethertype"] == "IPv6" and kept["protocol"] == "icmp":
            kept["protocol"] = "ipv6-icmp"
        for key in ("port_range_min", "port_range_max"):
            kept[key] = None if kept[key] is None else int(kept[key])
        if (kept["port_range_min"], kept["port_range_max"]) == (1, 65535):
            kept["port_range_min"] = kept["port_range_max"] = None
        return {"id": f"rule-{next(self._ids)}", **kept}

    def _answer(self, call: str, given: Any) -> Answer:
        self.see()
        method, _, path = call.partition(" ")
        kind, _, rest = path.removeprefix(f"{ROOT}/").partition("/")
        if method == "GET":
            self.asked += 1
            return self._list(kind)
        if self.refuses is not None:
            return self.refuses[0], {"NeutronError": {"message": self.refuses[1]}}
        self.changes.append(f"{method} {kind}")
        if kind == "security-group-rules":
            rule = dict(given["security_group_rule"])
            self.groups[rule.pop("security_group_id")].append(self._row(rule))
            return 201, {}
        if kind == "floatingips":
            self.floating[rest] = given["floatingip"]["port_id"]
            return 200, {}
        self.interfaces.add((rest.partition("/")[0], given["subnet_id"]))
        return 200, {}

    def _list(self, kind: str) -> Answer:
        ids = parse_qs(self.heat.stub.query)
        rows: list[Row]
        match kind:
            case "security-groups":
                rows = [
                    {"id": id_, "security_group_rules": one} for id_, one in self.groups.items()
                ]
            case "security-group-rules":
                rows = [{"id": one} for one in sorted(self.single_rules)]
            case "floatingips":
                rows = [{"id": id_, "port_id": port} for id_, port in self.floating.items()]
            case "ports":
                rows = [
                    {"id": "p", "device_id": router, "fixed_ips": [{"subnet_id": subnet}]}
                    for router, subnet in sorted(self.interfaces)
                ]
            case "default-security-group-rules" if self.defaults is not None:
                return 200, {"default_security_group_rules": self.defaults}
            case _:
                return 404, {"error": {"message": "no"}}
        ((key, wanted),) = ids.items()
        found = [one for one in rows if one[key] in wanted]
        return 200, {kind.replace("-", "_"): found}


def _rules(own_id: str, properties: Mapping[str, Any]) -> list[Row]:
    """What Heat 19.0 asks Neutron for."""
    if "GroupDescription" in properties:
        rules = [_of_aws(one) for one in properties.get("SecurityGroupIngress", [])]
        return [*EGRESS, *rules]
    rules: list[Row] = []
    for one in cast("list[Row]", properties.get("rules", [])):
        rule = {"direction": "ingress", "ethertype": "IPv4", **one}
        mode = rule.pop("remote_mode", "remote_ip_prefix")
        if mode == "remote_group_id":
            rule["remote_group_id"] = rule.get("remote_group_id") or own_id
            rule["remote_ip_prefix"] = None
        else:
            rule["remote_group_id"] = None
        rules.append(rule)
    has_egress = any(one["direction"] == "egress" for one in rules)
    return rules if has_egress else [*EGRESS, *rules]


def _of_aws(given: Row) -> Row:
    ports = [given.get(key) for key in ("FromPort", "ToPort")]
    low, high = (None if one is None or int(one) < 0 else int(one) for one in ports)
    return {
        "direction": "ingress",
        "protocol": given["IpProtocol"],
        "port_range_min": low,
        "port_range_max": high,
        "remote_ip_prefix": None if ports == [None, None] else given.get("CidrIp"),
    }
