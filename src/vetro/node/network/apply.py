"""Bringing this machine's links, addresses and rules to the wanted state.

Uses ``ip -j`` and ``ip -batch``: two short processes for any number of links. pyroute2 would save
them (about 6 ms) but costs 0.14 s and 20 MiB at import, and blocks the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from vetro.ipv6_door import embedded
from vetro.node.commands import run
from vetro.node.errors import CommandFailed, NetworkError
from vetro.node.files import read_json, write_json
from vetro.node.network import fabric
from vetro.node.network.names import external_name, is_instance, ours
from vetro.node.network.ruleset import render
from vetro.node.network.state import State, parse

log = structlog.get_logger(__name__)

_IP_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")
_IPV6 = Path("/proc/sys/net/ipv6/conf")
_BRIDGE_FILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


@dataclass(eq=False, repr=False)
class NetworkApplier:
    """The networks of one agent. The last applied state is kept in ``file``.

    ``underlay``: this node's address for tunnels to others; ``uplink(tag)``: the interface that carries
    a NIC tag; ``gateway(address)`` is called with the external gateway's address, '' when there is none.
    """

    prefix: str
    file: Path
    underlay: str = ""
    uplink: Callable[[str], str | None] = lambda _tag: None
    gateway: Callable[[str], Awaitable[None]] | None = None

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()
        # Valid for this agent's life only: a service that lost its database counts from the
        # beginning.
        self._version = 0

    async def restore(self) -> None:
        """Apply the kept state again: after a restart of the machine, or a manual change."""
        kept = read_json(self.file)
        if kept is not None:
            await self._apply(kept)

    async def withdraw(self) -> None:
        """Remove all interfaces and rules that this class made; ``restore`` creates them again."""
        async with self._lock:
            await self._apply({})

    def forget_version(self) -> None:
        """Accept the next state whatever its version: the service began to count again."""
        self._version = 0

    async def apply(self, value: Mapping[str, Any]) -> dict[str, object]:
        """Reach ``value`` (a ``NetworkState``); interfaces and rules that it does not name are removed.

        Returns ``{version, applied, kept}``. A state older than the last one is not applied
        (``applied`` false): messages may overtake each other. ``kept``: bridges that are not wanted
        but still have instances. Errors: ``NetworkError``.
        """
        async with self._lock:
            version = int(value.get("version") or 0)
            if version < self._version:
                log.info("old_network_state_ignored", version=version)
                return {"version": self._version, "applied": False, "kept": []}
            kept = await self._apply(value)
            self._version = version
            write_json(self.file, value)
            return {"version": version, "applied": True, "kept": kept}

    async def _apply(self, value: Mapping[str, object]) -> list[str]:
        state = parse(value, self.prefix)
        await self._make_filter_available(state)
        try:
            # One process for both queries: starting one costs as much as all its output.
            shown = await run(
                "ip", "-j", "-d", "-batch", "-",
                stdin=b"address show\nneighbour show nud permanent\n",
            )  # fmt: skip
            links, _, neighbours = shown.output.partition("\n")
            current = msgspec.json.decode(links)
            commands, kept = link_commands(state, self.prefix, current)
            present = {str(link["ifname"]): link for link in current}
            commands += fabric.gateway_commands(state, present)
            commands += fabric.tunnel_commands(state, self.prefix, present, self.underlay)
            commands += fabric.uplink_commands(state, self.prefix, current, self.uplink)
            commands += neighbour_commands(
                state, self.prefix, msgspec.json.decode(neighbours.strip() or "[]")
            )
            # The rules come first: an instance is never reachable without its groups.
            await run("nft", "-f", "-", stdin=render(state, self.prefix).encode())
            await _batch("ip", commands)
            if fabric.tunnels(state):
                peers = await run("bridge", "-j", "fdb", "show")
                known = msgspec.json.decode(peers.output.strip() or "[]")
                await _batch("bridge", fabric.peer_commands(state, self.prefix, known))
        except CommandFailed as error:
            raise NetworkError(f"The networks of version {state.version}: {error}") from error
        if self.gateway is not None:
            await self.gateway(str(state.external_gateway or ""))
        return kept

    async def _make_filter_available(self, state: State) -> None:
        if not state.networks:
            return
        if not _BRIDGE_FILTER.exists():
            await run("modprobe", "br_netfilter", check=False)
        if not _BRIDGE_FILTER.exists():
            raise NetworkError(
                "This kernel has no br_netfilter: security groups between instances of one network"
                " cannot be enforced. Load the module, or use a kernel that has it"
            )
        if _IP_FORWARD.read_text().strip() != "1":
            log.info("ipv4_forwarding_enabled")
            _IP_FORWARD.write_text("1\n")
        ipv6 = [network for network in state.networks if network.cidr.version == 6]
        if ipv6 and not _IPV6.exists():
            raise NetworkError(
                f"Network {ipv6[0].name} is an IPv6 network ({ipv6[0].cidr}), and this kernel has no IPv6"
            )
        if any(network.masquerade for network in ipv6):
            _forward_ipv6()


def _forward_ipv6() -> None:
    """Let this machine forward IPv6, without losing the routes that it learns from its own routers.

    An interface that accepts advertisements (1) stops doing so when the machine forwards; one with 2
    continues.
    """
    forwarding = _IPV6 / "all" / "forwarding"
    if forwarding.read_text().strip() == "1":
        return
    for accepting in sorted(_IPV6.glob("*/accept_ra")):
        if accepting.read_text().strip() == "1":
            accepting.write_text("2\n")
    log.info("ipv6_forwarding_enabled")
    forwarding.write_text("1\n")


def neighbour_commands(
    state: State, prefix: str, current: Sequence[Mapping[str, object]]
) -> list[str]:
    """The ``ip`` commands that set the neighbour table: which interface has which address.

    No lookups are needed, and an address that changes hands is correct at once.
    """
    present = {
        (str(entry["dev"]), str(entry["dst"])): entry.get("lladdr")
        for entry in current
        if ours(prefix, str(entry["dev"]))
    }
    wanted = {(port.network.bridge, str(port.ip)): port.mac for port in state.ports}
    bridges = {network.bridge for network in state.networks}
    return [
        *(
            f"neighbour delete {address} dev {device}"
            for device, address in present
            # Removing a bridge removes its neighbours.
            if (device, address) not in wanted and device in bridges
        ),
        *(
            f"neighbour replace {address} dev {device} lladdr {mac} nud permanent"
            for (device, address), mac in wanted.items()
            if present.get((device, address)) != mac
        ),
    ]


def link_commands(
    state: State, prefix: str, current: list[dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """The ``ip`` commands that lead from ``current`` (``ip -j -d address``) to ``state``.

    Also returns the names of unwanted bridges that still have instances on them: they stay.
    """
    wanted: dict[str, tuple[int, list[str]]] = {
        n.bridge: (n.mtu, [] if n.uplink else [f"{n.gateway}/{n.cidr.prefixlen}"])
        for n in state.networks
    }
    ipv6 = {n.bridge for n in state.networks if n.cidr.version == 6}
    others = fabric.wanted_links(state, prefix)
    floating = [f"{address}/32" for address in sorted(state.floating)]
    if state.external_gateway is not None:
        floating.insert(0, f"{state.external_gateway}/32")
        if ipv6:
            # The guests' door, for instances without an IPv4 address.
            floating.append(f"{embedded(str(state.external_gateway))}/128")
    if floating:
        wanted[external_name(prefix)] = (1500, list(dict.fromkeys(floating)))

    present: dict[str, dict[str, Any]] = {
        str(link["ifname"]): link for link in current if ours(prefix, str(link["ifname"]))
    }
    # Tunnels, VLANs and the machine's own interfaces do not keep a bridge.
    ports = {link.get("master") for link in current if is_instance(prefix, str(link["ifname"]))}
    commands: list[str] = []
    kept: list[str] = []
    for name in present:
        if name not in wanted and name not in others:
            if name in ports:
                kept.append(str(name))
            else:
                commands.append(f"link delete {name}")
    for name, (mtu, addresses) in wanted.items():
        link = present.get(name)
        filters = ["nf_call_iptables", *(["nf_call_ip6tables"] if name in ipv6 else [])]
        if link is None:
            commands.append(
                f"link add {name} mtu {mtu} type bridge"
                f" stp_state 0 forward_delay 0 {' '.join(f'{one} 1' for one in filters)}"
            )
            # The bridge chooses no IPv6 address by itself: of the gateway's, it has the given one.
            commands.append(f"link set {name} addrgenmode none")
        else:
            if link.get("mtu") != mtu:
                commands.append(f"link set {name} mtu {mtu}")
            have_filters = link.get("linkinfo", {}).get("info_data", {})
            commands += [
                f"link set {name} type bridge {one} 1"
                for one in filters
                if not have_filters.get(one)
            ]
        have = {
            f"{entry['local']}/{entry['prefixlen']}"
            for entry in (link or {}).get("addr_info", [])
            if entry.get("family") == "inet" or entry.get("scope") == "global"
        }
        commands += [
            f"address delete {address} dev {name}" for address in sorted(have - {*addresses})
        ]
        commands += [
            f"address add {address} dev {name}{' nodad' if ':' in address else ''}"
            for address in addresses
            if address not in have
        ]
        if link is None or "UP" not in link.get("flags", []):
            commands.append(f"link set {name} up")
    return commands, sorted(kept)


async def _batch(tool: str, commands: list[str]) -> None:
    if commands:
        await run(tool, "-batch", "-", stdin="".join(f"{c}\n" for c in commands).encode())
