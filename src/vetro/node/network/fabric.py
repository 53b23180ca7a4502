"""Networks that reach beyond this node: VXLAN tunnels and the machine's own interfaces.

A fabric is one Ethernet for its instances on all nodes. Each node is the gateway for its own
instances, with the same address and MAC everywhere: a frame of the gateway's never crosses a tunnel
(the rules ensure that), and an instance that moves finds its gateway on the new node. Broadcasts
are sent to each node of the fabric; the location of addresses is learnt from the frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vetro.node.errors import NetworkError
from vetro.node.network.names import gateway_mac, tunnel_name, vlan_name
from vetro.node.network.state import Network, State

#: Not VXLAN's own port 4789, which other software on the machine may use.
PORT = 14789
_EVERYBODY = "00:00:00:00:00:00"

Link = dict[str, Any]


def tunnels(state: State) -> list[Network]:
    """The networks that have a tunnel."""
    return [network for network in state.networks if network.vni and network.uplink is None]


def tunnel_commands(
    state: State, prefix: str, present: dict[str, Link], underlay: str
) -> list[str]:
    """The ``ip`` commands that create and repair tunnels; ``link_commands`` removes others."""
    commands: list[str] = []
    for network in tunnels(state):
        if not underlay or underlay.startswith("127."):
            raise NetworkError(
                f"Network {network.name} spans nodes, but this node has no address others can"
                " reach (setting node.admin_ip)"
            )
        name = tunnel_name(prefix, network.uuid)
        link = present.get(name)
        data: dict[str, object] = (link or {}).get("linkinfo", {}).get("info_data", {})
        if link is not None and (
            (data.get("id"), data.get("local"), data.get("port")) != (network.vni, underlay, PORT)
        ):
            commands.append(f"link delete {name}")
            link = None
        if link is None:
            commands.append(
                f"link add {name} mtu {network.mtu} type vxlan id {network.vni} local {underlay}"
                f" dstport {PORT} ttl 16"
            )
            commands.append(f"link set {name} addrgenmode none")
        elif link.get("mtu") != network.mtu:
            commands.append(f"link set {name} mtu {network.mtu}")
        if (link or {}).get("master") != network.bridge:
            commands.append(f"link set {name} master {network.bridge}")
        if link is None or "UP" not in link.get("flags", []):
            commands.append(f"link set {name} up")
    return commands


def gateway_commands(state: State, present: dict[str, Link]) -> list[str]:
    """Give each bridge that is a gateway its own MAC.

    A bridge without one takes the lowest MAC of its ports and changes it when another instance
    comes or goes: neighbours that remember the old one would lose the gateway for half a minute.
    """
    return [
        f"link set {network.bridge} address {gateway_mac(network.uuid)}"
        for network in state.networks
        if network.uplink is None
        and present.get(network.bridge, {}).get("address") != gateway_mac(network.uuid)
    ]


def peer_commands(state: State, prefix: str, current: Sequence[Mapping[str, object]]) -> list[str]:
    """The ``bridge`` commands that make each tunnel lead to its nodes and no others.

    ``current``: ``bridge -j fdb show``.
    """
    commands: list[str] = []
    for network in tunnels(state):
        name = tunnel_name(prefix, network.uuid)
        have = {
            str(entry["dst"])
            for entry in current
            if entry.get("ifname") == name and entry.get("mac") == _EVERYBODY and entry.get("dst")
        }
        want = {str(address) for address in network.remotes}
        commands += [f"fdb delete {_EVERYBODY} dev {name} dst {one}" for one in sorted(have - want)]
        # Addresses learnt from a removed node would swallow frames until they expire.
        commands += [
            f"fdb delete {entry['mac']} dev {name} dst {entry['dst']}"
            for entry in current
            if entry.get("ifname") == name
            and entry.get("mac") != _EVERYBODY
            and str(entry.get("dst")) in have - want
        ]
        commands += [f"fdb append {_EVERYBODY} dev {name} dst {one}" for one in sorted(want - have)]
    return commands


def uplink_commands(
    state: State,
    prefix: str,
    current: list[Link],
    interface_of: Callable[[str], str | None],
) -> list[str]:
    """The ``ip`` commands that connect networks to the machine's interfaces, by tag and VLAN.

    Errors: ``NetworkError`` for a tag that no interface carries, and for an untagged network on an
    interface that has addresses: those would become unreachable.
    """
    present = {str(link["ifname"]): link for link in current}
    commands: list[str] = []
    for network in state.networks:
        if network.uplink is None:
            continue
        tag, vlan = network.uplink
        interface = interface_of(tag)
        if interface is None:
            raise NetworkError(
                f"Network {network.name}: no interface of this node carries the NIC tag {tag}"
            )
        name = vlan_name(prefix, network.uuid) if vlan else interface
        link = present.get(name)
        if vlan and link is not None and (link.get("link"), _vlan_id(link)) != (interface, vlan):
            # The tag has moved to another interface, or the network to another VLAN.
            commands.append(f"link delete {name}")
            link = None
        if vlan and link is None:
            commands.append(f"link add link {interface} name {name} type vlan id {vlan}")
            commands.append(f"link set {name} addrgenmode none")
        elif not vlan and any(
            entry.get("scope") == "global" for entry in (link or {}).get("addr_info", [])
        ):
            raise NetworkError(
                f"Network {network.name}: {interface} has addresses of the machine, which would become"
                " unreachable; use a VLAN, or an interface without addresses"
            )
        if (link or {}).get("master") != network.bridge:
            commands.append(f"link set {name} master {network.bridge}")
        if link is None or "UP" not in link.get("flags", []):
            commands.append(f"link set {name} up")
    return commands


def _vlan_id(link: Link) -> int | None:
    found: int | None = link.get("linkinfo", {}).get("info_data", {}).get("id")
    return found


def wanted_links(state: State, prefix: str) -> set[str]:
    """The names of the tunnels and VLANs that are wanted."""
    return {
        *(tunnel_name(prefix, network.uuid) for network in tunnels(state)),
        *(vlan_name(prefix, n.uuid) for n in state.networks if n.uplink and n.uplink[1]),
    }


def input_rules(state: State) -> list[str]:
    """Lines for the inet table: only nodes of our fabrics may send tunnelled frames here."""
    found = tunnels(state)
    if not found:
        return []
    known = sorted({remote for network in found for remote in network.remotes})
    senders = f"ip saddr != {{ {', '.join(map(str, known))} }} " if known else ""
    return [f"udp dport {PORT} {senders}counter drop"]


def tunnel_rules(state: State, prefix: str) -> list[str]:
    """Lines for the bridge table: the gateway's frames do not leave their node."""
    return _gateway_rules(state, prefix, "oifname", arp="daddr", icmp="nd-neighbor-solicit")


def entry_rules(state: State, prefix: str) -> list[str]:
    """Lines for the bridge table: no sender beyond a tunnel may use the gateway's identity."""
    return _gateway_rules(state, prefix, "iifname", arp="saddr", icmp="nd-neighbor-advert")


def _gateway_rules(state: State, prefix: str, way: str, *, arp: str, icmp: str) -> list[str]:
    """Drop, on one way through the tunnels, frames of the gateway and messages about its address."""
    lines: list[str] = []
    for network in tunnels(state):
        name, mac = tunnel_name(prefix, network.uuid), gateway_mac(network.uuid)
        about = f"ether type arp arp {arp} ip {network.gateway}"
        if network.cidr.version == 6:
            about = f"icmpv6 type {icmp} @th,64,128 0x{int(network.gateway):032x}"
        lines += [f'{way} "{name}" ether saddr {mac} drop', f'{way} "{name}" {about} drop']
    return lines
