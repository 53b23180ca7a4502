"""Where guests without an IPv4 address find their door: at its IPv4 address, embedded in an IPv6 one.

Guests get one address of the door, the first of the external network. Every node that has an IPv6
network has it in IPv6 as well, as RFC 6052 embeds it, below the prefix that RFC 8215 keeps for such local
use: `198.18.0.1` is `64:ff9b:1::c612:1`. It follows from the IPv4 address, so that nobody has to store it,
and no subnet can have it (`::/8` is refused).
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

PREFIX = ipaddress.IPv6Network("64:ff9b:1::/96")


def embedded(address: str) -> str:
    """The IPv6 address of an IPv4 one. Raises `ValueError` for what is no IPv4 address."""
    return str(PREFIX[int(ipaddress.IPv4Address(address))])


def over_ipv6(url: str) -> str | None:
    """A URL with its IPv4 address embedded; `None` when its host is a name or an IPv6 address."""
    parts = urlsplit(url)
    try:
        host = embedded(parts.hostname or "")
    except ValueError:
        return None
    port = "" if parts.port is None else f":{parts.port}"
    return parts._replace(netloc=f"[{host}]{port}").geturl()


def plain_door(door: str) -> str:
    """``HOST:PORT`` with the IPv4 address that is embedded in its IPv6 one; any other as it is."""
    host, bracket, port = door.removeprefix("[").partition("]")
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return door
    if not bracket or address not in PREFIX:
        return door
    return f"{ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)}{port}"
