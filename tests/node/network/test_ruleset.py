"""Packet rules and links for a wanted network state."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from vetro.node.errors import NetworkError
from vetro.node.network.apply import link_commands, neighbour_commands
from vetro.node.network.names import bridge_name, external_name, host_interface_name, ours
from vetro.node.network.ruleset import render, table_name
from vetro.node.network.state import EMPTY, parse

NET = "aabbccdd-0000-4000-8000-000000000001"


def state(**changes: Any) -> dict[str, Any]:
    """A state with one network and one guarded interface."""
    return {
        "version": 3,
        "external": {"cidr": "172.24.4.0/24", "gateway": "172.24.4.1"},
        "networks": [
            {"uuid": NET, "name": "n", "cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "mtu": 1450,
             "masquerade": True}
        ],
        "nics": [
            {"mac": "fa:16:3e:01:02:03", "vm_uuid": "v", "network_uuid": NET, "ip": "10.0.0.5",
             "security_groups": ["g"]}
        ],
        "security_groups": [
            {"uuid": "g", "rules": [
                {"direction": "ingress", "protocol": "tcp", "port_range_min": 80,
                 "port_range_max": 80, "remote_ip_prefix": "0.0.0.0/0"},
                {"direction": "ingress", "protocol": "udp", "port_range_min": 100,
                 "port_range_max": 200, "remote_ip_prefix": "192.0.2.0/24"},
                {"direction": "ingress", "protocol": "icmp", "port_range_min": 8,
                 "port_range_max": 0},
                {"direction": "ingress", "remote_group_id": "g"},
                {"direction": "ingress", "ethertype": "IPv6", "protocol": "tcp"},
            ]}
        ],
        "floating_ips": [
            {"address": "172.24.4.9", "fixed_ip": "10.0.0.5", "mac": "fa:16:3e:01:02:03"}
        ],
        **changes,
    }  # fmt: skip


def rules(text: str, chain: str) -> list[str]:
    """The lines of one chain."""
    inside = text.split(f"chain {chain} {{\n", 1)[1].split("}\n", 1)[0]
    return [line.strip() for line in inside.splitlines() if line.strip()]


def test_security_group_rules_end_in_a_drop() -> None:
    """Ports, ranges, prefixes, ICMP types and groups become matches; IPv6 rules have no traffic."""
    text = render(parse(state(), "vt"), "vt")
    assert rules(text, "in_vtv3e010203") == [
        "tcp dport 80 accept",
        "ip saddr 192.0.2.0/24 udp dport 100-200 accept",
        "icmp type 8 icmp code 0 accept",
        "ip saddr @group_g accept",
        "counter drop",
    ]


def test_only_guarded_interfaces_are_filtered() -> None:
    """An interface without groups is open; one with groups is looked up by bridge and address."""
    nics = [*state()["nics"], {"mac": "fa:16:3e:00:00:09", "network_uuid": NET, "ip": "10.0.0.9"}]
    text = render(parse(state(nics=nics), "vt"), "vt")
    assert '"vtbaabbccdd" . 10.0.0.5 : jump in_vtv3e010203' in text
    assert "in_vtv3e000009" not in text
    assert "chain from_vtv3e000009" in text


def test_groups_without_egress_rules_let_everything_out() -> None:
    """Egress is restricted only by a group with egress rules."""
    assert "out_vtv3e010203" not in render(parse(state(), "vt"), "vt")
    groups = [{"uuid": "g", "rules": [{"direction": "egress", "protocol": "tcp"}]}]
    text = render(parse(state(security_groups=groups), "vt"), "vt")
    assert rules(text, "out_vtv3e010203") == ["meta l4proto tcp accept", "counter drop"]


def test_an_interface_may_only_speak_as_itself() -> None:
    """MAC, IPv4 and ARP are tied to the interface; anything else is dropped there."""
    nics = [{**state()["nics"][0], "allowed_addresses": ["10.0.0.100/32"]}]
    text = render(parse(state(nics=nics), "vt"), "vt")
    lines = rules(text, "from_vtv3e010203")
    assert lines[0] == "ether saddr != fa:16:3e:01:02:03 drop"
    assert lines[1] == "ether type ip udp sport 67 drop"
    assert lines[2] == "ether type ip ip saddr { 10.0.0.5, 10.0.0.100/32 } accept"
    assert lines[-1] == "drop"


def test_tables_are_replaced_in_one_step() -> None:
    """Add, delete, define: one transaction whether the tables were there or not."""
    text = render(parse(state(), "vt"), "vt")
    assert text.startswith("table inet vetro\ndelete table inet vetro\n")
    assert text.index("delete table bridge vetro") < text.index("table inet vetro {")


def test_nothing_wanted_means_no_tables() -> None:
    """An empty state only deletes."""
    assert "{" not in render(EMPTY, "vt")


def test_agents_with_other_prefixes_have_other_tables() -> None:
    """Several agents share a machine without sharing names."""
    assert (table_name("vt"), table_name("q1")) == ("vetro", "vetro_q1")
    assert bridge_name("q1", NET) == "q1baabbccdd"
    assert host_interface_name("q1", "fa:16:3e:01:02:03") == "q1v3e010203"
    assert ours("vt", bridge_name("vt", NET))
    assert ours("vt", external_name("vt"))
    assert not ours("vt", "vtv3e010203")
    assert not ours("vt", "vtb-of-somebody")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"networks": [{"uuid": "x"}]}, r"networks\[0\].uuid: 'x' is not a uuid"),
        ({"networks": [{"uuid": NET, "cidr": "10.0.0.0/99"}]}, r"networks\[0\].cidr"),
        ({"networks": [{"uuid": NET, "cidr": "10.0.0.0/24", "gateway": "10.9.0.1"}]}, "outside"),
        ({"networks": [{"uuid": NET, "cidr": "10.0.0.0/24", "mtu": 5}]}, "mtu"),
        ({"networks": "none"}, "networks must be an array"),
        ({"nics": [{"mac": "zz", "network_uuid": NET, "ip": "10.0.0.5"}]}, "not a MAC"),
        ({"nics": [{"mac": "02:00:00:00:00:01", "network_uuid": "?", "ip": "1.1.1.1"}]}, "unknown"),
        ({"nics": [{"mac": "02:00:00:00:00:01", "network_uuid": NET, "ip": "9.9.9.9"}]}, "outside"),
        ({"security_groups": []}, "unknown security group g"),
        (
            {"security_groups": [{"uuid": "g", "rules": [{"protocol": "tcp; drop"}]}]},
            "not a protocol",
        ),
        (
            {"security_groups": [{"uuid": "g", "rules": [{"port_range_min": "80 accept"}]}]},
            "not between 0 and 65535",
        ),
        (
            {"security_groups": [{"uuid": "g", "rules": [{"direction": "sideways"}]}]},
            "neither ingress nor egress",
        ),
        (
            {"security_groups": [{"uuid": "g", "rules": [{"remote_ip_prefix": "x"}]}]},
            "not an IPv4 network",
        ),
        ({"floating_ips": [{"address": "1.2.3", "fixed_ip": "10.0.0.5"}]}, "not an IPv4 address"),
    ],
)
def test_bad_states_are_refused_with_their_place(change: dict[str, Any], message: str) -> None:
    """Nothing that is not an address, a number or a known name reaches the rules."""
    with pytest.raises(NetworkError, match=message):
        parse(state(**change), "vt")


def test_overlapping_networks_are_refused() -> None:
    """One machine routes an address to one network only."""
    networks = [
        {"uuid": NET, "name": "a", "cidr": "10.0.0.0/16"},
        {"uuid": "bbbbbbbb-0000", "name": "b", "cidr": "10.0.1.0/24"},
    ]
    with pytest.raises(NetworkError, match="overlap"):
        parse(state(networks=networks, nics=[]), "vt")


def link(name: str, *addresses: str, up: bool = True, **more: Any) -> dict[str, Any]:
    """A link as `ip -j -d address` shows it."""
    return {
        "ifname": name,
        "mtu": 1450,
        "flags": ["UP"] if up else [],
        "linkinfo": {"info_data": {"nf_call_iptables": 1}},
        "addr_info": [
            {"family": "inet", "local": a.split("/")[0], "prefixlen": int(a.split("/")[1])}
            for a in addresses
        ],
        **more,
    }


def test_links_that_are_missing_are_made() -> None:
    """Bridge, address, up; the external interface carries every floating address as /32."""
    commands, kept = link_commands(parse(state(), "vt"), "vt", [])
    assert commands[0].startswith("link add vtbaabbccdd mtu 1450 type bridge")
    assert "address add 10.0.0.1/24 dev vtbaabbccdd" in commands
    assert "address add 172.24.4.9/32 dev vtext" in commands
    assert "address add 172.24.4.1/32 dev vtext" in commands
    assert kept == []


def test_links_that_are_right_are_left_alone() -> None:
    """The second apply has nothing to do."""
    current = [
        link("vtbaabbccdd", "10.0.0.1/24"),
        link("vtext", "172.24.4.1/32", "172.24.4.9/32", mtu=1500),
        link("eth0", "192.168.0.1/24"),
    ]
    assert link_commands(parse(state(), "vt"), "vt", current) == ([], [])


def test_links_that_are_wrong_are_repaired() -> None:
    """MTU, filter flag, extra addresses and a link that is down."""
    current = [
        link("vtbaabbccdd", "10.0.0.1/24", "10.0.0.77/24", up=False, mtu=1500, linkinfo={}),
        link("vtext", "172.24.4.1/32", "172.24.4.9/32", "172.24.4.10/32", mtu=1500),
    ]
    commands, _ = link_commands(parse(state(), "vt"), "vt", current)
    assert commands == [
        "link set vtbaabbccdd mtu 1450",
        "link set vtbaabbccdd type bridge nf_call_iptables 1",
        "address delete 10.0.0.77/24 dev vtbaabbccdd",
        "link set vtbaabbccdd up",
        "address delete 172.24.4.10/32 dev vtext",
    ]


def test_only_our_own_unused_links_are_removed() -> None:
    """A bridge that still has an instance stays and is named; strangers' links are not touched."""
    current = [
        link("vtb00000001"),
        link("vtb00000002"),
        link("vtv12345678", master="vtb00000002"),
        link("docker0"),
        link("vtbackup"),
    ]
    commands, kept = link_commands(EMPTY, "vt", current)
    assert commands == ["link delete vtb00000001"]
    assert kept == ["vtb00000002"]


