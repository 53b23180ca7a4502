"""Networks beyond one node: tunnels, their peers, VLANs on the machine's interfaces, what guards them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from vetro.node.errors import NetworkError
from vetro.node.network import fabric
from vetro.node.network.apply import NetworkApplier, link_commands
from vetro.node.network.names import bridge_name, gateway_mac, tunnel_name, vlan_name
from vetro.node.network.ruleset import render
from vetro.node.network.state import State, parse

NET = "aabbccdd-1100-4000-8000-000000000001"
BRIDGE, TUNNEL, VLAN = "vtbaabbccdd", tunnel_name("vt", NET), vlan_name("vt", NET)
NOBODY = "00:00:00:00:00:00"


def state(network: dict[str, Any] | None = None, **changes: Any) -> State:
    """A fabric over three nodes with one interface here; ``network`` changes it."""
    value = {
        "version": 1,
        "networks": [
            {"uuid": NET, "name": "n", "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "mtu": 1450,
             "vni": 77, "remotes": ["192.0.2.2", "192.0.2.3"], **(network or {})}
        ],
        "nics": [{"mac": "fa:16:3e:01:02:03", "network_uuid": NET, "ip": "10.0.0.5"}],
        **changes,
    }  # fmt: skip
    return parse(value, "vt")


UPLINK = {"vni": 0, "remotes": [], "uplink": {"nic_tag": "office", "vlan_id": 12}}


def tunnel(**changes: Any) -> dict[str, Any]:
    """A tunnel as ``ip -j -d`` shows it."""
    data = {"id": 77, "local": "192.0.2.1", "port": fabric.PORT}
    return {
        "ifname": TUNNEL, "mtu": 1450, "master": BRIDGE, "flags": ["UP"],
        "linkinfo": {"info_data": {**data, **changes.pop("data", {})}}, **changes,
    }  # fmt: skip


def tunnel_steps(found: State, *present: dict[str, Any]) -> list[str]:
    """What is done about tunnels when these links are there."""
    links = {str(link["ifname"]): link for link in present}
    return fabric.tunnel_commands(found, "vt", links, "192.0.2.1")


def test_a_fabric_gets_a_tunnel_on_its_bridge() -> None:
    """With its number, this node's address and its own port; it has no IPv6 of its own."""
    assert tunnel_steps(state()) == [
        f"link add {TUNNEL} mtu 1450 type vxlan id 77 local 192.0.2.1 dstport 14789 ttl 16",
        f"link set {TUNNEL} addrgenmode none",
        f"link set {TUNNEL} master {BRIDGE}",
        f"link set {TUNNEL} up",
    ]
    assert tunnel_steps(state({"vni": 0})) == []


def test_a_tunnel_that_is_right_is_left_alone_and_others_are_mended() -> None:
    """What can be changed is changed; a tunnel with another number, address or port is created again."""
    assert tunnel_steps(state(), tunnel()) == []
    assert tunnel_steps(state(), tunnel(mtu=1500, master=None, flags=[])) == [
        f"link set {TUNNEL} mtu 1450",
        f"link set {TUNNEL} master {BRIDGE}",
        f"link set {TUNNEL} up",
    ]
    for data in ({"id": 78}, {"local": "192.0.2.9"}, {"port": 4789}):
        steps = tunnel_steps(state(), tunnel(data=data))
        assert steps[:1] == [f"link delete {TUNNEL}"]
        assert len(steps) == 5


@pytest.mark.parametrize("underlay", ["", "127.0.0.1"])
def test_a_node_nobody_reaches_is_in_no_fabric(underlay: str) -> None:
    """The error names the setting."""
    with pytest.raises(NetworkError, match=r"node\.admin_ip"):
        fabric.tunnel_commands(state(), "vt", {}, underlay)


def test_the_gateway_has_one_mac_on_all_nodes() -> None:
    """Made from the network's uuid, locally administered; set where it differs, on every gateway."""
    mac = gateway_mac(NET)
    assert mac == "02:aa:bb:cc:dd:11"
    assert fabric.gateway_commands(state(), {}) == [f"link set {BRIDGE} address {mac}"]
    assert fabric.gateway_commands(state(), {BRIDGE: {"address": mac}}) == []
    assert fabric.gateway_commands(
        state({"vni": 0}), {BRIDGE: {"address": "02:00:00:00:00:01"}}
    ) == [f"link set {BRIDGE} address {mac}"]
    assert fabric.gateway_commands(state(UPLINK), {}) == []


