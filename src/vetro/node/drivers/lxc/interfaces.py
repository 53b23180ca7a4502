"""Interfaces of a running container: added, changed and removed without stopping it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vetro.node.commands import run
from vetro.node.drivers.lxc.config import guest_name, prefix_length
from vetro.node.errors import CommandFailed, DriverError
from vetro.node.guest.instance_files import address_of
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.vm_records import Nic

# A change of one of these requires a new interface.
_IDENTITY = ("mac", "network_uuid", "interface")
# These are enforced by the network's rules, not by the interface.
_RULES = (
    "security_groups", "allowed_addresses", "allow_ip_spoofing", "allow_mac_spoofing",
    "allow_dhcp_spoofing", "allow_restricted_traffic", "allow_unfiltered_promisc",
    "blocked_outgoing_ports",
)  # fmt: skip


@dataclass(frozen=True)
class Changes:
    """``ip`` commands: ``host`` on the machine, ``guest`` inside the container's network."""

    host: list[str]
    guest: list[str]


def changes(
    before: Sequence[Nic],
    after: Sequence[Nic],
    prefix: str,
    init: int,
) -> Changes:
    """The commands from one list of interfaces to the other. ``init``: the first process."""
    old = {str(nic["mac"]): nic for nic in before}
    new = {str(nic["mac"]): nic for nic in after}
    host: list[str] = []
    guest: list[str] = []
    for mac, nic in old.items():
        if mac not in new or any(nic.get(key) != new[mac].get(key) for key in _IDENTITY):
            host.append(f"link delete {host_interface_name(prefix, mac)}")
    for mac, nic in new.items():
        name, mtu = guest_name(nic), nic.get("mtu")
        kept = mac in old and all(old[mac].get(key) == nic.get(key) for key in _IDENTITY)
        if not kept:
            peer = host_interface_name(prefix, mac)
            bridge = bridge_name(prefix, str(nic.get("network_uuid")))
            said = f" mtu {int(mtu)}" if mtu else ""
            host += [
                f"link add {peer}{said} type veth peer name {name}{said} address {mac} netns {init}",
                f"link set {peer} master {bridge} up",
                f"link set {peer} type bridge_slave hairpin on",
            ]
            guest += _configure(nic, name)
        elif _without_rules(old[mac]) != _without_rules(nic):
            if mtu and mtu != old[mac].get("mtu"):
                host.append(f"link set {host_interface_name(prefix, mac)} mtu {int(mtu)}")
                guest.append(f"link set {name} mtu {int(mtu)}")
            guest.append(f"address flush dev {name}")
            guest += _configure(nic, name)
    return Changes(host, guest)


def _without_rules(nic: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in nic.items() if key not in _RULES}


def _configure(nic: Mapping[str, object], name: str) -> list[str]:
    commands: list[str] = []
    address = address_of(nic)
    if address is not None:
        commands.append(f"address replace {address}/{prefix_length(nic, address)} dev {name}")
    commands.append(f"link set {name} up")
    gateway = nic.get("gateway")
    if address is not None and gateway and nic.get("primary"):
        commands.append(
            f"route replace default via {ipaddress.ip_address(str(gateway))} dev {name}"
        )
    return commands


async def apply(wanted: Changes, init: int) -> None:
    """Run the commands. Errors: ``DriverError``."""
    try:
        if wanted.host:
            await run("ip", "-batch", "-", stdin="".join(f"{c}\n" for c in wanted.host).encode())
        if wanted.guest:
            await run(
                "nsenter", f"--net=/proc/{init}/ns/net", "ip", "-batch", "-",
                stdin="".join(f"{c}\n" for c in wanted.guest).encode(),
            )  # fmt: skip
    except CommandFailed as error:
        raise DriverError(f"The interfaces could not be changed: {error.output.strip()}") from error


def check_bridges(nics: Sequence[Mapping[str, object]], prefix: str, vm: str) -> None:
    """Errors: ``DriverError`` ``NetworkNotFound`` names a network without a bridge on this node."""
    for nic in nics:
        bridge = bridge_name(prefix, str(nic.get("network_uuid")))
        if not Path("/sys/class/net", bridge).exists():
            raise DriverError(
                f"Network {nic['network_uuid']} is not on this node: apply the networks"
                f" (network_apply) before VM {vm} is started",
                rest_code="NetworkNotFound",
            )
