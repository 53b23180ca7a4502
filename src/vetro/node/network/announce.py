"""Announcing that an address has a new owner."""

from __future__ import annotations

import ipaddress
import socket
import struct

import structlog

log = structlog.get_logger(__name__)


def announce(interface: str, mac: str, address: str) -> None:
    """Send a gratuitous ARP for ``address`` at ``mac`` out of ``interface``.

    Without it, neighbours would send to the address's last owner for up to half a minute. IPv6
    needs none: its addresses are not reused.
    """
    ip = ipaddress.ip_address(address)
    if ip.version != 4:
        return
    hardware = bytes.fromhex(mac.replace(":", ""))
    everybody = b"\xff" * 6
    # A request for the own address: every host updates its table, none answers.
    arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + hardware + ip.packed + b"\0" * 6 + ip.packed
    frame = everybody + hardware + struct.pack("!H", 0x0806) + arp
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK) as packets:
            packets.bind((interface, 0))
            packets.send(frame)
    except OSError as error:
        log.warning("address_not_announced", interface=interface, error=str(error))