def test_tunnels_lead_to_their_nodes_and_no_others() -> None:
    """Missing nodes are added; those that left go, with what was learnt from them."""
    current = [
        {"ifname": TUNNEL, "mac": NOBODY, "dst": "192.0.2.2"},
        {"ifname": TUNNEL, "mac": NOBODY, "dst": "192.0.2.9"},
        {"ifname": TUNNEL, "mac": "fa:16:3e:00:00:09", "dst": "192.0.2.9"},
        {"ifname": TUNNEL, "mac": "fa:16:3e:00:00:02", "dst": "192.0.2.2"},
        {"ifname": "vxlan0", "mac": NOBODY, "dst": "192.0.2.8"},
        {"ifname": TUNNEL, "mac": "33:33:00:00:00:01"},
    ]
    assert fabric.peer_commands(state(), "vt", current) == [
        f"fdb delete {NOBODY} dev {TUNNEL} dst 192.0.2.9",
        f"fdb delete fa:16:3e:00:00:09 dev {TUNNEL} dst 192.0.2.9",
        f"fdb append {NOBODY} dev {TUNNEL} dst 192.0.2.3",
    ]
    there = [{"ifname": TUNNEL, "mac": NOBODY, "dst": f"192.0.2.{n}"} for n in (2, 3)]
    assert fabric.peer_commands(state(), "vt", there) == []


def uplink_steps(found: State, *links: dict[str, Any]) -> list[str]:
    """What is done about the machine's interfaces; ``eth1`` carries the tag ``office``."""
    return fabric.uplink_commands(
        found, "vt", list(links), lambda tag: "eth1" if tag == "office" else None
    )


def test_a_network_on_the_machines_interface_by_vlan() -> None:
    """A VLAN of the fabric on the bridge, which has no address: the gateway is elsewhere."""
    found = state(UPLINK)
    assert uplink_steps(found, {"ifname": "eth1"}) == [
        f"link add link eth1 name {VLAN} type vlan id 12",
        f"link set {VLAN} addrgenmode none",
        f"link set {VLAN} master {BRIDGE}",
        f"link set {VLAN} up",
    ]
    right = {
        "ifname": VLAN, "link": "eth1", "master": BRIDGE, "flags": ["UP"],
        "linkinfo": {"info_data": {"id": 12}},
    }  # fmt: skip
    assert uplink_steps(found, right) == []
    assert uplink_steps(found, {**right, "link": "eth0"})[0] == f"link delete {VLAN}"
    commands, _ = link_commands(found, "vt", [])
    assert not [command for command in commands if command.startswith("address add")]
    assert found.networks[0].masquerade is False
    assert tunnel_steps(found) == []


def test_an_untagged_network_takes_an_interface_without_addresses() -> None:
    """One with addresses would be cut off, which is refused; so is a tag nothing carries."""
    found = state({**UPLINK, "uplink": {"nic_tag": "office"}})
    assert uplink_steps(found, {"ifname": "eth1", "flags": ["UP"]}) == [
        f"link set eth1 master {BRIDGE}"
    ]
    busy = {"ifname": "eth1", "addr_info": [{"scope": "global"}]}
    with pytest.raises(NetworkError, match="eth1 has addresses"):
        uplink_steps(found, busy)
    with pytest.raises(NetworkError, match="no interface of this node carries the NIC tag lab"):
        uplink_steps(state({**UPLINK, "uplink": {"nic_tag": "lab"}}))


def test_what_is_not_wanted_any_more_goes() -> None:
    """Tunnels and VLANs with their network; an interface of the machine's keeps no bridge alive."""
    links = [
        {"ifname": BRIDGE}, tunnel(), {"ifname": VLAN, "master": BRIDGE},
        {"ifname": "eth1", "master": BRIDGE}, {"ifname": "vtxbackup"},
    ]  # fmt: skip
    commands, kept = link_commands(parse({"version": 2}, "vt"), "vt", links)
    assert commands == [f"link delete {name}" for name in (BRIDGE, TUNNEL, VLAN)]
    assert kept == []


def lines_of(text: str, table: str, chain: str) -> list[str]:
    """The lines of a chain of one of the tables."""
    inside = text.split(f"table {table} vetro {{\n", 1)[1].split(f"chain {chain} {{\n", 1)[1]
    lines = [line.strip() for line in inside.split("}\n", 1)[0].splitlines()]
    return [line for line in lines if line and not line.startswith("type filter")]


def test_the_gateway_stays_on_its_node() -> None:
    """No frame of it or query for it crosses a tunnel, and no remote node answers for it."""
    text, mac = render(state(), "vt"), gateway_mac(NET)
    assert lines_of(text, "bridge", "postrouting") == [
        f'oifname "{TUNNEL}" ether saddr {mac} drop',
        f'oifname "{TUNNEL}" ether type arp arp daddr ip 10.0.0.1 drop',
    ]
    assert lines_of(text, "bridge", "prerouting")[:2] == [
        f'iifname "{TUNNEL}" ether saddr {mac} drop',
        f'iifname "{TUNNEL}" ether type arp arp saddr ip 10.0.0.1 drop',
    ]


