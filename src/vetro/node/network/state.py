"""The wanted network state, validated: the result is safe to use in rules.

Every value that reaches ``nft`` or ``ip`` is an address, a number or a name made here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.digits import is_number
from vetro.node.errors import NetworkError
from vetro.node.network.names import bridge_name, host_interface_name

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_ICMP, _ICMP6 = 1, 58
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58, "ipv6-icmp": 58, "sctp": 132}


@dataclass(frozen=True)
class Network:
    """A network of this node, of one family: its bridge carries ``gateway``, unless the network has
    an ``uplink``.

    ``vni``, ``remotes``: the fabric's number and the other nodes that have it (VXLAN); 0: only this
    node. ``uplink``: NIC tag and VLAN (0: untagged) of the machine's interface that carries the
    network.
    """

    uuid: str
    name: str
    bridge: str
    cidr: Range
    gateway: Address
    mtu: int
    masquerade: bool
    vni: int = 0
    remotes: tuple[ipaddress.IPv4Address, ...] = ()
    uplink: tuple[str, int] | None = None


@dataclass(frozen=True)
class Port:
    """An instance's interface: what it may send, and the groups that protect it."""

    mac: str
    host_interface: str
    network: Network
    ip: Address
    allowed: tuple[Range, ...]
    security_groups: tuple[str, ...]
    permits: frozenset[str] = frozenset()
    blocked_ports: tuple[int, ...] = ()


#: What an interface may be permitted besides its own addresses (§7 of the agent spec).
PERMITS = (
    "allow_ip_spoofing", "allow_mac_spoofing", "allow_dhcp_spoofing", "allow_restricted_traffic",
    "allow_unfiltered_promisc",
)  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """One security group rule; ``ports``: range, or type and code for ICMP; ``family``: 4 or 6."""

    ingress: bool
    protocol: int | None
    ports: tuple[int | None, int | None]
    remote: Range | None
    remote_group: str | None
    family: int = 4


@dataclass(frozen=True)
class State:
    """The whole wanted state. ``groups``: rules by group uuid; ``floating``: address → fixed.

    ``members``: addresses of a group's instances on other nodes.
    """

    version: int
    external: ipaddress.IPv4Network | None
    external_gateway: ipaddress.IPv4Address | None
    networks: tuple[Network, ...]
    ports: tuple[Port, ...]
    groups: Mapping[str, tuple[Rule, ...]]
    floating: Mapping[ipaddress.IPv4Address, ipaddress.IPv4Address]
    members: Mapping[str, tuple[Address, ...]] = field(
        default_factory=dict[str, tuple[Address, ...]]
    )


EMPTY = State(0, None, None, (), (), {}, {})


def parse(value: Mapping[str, Any], prefix: str) -> State:
    """Check a ``NetworkState``. Errors: ``NetworkError`` names the element and what is wrong."""
    external = _object(value.get("external"), "external")
    cidr = external.get("cidr")
    gateway = external.get("gateway")
    networks = [_network(item, prefix, f"networks[{i}]") for i, item in _items(value, "networks")]
    by_uuid = {network.uuid: network for network in networks}
    for index, network in enumerate(networks):
        for other in networks[:index]:
            if network.cidr.overlaps(other.cidr):
                raise NetworkError(
                    f"Networks {other.name} ({other.cidr}) and {network.name} ({network.cidr})"
                    " overlap: one machine cannot route both"
                )
            if network.vni and network.vni == other.vni:
                raise NetworkError(
                    f"Networks {other.uuid} and {network.uuid} share a fabric number"
                )
            if network.bridge == other.bridge:
                raise NetworkError(f"Networks {other.uuid} and {network.uuid} share a bridge name")
    ports = [_port(item, by_uuid, prefix, f"nics[{i}]") for i, item in _items(value, "nics")]
    groups = {
        str(item.get("uuid")): _rules(item, f"security_groups[{i}]")
        for i, item in _items(value, "security_groups")
    }
    for port in ports:
        for group in port.security_groups:
            if group not in groups:
                raise NetworkError(f"nics: {port.mac} names the unknown security group {group}")
    floating = {
        _address(item.get("address"), f"floating_ips[{i}].address"): _address(
            item.get("fixed_ip"), f"floating_ips[{i}].fixed_ip"
        )
        for i, item in _items(value, "floating_ips")
        if item.get("fixed_ip")
    }
    return State(
        version=int(value.get("version") or 0),
        external=_cidr(cidr, "external.cidr") if cidr else None,
        external_gateway=_address(gateway, "external.gateway") if gateway else None,
        networks=tuple(networks),
        ports=tuple(ports),
        groups=groups,
        floating=floating,
        members={
            str(item.get("uuid")): tuple(
                _any_address(one, f"security_groups[{i}].members")
                for one in _array(item.get("members"), f"security_groups[{i}].members")
            )
            for i, item in _items(value, "security_groups")
        },
    )


def _items(value: Mapping[str, object], name: str) -> list[tuple[int, dict[str, object]]]:
    return [
        (index, _object(item, f"{name}[{index}]"))
        for index, item in enumerate(_array(value.get(name), name))
    ]