def test_neighbours_follow_the_interfaces() -> None:
    """New, changed and gone entries; those of other interfaces stay."""
    current = [
        {"dev": "vtbaabbccdd", "dst": "10.0.0.5", "lladdr": "02:00:00:00:00:99"},
        {"dev": "vtbaabbccdd", "dst": "10.0.0.66", "lladdr": "02:00:00:00:00:66"},
        {"dev": "eth0", "dst": "192.168.0.2", "lladdr": "02:00:00:00:00:01"},
    ]
    assert neighbour_commands(parse(state(), "vt"), "vt", current) == [
        "neighbour delete 10.0.0.66 dev vtbaabbccdd",
        "neighbour replace 10.0.0.5 dev vtbaabbccdd lladdr fa:16:3e:01:02:03 nud permanent",
    ]


SIX = "66666666-0000-4000-8000-000000000001"


def both_families() -> dict[str, Any]:
    """The state with an IPv6 network that spans nodes, too."""
    given = state()
    given["networks"].append({"uuid": SIX, "cidr": "fd7e::/64", "vni": 7, "remotes": ["192.0.2.1"]})
    given["nics"].append(
        {"mac": "fa:16:3e:06:06:06", "network_uuid": SIX, "ip": "fd7e::5", "security_groups": ["g"],
         "allowed_addresses": ["fd7e::100/120", "10.0.0.100"]}
    )  # fmt: skip
    given["security_groups"][0]["rules"] += [
        {"ethertype": "IPv6", "protocol": "icmp", "port_range_min": 128},
        {"ethertype": "IPv6", "remote_group_id": "g"},
        {"ethertype": "IPv6", "direction": "egress", "remote_ip_prefix": "fd00::/8"},
    ]
    given["security_groups"][0]["members"] = ["fd7e::9", "10.0.0.9"]
    return given


