"""Doors that guests were given when the service was elsewhere (decision 0793).

A machine finds its mailbox where the service was when the machine was made. On another port or address the
service goes on listening there as well, for guests only, until each of them has come to the new door.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from urllib.parse import urlsplit

import structlog

from vetro.server.errors import StartError
from vetro.server.listeners import listen

log = structlog.get_logger(__name__)


def place_of(door: str) -> tuple[str, int] | None:
    """The address and port of a door, ``HOST:PORT``; ``None`` where it has a name, which leads elsewhere."""
    try:
        parts = urlsplit(f"//{door}")
        host, port = parts.hostname or "", parts.port or 80
        if host == "localhost":
            return "127.0.0.1", port
        return str(ipaddress.ip_address(host)), port
    except ValueError:
        return None


def open_former(
    doors: Iterable[str],
    served: Collection[tuple[str, int]],
    appearing: Collection[str],
    sockets: ExitStack,
) -> list[socket.socket]:
    """Listen at those doors that no socket serves; one that cannot be opened is logged.

    ``served``: addresses and ports that are listened on; ``appearing``: addresses that the node makes later;
    ``sockets`` closes what is opened.
    """
    opened: list[socket.socket] = []
    for door in doors:
        place = place_of(door)
        if place is None:
            continue
        # What the node makes it makes for both families.
        for host in appearing if place[0] in appearing else place[:1]:
            if _is_served((host, place[1]), served):
                continue
            try:
                listener = listen(host, place[1], before_address_exists=host in appearing)
            except StartError as error:
                log.warning(
                    "former_door_closed",
                    door=door,
                    error=str(error),
                    advice="Machines come to their mailboxes there and cannot be reached: free the port"
                    " and start again, or start where the service was and deploy their environments once.",
                )
                continue
            opened.append(sockets.enter_context(listener))
            log.info("former_door_open", door=door)
    return opened


def _is_served(place: tuple[str, int], served: Collection[tuple[str, int]]) -> bool:
    host, port = place
    everywhere = ("::",) if ":" in host else ("::", "0.0.0.0")  # noqa: S104 - compared only
    return any((one, port) in served for one in (host, *everywhere))