def test_only_nodes_of_the_fabrics_may_send_tunnelled_frames() -> None:
    """Everybody else's are dropped; without fabrics there is nothing to guard."""
    assert lines_of(render(state(), "vt"), "inet", "input") == [
        "udp dport 14789 ip saddr != { 192.0.2.2, 192.0.2.3 } counter drop"
    ]
    assert lines_of(render(state({"remotes": []}), "vt"), "inet", "input") == [
        "udp dport 14789 counter drop"
    ]
    assert "chain input" not in render(state({"vni": 0}), "vt")


def test_groups_have_members_on_other_nodes() -> None:
    """A rule for a group covers them as well as those here."""
    groups = [
        {"uuid": "g", "members": ["10.0.0.99"],
         "rules": [{"direction": "ingress", "remote_group_id": "g"}]}
    ]  # fmt: skip
    nics = [
        {
            "mac": "fa:16:3e:01:02:03",
            "network_uuid": NET,
            "ip": "10.0.0.5",
            "security_groups": ["g"],
        }
    ]
    text = render(state(nics=nics, security_groups=groups), "vt")
    assert "elements = { 10.0.0.5, 10.0.0.99 }" in text


@pytest.mark.parametrize(
    ("permits", "present", "absent"),
    [
        ({}, ["ether saddr != fa:16:3e:01:02:03 drop", "udp sport 67 drop"], ["{ ip, arp } accept"]),
        ({"allow_ip_spoofing": True}, ["ether type { ip, arp } accept"], ["ip saddr {"]),
        ({"allow_mac_spoofing": "true"}, ["ip saddr { 10.0.0.5 } accept"], ["ether saddr"]),
        ({"allow_dhcp_spoofing": True}, ["ip saddr { 10.0.0.5 } accept"], ["sport 67"]),
        ({"allow_restricted_traffic": True}, ["ether type { ip, arp } drop"], []),
        ({"blocked_outgoing_ports": [25, 25]}, ["tcp dport { 25 } drop", "udp dport { 25 } drop"], []),
    ],
)  # fmt: skip
def test_what_an_interface_may_send(
    permits: dict[str, Any], present: list[str], absent: list[str]
) -> None:
    """Only as itself, unless its object permits more; blocked ports are blocked in any case."""
    nic = {"mac": "fa:16:3e:01:02:03", "network_uuid": NET, "ip": "10.0.0.5", **permits}
    lines = "\n".join(lines_of(render(state(nics=[nic]), "vt"), "bridge", "from_vtv3e010203"))
    for text in present:
        assert text in lines
    for text in absent:
        assert text not in lines


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"vni": 1 << 24}, r"networks\[0\].vni"),
        ({"remotes": ["everybody"]}, r"networks\[0\].remotes"),
        ({"uplink": {"nic_tag": "a b"}}, "not the name of a tag"),
        ({"uplink": {"nic_tag": "a", "vlan_id": 4095}}, "vlan_id"),
    ],
)
def test_bad_fabrics_are_refused_with_their_place(network: dict[str, Any], message: str) -> None:
    """Before anything is changed."""
    with pytest.raises(NetworkError, match=message):
        state(network)


def test_two_fabrics_never_share_a_number() -> None:
    """They would be one Ethernet."""
    networks = [
        {"uuid": NET, "cidr": "10.0.0.0/24", "vni": 5},
        {"uuid": "bbbbbbbb-1100-4000-8000-000000000001", "cidr": "10.1.0.0/24", "vni": 5},
    ]
    with pytest.raises(NetworkError, match="share a fabric number"):
        parse({"version": 1, "networks": networks}, "vt")


@pytest.mark.root
def test_the_kernel_understands_the_rules_of_fabrics() -> None:
    """``nft`` accepts the text (it is checked, not applied)."""
    nic = {
        "mac": "fa:16:3e:01:02:03", "network_uuid": NET, "ip": "10.0.0.5",
        "allow_restricted_traffic": True, "blocked_outgoing_ports": [25],
    }  # fmt: skip
    text = render(state(nics=[nic]), "vt")
    subprocess.run(["nft", "-c", "-f", "-"], input=text.encode(), check=True)


@pytest.mark.root
async def test_a_gateway_keeps_its_address_when_instances_come(tmp_path: Path) -> None:
    """Whatever the MACs of a bridge's ports: neighbours go on finding it where they did."""
    network = {"uuid": NET, "name": "n", "cidr": "10.213.0.0/24", "gateway": "10.213.0.1"}
    applier = NetworkApplier("qgw", tmp_path / "state.json")
    bridge, port = bridge_name("qgw", NET), "qgwport"
    try:
        await applier.apply({"version": 1, "networks": [network]})
        for command in (
            f"ip link add {port} address 02:00:00:00:00:01 type veth peer name qgwpeer",
            f"ip link set {port} master {bridge} up",
        ):
            subprocess.run(command.split(), check=True)
        assert Path(f"/sys/class/net/{bridge}/address").read_text().strip() == gateway_mac(NET)
    finally:
        subprocess.run(["ip", "link", "delete", port], check=False)
        await applier.withdraw()