def test_rules_of_each_family_are_for_its_own_addresses() -> None:
    """An IPv6 interface has IPv6's rules, finds its neighbours, and speaks for no other address."""
    text = render(parse(both_families(), "vt"), "vt")
    assert rules(text, "in_vtv3e060606") == [
        "meta l4proto tcp accept",
        "icmpv6 type 128 accept",
        "ip6 saddr @group_g_ipv6 accept",
        "counter drop",
    ]
    assert "ip saddr @group_g accept" in rules(text, "in_vtv3e010203")
    assert "elements = { fd7e::5, fd7e::9 }" in text
    neighbours = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept"
    assert text.index(neighbours) < text.index("oifname . ip6 daddr vmap")
    sent = rules(text, "from_vtv3e060606")
    own = "0xfd7e0000000000000000000000000005, 0xfd7e0000000000000000000000000100-"
    assert any(f"@th,64,128 != {{ {own}" in line for line in sent)
    assert "ether type ip6 ip6 saddr { fd7e::5, fd7e::100/120 } accept" in sent
    assert "icmpv6 type { nd-router-advert, nd-redirect } drop" in sent
    assert sent[-1] == "drop"


def test_ipv6_bridges_have_their_filter_and_a_gateway_at_once() -> None:
    """The kernel's filter for bridged IPv6, and an address that is not probed for first."""
    commands, _ = link_commands(parse(both_families(), "vt"), "vt", [])
    assert any(one.endswith("nf_call_iptables 1 nf_call_ip6tables 1") for one in commands)
    assert f"address add fd7e::1/64 dev {bridge_name('vt', SIX)} nodad" in commands


def test_the_door_has_an_ipv6_address_where_instances_have() -> None:
    """The external gateway's, embedded; a node without IPv6 networks has none."""
    given = {**both_families(), "external": {"cidr": "198.18.0.0/24", "gateway": "198.18.0.1"}}
    added = "address add 64:ff9b:1::c612:1/128 dev vtext nodad"
    assert added in link_commands(parse(given, "vt"), "vt", [])[0]
    given["networks"] = [one for one in given["networks"] if ":" not in one["cidr"]]
    given["nics"] = [one for one in given["nics"] if ":" not in one["ip"]]
    assert added not in link_commands(parse(given, "vt"), "vt", [])[0]


@pytest.mark.root
def test_the_kernel_understands_the_rules() -> None:
    """`nft` accepts the text (it is checked, not applied)."""
    text = render(parse(both_families(), "zzz"), "zzz")
    subprocess.run(["nft", "-c", "-f", "-"], input=text.encode(), check=True)
