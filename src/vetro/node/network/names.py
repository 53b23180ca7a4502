"""Names of the interfaces this agent creates: they begin with its prefix, and no others do."""

from __future__ import annotations

import re


def bridge_name(prefix: str, network_uuid: str) -> str:
    """The bridge of a network: ``<prefix>b`` and the first 8 hex digits of its uuid."""
    return f"{prefix}b{_hex(network_uuid)[:8]}"


def host_interface_name(prefix: str, mac: str) -> str:
    """The host's end of an instance's interface: ``<prefix>v`` and the last 8 digits of its MAC."""
    return f"{prefix}v{_hex(mac)[-8:]}"


def is_instance(prefix: str, name: str) -> bool:
    """Whether an interface is the host's end of an instance's."""
    return bool(re.fullmatch(rf"{prefix}v[0-9a-f]{{8}}", name))


def external_name(prefix: str) -> str:
    """The interface that carries floating addresses."""
    return f"{prefix}ext"


def tunnel_name(prefix: str, network_uuid: str) -> str:
    """The tunnel of a fabric to other nodes: ``<prefix>x`` and the bridge's digits."""
    return f"{prefix}x{_hex(network_uuid)[:8]}"


def vlan_name(prefix: str, network_uuid: str) -> str:
    """A network's VLAN on one of the machine's interfaces: ``<prefix>l`` and the bridge's digits."""
    return f"{prefix}l{_hex(network_uuid)[:8]}"


def gateway_mac(network_uuid: str) -> str:
    """The MAC of a network's gateway, the same on every node: guests may move between them."""
    digits = _hex(network_uuid).ljust(10, "0")[:10]
    return ":".join(["02", *(digits[i : i + 2] for i in range(0, 10, 2))])


def ours(prefix: str, name: str) -> bool:
    """Whether an agent with ``prefix`` created the interface ``name``."""
    return bool(re.fullmatch(rf"{prefix}([bxl][0-9a-f]{{8}}|ext)", name))


def _hex(text: str) -> str:
    return re.sub(r"[^0-9a-f]", "", text.lower())
