"""The packet rules of a node as one text for ``nft -f -``: replaced in one step or not at all.

Two tables. ``inet`` filters routed packets, and with ``nf_call_iptables`` on our bridges also those
between instances of one network, with connection tracking for both. ``bridge`` ties each interface
to its addresses; an address then identifies its instance, so all other rules match addresses.

A packet on its way to an instance: floating address → fixed (prerouting; output for this machine's
own) → is the network reachable from there (forward) → the instance's security groups (postrouting,
which everything to an instance passes, wherever it began).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from vetro.node.network import fabric
from vetro.node.network.state import Port, Rule, State

_TCP, _UDP, _ICMP, _ICMP6, _SCTP = 6, 17, 1, 58, 132
_NEIGHBOURS = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"
"""How machines find each other in an IPv6 network: no security group stands in its way."""


def table_name(prefix: str) -> str:
    """``vetro`` for the default prefix; agents with other prefixes have other tables."""
    return "vetro" if prefix == "vt" else f"vetro_{prefix}"


def render(state: State, prefix: str) -> str:
    """The whole rule set for ``state``."""
    name = table_name(prefix)
    # Add before delete: deleting a missing table would fail.
    start = "".join(
        f"table {family} {name}\ndelete table {family} {name}\n" for family in ("inet", "bridge")
    )
    if not state.networks and not state.floating:
        return start
    return f"{start}{_inet(state, name)}{_bridge(state, name, prefix)}"


def _block(head: str, lines: Iterable[str]) -> list[str]:
    return [f"{head} {{", *(f"\t{line}" for line in lines), "}"]


def _set(name: str, type_: str, elements: Sequence[str], *, kind: str = "set") -> list[str]:
    lines = [f"type {type_}"]
    if elements:
        lines.append(f"elements = {{ {', '.join(elements)} }}")
    return _block(f"{kind} {name}", lines)


def _inet(state: State, name: str) -> str:
    guarded = [port for port in state.ports if port.security_groups]
    restricted = [
        port
        for port in guarded
        if any(not rule.ingress for group in port.security_groups for rule in state.groups[group])
    ]
    referenced = sorted(
        {
            (rule.remote_group, rule.family)
            for rules in state.groups.values()
            for rule in rules
            if rule.remote_group
        }
    )
    lines: list[str] = []
    lines += _set("bridges", "ifname", [f'"{n.bridge}"' for n in state.networks])
    lines += _set(
        "floating", "ipv4_addr : ipv4_addr",
        [f"{address} : {fixed}" for address, fixed in sorted(state.floating.items())],
        kind="map",
    )  # fmt: skip
    lines += _set(
        "fixed", "ipv4_addr : ipv4_addr",
        [f"{fixed} : {address}" for fixed, address in _first_floating(state)],
        kind="map",
    )  # fmt: skip
    for group, family in referenced:
        here = {port.ip for port in state.ports if group in port.security_groups}
        every = here | {*state.members.get(group, ())}
        members = sorted((ip for ip in every if ip.version == family), key=int)
        lines += _set(_group_set(group, family), f"ipv{family}_addr", [str(ip) for ip in members])
    for port in guarded:
        lines += _block(f"chain {_chain('in', port)}", _port_rules(state, port, ingress=True))
    for port in restricted:
        lines += _block(f"chain {_chain('out', port)}", _port_rules(state, port, ingress=False))
    for hook in ("prerouting", "output"):
        begin = f"type nat hook {hook} priority -100; policy accept;"
        lines += _block(f"chain {hook}", [begin, "dnat ip to ip daddr map @floating"])
    lines += _block("chain from_instances", _from_instances(restricted))
    lines += _block("chain forward", _forward(state))
    lines += _block("chain to_instances", _to_instances(guarded))
    lines += _block("chain postrouting", _postrouting(state))
    tunnelled = fabric.input_rules(state)
    if tunnelled:
        lines += _block(
            "chain input", ["type filter hook input priority 0; policy accept;", *tunnelled]
        )
    return "\n".join(_block(f"table inet {name}", lines)) + "\n"


def _first_floating(state: State) -> list[tuple[str, str]]:
    """One floating address per fixed one: the source address of connections the instance opens."""
    chosen: dict[str, str] = {}
    for address, fixed in sorted(state.floating.items()):
        chosen.setdefault(str(fixed), str(address))
    return sorted(chosen.items())


def _chain(direction: str, port: Port) -> str:
    return f"{direction}_{port.host_interface}"


def _group_set(group: str, family: int) -> str:
    name = "group_" + "".join(c if c.isalnum() else "_" for c in group)
    return name if family == 4 else f"{name}_ipv6"


def _ip(family: int) -> str:
    """A family as nft calls it."""
    return "ip" if family == 4 else "ip6"


def _rules_of(state: State, port: Port, *, ingress: bool) -> list[Rule]:
    return [
        rule
        for group in port.security_groups
        for rule in state.groups[group]
        if rule.ingress is ingress and rule.family == port.ip.version
    ]


def _port_rules(state: State, port: Port, *, ingress: bool) -> list[str]:
    rendered = [_match(rule) for rule in _rules_of(state, port, ingress=ingress)]
    return [*dict.fromkeys(f"{match} accept".strip() for match in rendered), "counter drop"]


def _match(rule: Rule) -> str:
    parts: list[str] = []
    side = f"{_ip(rule.family)} {'saddr' if rule.ingress else 'daddr'}"
    if rule.remote is not None and rule.remote.prefixlen > 0:
        parts.append(f"{side} {rule.remote}")
    if rule.remote_group is not None:
        parts.append(f"{side} @{_group_set(rule.remote_group, rule.family)}")
    low, high = rule.ports
    if rule.protocol in (_TCP, _UDP, _SCTP):
        transport = {_TCP: "tcp", _UDP: "udp", _SCTP: "sctp"}[rule.protocol]
        if low is None and high is None:
            parts.append(f"meta l4proto {transport}")
        else:
            first = low if low is not None else high
            last = high if high is not None else low
            parts.append(f"{transport} dport {first}" + (f"-{last}" if last != first else ""))
    elif rule.protocol in (_ICMP, _ICMP6):
        icmp = "icmp" if rule.protocol == _ICMP else "icmpv6"
        if low is None:
            parts.append(f"meta l4proto {'icmp' if rule.protocol == _ICMP else 'ipv6-icmp'}")
        else:
            code = f" {icmp} code {high}" if high is not None else ""
            parts.append(f"{icmp} type {low}{code}")
    elif rule.protocol is not None:
        parts.append(f"meta l4proto {rule.protocol}")
    return " ".join(parts)


def _vmap(match: str, ports: Sequence[Port], direction: str) -> list[str]:
    """Jumps to the chains of ports, by bridge and address; ``match`` with FAMILY where it stands."""
    lines: list[str] = []
    for family in (4, 6):
        jumps = ", ".join(
            f'"{port.network.bridge}" . {port.ip} : jump {_chain(direction, port)}'
            for port in ports
            if port.ip.version == family
        )
        if jumps:
            found = [_NEIGHBOURS + " accept"] if family == 6 else []
            lines += [*found, f"{match.replace('FAMILY', _ip(family))} vmap {{ {jumps} }}"]
    return lines


def _from_instances(restricted: Sequence[Port]) -> list[str]:
    lines = ["type filter hook prerouting priority 0; policy accept;"]
    if restricted:
        lines += [
            "ct state established,related accept",
            *_vmap("iifname . FAMILY saddr", restricted, "out"),
        ]
    return lines


def _forward(state: State) -> list[str]:
    lines = [
        "type filter hook forward priority 0; policy accept;",
        "iifname != @bridges oifname != @bridges accept",
        "tcp flags syn tcp option maxseg size set rt mtu",
        "ct state established,related accept",
        "ct state invalid drop",
    ]
    # Networks are separate: one reaches another only through a floating address.
    lines += [
        f'iifname "{n.bridge}" oifname != "{n.bridge}" oifname @bridges ct status ! dnat drop'
        for n in state.networks
    ]
    # From outside, only floating addresses are reachable.
    lines.append("iifname != @bridges oifname @bridges ct status ! dnat drop")
    # A network without a router has no access to the outside.
    lines += [
        f'iifname "{n.bridge}" oifname != @bridges drop' for n in state.networks if not n.masquerade
    ]
    return lines


def _to_instances(guarded: Sequence[Port]) -> list[str]:
    lines = ["type filter hook postrouting priority 0; policy accept;"]
    if guarded:
        lines += [
            "oifname != @bridges accept",
            "ct state established,related accept",
            *_vmap("oifname . FAMILY daddr", guarded, "in"),
        ]
    return lines


def _postrouting(state: State) -> list[str]:
    lines = ["type nat hook postrouting priority 100; policy accept;"]
    for n in state.networks:
        if n.cidr.version == 6:
            continue  # floating addresses are IPv4
        # When an instance contacts its neighbour, or itself, by floating address, the answer must
        # come from there; so must this machine, whose packets have the floating address as their
        # source.
        lines.append(f'oifname "{n.bridge}" ip saddr {n.cidr} ct status dnat masquerade')
        if state.external is not None:
            lines.append(f'oifname "{n.bridge}" ct status dnat fib saddr type local masquerade')
    if state.external is not None and state.floating:
        lines.append(f"ip daddr {state.external} snat ip to ip saddr map @fixed")
    lines += [
        f"{_ip(n.cidr.version)} saddr {n.cidr} oifname != @bridges masquerade"
        for n in state.networks
        if n.masquerade
    ]
    return lines


def _from_port(port: Port, own: str) -> list[str]:
    """What an interface may send: its own addresses and what it is permitted besides them."""
    lines: list[str] = []
    anybody = "allow_mac_spoofing" in port.permits
    if not anybody:
        lines.append(f"ether saddr != {port.mac} drop")
    if port.blocked_ports:
        ports = ", ".join(str(number) for number in sorted(set(port.blocked_ports)))
        lines += [
            f"ether type ip {transport} dport {{ {ports} }} drop" for transport in ("tcp", "udp")
        ]
    if port.ip.version == 6:
        return [*lines, *_from_ipv6_port(port, own)]
    if "allow_dhcp_spoofing" not in port.permits:
        lines.append("ether type ip udp sport 67 drop")
    if "allow_ip_spoofing" in port.permits:
        lines.append("ether type { ip, arp } accept")
    else:
        hardware = "" if anybody else f"arp saddr ether {port.mac} "
        lines += [
            f"ether type ip ip saddr {{ {own} }} accept",
            f"ether type arp {hardware}arp saddr ip {{ {own} }} accept",
            # Probing an address before use (duplicate detection).
            f"ether type arp {hardware}arp saddr ip 0.0.0.0 accept",
        ]
    if "allow_restricted_traffic" not in port.permits:
        lines.append("drop")
    else:
        lines += ["ether type { ip, arp } drop", "accept"]
    return lines


def _from_ipv6_port(port: Port, own: str) -> list[str]:
    """The same in IPv6: neighbour discovery speaks of addresses as ARP does, and of routers."""
    lines: list[str] = []
    if "allow_dhcp_spoofing" not in port.permits:
        lines += [
            "ether type ip6 udp sport 547 drop",
            "icmpv6 type { nd-router-advert, nd-redirect } drop",
        ]
    if "allow_ip_spoofing" in port.permits:
        lines.append("ether type ip6 accept")
    else:
        lines += [
            # The address that an advertisement is about (nft 1.0.6 has no name for it).
            f"icmpv6 type nd-neighbor-advert @th,64,128 != {{ {_numbers(own)} }} drop",
            f"ether type ip6 ip6 saddr {{ {own} }} accept",
            # Probing an address before use (duplicate detection).
            "ether type ip6 ip6 saddr :: icmpv6 type nd-neighbor-solicit accept",
        ]
    if "allow_restricted_traffic" not in port.permits:
        lines.append("drop")
    else:
        lines += ["ether type { ip, ip6, arp } drop", "accept"]
    return lines


def _numbers(addresses: str) -> str:
    """Addresses and ranges as numbers."""
    ranges = [ipaddress.IPv6Network(one) for one in addresses.split(", ")]
    whole = ipaddress.collapse_addresses(ranges)
    return ", ".join(
        f"0x{int(one[0]):032x}" + (f"-0x{int(one[-1]):032x}" if one.num_addresses > 1 else "")
        for one in whole
    )


def _bridge(state: State, name: str, prefix: str) -> str:
    lines: list[str] = []
    for port in state.ports:
        allowed = [one for one in port.allowed if one.version == port.ip.version]
        addresses = [str(port.ip), *map(str, allowed)]
        own = ", ".join(addresses)
        lines += _block(
            f"chain {_chain('from', port)}",
            _from_port(port, own),
        )
    jumps = ", ".join(f'"{p.host_interface}" : jump {_chain("from", p)}' for p in state.ports)
    lines += _block(
        "chain prerouting",
        [
            "type filter hook prerouting priority -300; policy accept;",
            *fabric.entry_rules(state, prefix),
            *([f"iifname vmap {{ {jumps} }}"] if state.ports else []),
            # An unknown interface may send nothing.
            f'iifname "{prefix}v*" drop',
        ],
    )
    staying = fabric.tunnel_rules(state, prefix)
    if staying:
        lines += _block(
            "chain postrouting",
            ["type filter hook postrouting priority 0; policy accept;", *staying],
        )
    return "\n".join(_block(f"table bridge {name}", lines)) + "\n"