def _array(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise NetworkError(f"{where} must be an array")
    return cast("list[object]", value)


def _object(value: object, where: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NetworkError(f"{where} must be an object")
    return cast("dict[str, object]", value)


def _address(value: object, where: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(str(value).split("/")[0])
    except ValueError as error:
        raise NetworkError(f"{where}: '{value}' is not an IPv4 address") from error


def _cidr(value: object, where: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(str(value), strict=False)
    except ValueError as error:
        raise NetworkError(f"{where}: '{value}' is not an IPv4 network") from error


def _any_address(value: object, where: str) -> Address:
    try:
        return ipaddress.ip_address(str(value).split("/")[0].partition("%")[0])
    except ValueError as error:
        raise NetworkError(f"{where}: '{value}' is not an IP address") from error


def _range(value: object, where: str) -> Range:
    """A range of either family; what has no colon is meant as IPv4."""
    if ":" not in str(value):
        return _cidr(value, where)
    try:
        return ipaddress.IPv6Network(str(value), strict=False)
    except ValueError as error:
        raise NetworkError(f"{where}: '{value}' is not an IPv6 network") from error


def _network(item: Mapping[str, Any], prefix: str, where: str) -> Network:
    uuid = str(item.get("uuid") or "")
    if len(re.sub(r"[^0-9a-f]", "", uuid.lower())) < 8:
        raise NetworkError(f"{where}.uuid: '{uuid}' is not a uuid")
    cidr = _range(item.get("cidr"), f"{where}.cidr")
    gateway = _any_address(item["gateway"], f"{where}.gateway") if item.get("gateway") else cidr[1]
    if gateway not in cidr:
        raise NetworkError(f"{where}: the gateway {gateway} is outside of {cidr}")
    mtu = int(item.get("mtu") or 1500)
    if not 576 <= mtu <= 65535:
        raise NetworkError(f"{where}.mtu: {mtu} is not between 576 and 65535")
    return Network(
        uuid=uuid,
        name=str(item.get("name") or uuid),
        bridge=bridge_name(prefix, uuid),
        cidr=cidr,
        gateway=gateway,
        mtu=mtu,
        masquerade=bool(item.get("masquerade", True)) and not item.get("uplink"),
        vni=_vni(item.get("vni"), where),
        remotes=tuple(
            _address(one, f"{where}.remotes")
            for one in _array(item.get("remotes"), f"{where}.remotes")
        ),
        uplink=_uplink(item.get("uplink"), where),
    )


def _vni(value: object, where: str) -> int:
    number = _number(value, f"{where}.vni", limit=2**24 - 1)
    return number or 0


def _uplink(value: object, where: str) -> tuple[str, int] | None:
    given = _object(value, f"{where}.uplink")
    if not given:
        return None
    tag = str(given.get("nic_tag") or "")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,31}", tag):
        raise NetworkError(f"{where}.uplink.nic_tag: '{tag}' is not the name of a tag")
    return tag, _number(given.get("vlan_id"), f"{where}.uplink.vlan_id", limit=4094) or 0


def _port(
    item: Mapping[str, object], networks: Mapping[str, Network], prefix: str, where: str
) -> Port:
    mac = str(item.get("mac") or "").lower()
    if not _MAC.fullmatch(mac):
        raise NetworkError(f"{where}.mac: '{mac}' is not a MAC address")
    network = networks.get(str(item.get("network_uuid")))
    if network is None:
        raise NetworkError(f"{where}: {mac} is on an unknown network {item.get('network_uuid')}")
    ip = _any_address(item.get("ip"), f"{where}.ip")
    if ip not in network.cidr:
        raise NetworkError(f"{where}: {ip} is outside of {network.name} ({network.cidr})")
    return Port(
        mac=mac,
        host_interface=host_interface_name(prefix, mac),
        network=network,
        ip=ip,
        allowed=tuple(
            _range(address, f"{where}.allowed_addresses")
            for address in _array(item.get("allowed_addresses"), f"{where}.allowed_addresses")
        ),
        security_groups=tuple(
            str(group) for group in _array(item.get("security_groups"), f"{where}.security_groups")
        ),
        permits=frozenset(name for name in PERMITS if item.get(name) in (True, "true")),
        blocked_ports=tuple(
            number
            for one in _array(item.get("blocked_outgoing_ports"), f"{where}.blocked_outgoing_ports")
            if (number := _number(one, f"{where}.blocked_outgoing_ports")) is not None
        ),
    )


def _rules(item: Mapping[str, object], where: str) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    for index, rule in _items(item, "rules"):
        place = f"{where}.rules[{index}]"
        direction = str(rule.get("direction") or "ingress").lower()
        if direction not in ("ingress", "egress"):
            raise NetworkError(f"{place}.direction: '{direction}' is neither ingress nor egress")
        remote = rule.get("remote_ip_prefix")
        family = 6 if str(rule.get("ethertype") or "IPv4").lower() == "ipv6" else 4
        known = _range(remote, f"{place}.remote_ip_prefix") if remote else None
        if known is not None and known.version != family:
            continue  # nobody of this family is in a range of the other
        protocol = _protocol(rule.get("protocol"), place)
        group = rule.get("remote_group_id")
        rules.append(
            Rule(
                ingress=direction == "ingress",
                # Neutron's `icmp` of an IPv6 rule is IPv6's.
                protocol=_ICMP6 if family == 6 and protocol == _ICMP else protocol,
                ports=(
                    _number(rule.get("port_range_min"), f"{place}.port_range_min"),
                    _number(rule.get("port_range_max"), f"{place}.port_range_max"),
                ),
                remote=known,
                remote_group=str(group) if group else None,
                family=family,
            )
        )
    return tuple(rules)


def _protocol(value: object, where: str) -> int | None:
    text = str(value).lower() if value is not None else ""
    if text in ("", "any", "none", "-1"):
        return None
    if text in _PROTOCOLS:
        return _PROTOCOLS[text]
    if is_number(text) and int(text) < 256:
        return int(text) or None
    raise NetworkError(f"{where}.protocol: '{value}' is not a protocol")


def _number(value: object, where: str, limit: int = 65535) -> int | None:
    if value is None or value in ("", -1, "-1"):
        return None
    text = str(value)
    if not is_number(text) or int(text) > limit:
        raise NetworkError(f"{where}: '{value}' is not between 0 and {limit}")
    return int(text)
