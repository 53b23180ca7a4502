"""Listening sockets, bound before anything else starts, so that a port in use is reported at once.

Guests reach their mailboxes at an address on the node that exists only after the node agent has
created its networks. Its socket is bound early with ``IP_FREEBIND``, so that neither has to wait
for the other.
"""

from __future__ import annotations

import errno
import socket

from vetro.server.errors import StartError

# Not in Python's socket module; linux/in.h and in6.h.
IP_FREEBIND = (socket.IPPROTO_IP, 15)
IPV6_FREEBIND = (socket.IPPROTO_IPV6, 78)


def listen(host: str, port: int, *, before_address_exists: bool = False) -> socket.socket:
    """A bound, listening TCP socket; ``port`` 0 takes a free one.

    Errors: ``StartError`` when the port is in use, needs privileges or the address is not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's delay (40 ms per answer) only for sockets that name their protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if before_address_exists:
            listener.setsockopt(*(IPV6_FREEBIND if family == socket.AF_INET6 else IP_FREEBIND), 1)
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise _start_error(host, port, error) from error
    listener.setblocking(False)
    return listener


def machine_has_ipv6() -> bool:
    """Whether this machine's kernel has IPv6 at all."""
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


def _start_error(host: str, port: int, error: OSError | OverflowError) -> StartError:
    code = getattr(error, "errno", None)
    if code == errno.EADDRINUSE:
        return StartError(
            f"Port {port} on {host} is in use",
            f"Another Vetro or service listens there: stop it, or choose another with --port"
            f" (it answers? try curl {url_at(host, port)}/healthz).",
        )
    if code == errno.EACCES:
        return StartError(
            f"Port {port} on {host} may not be opened by this user",
            "Choose a port above 1023 with --port, or run as root.",
        )
    if code == errno.EADDRNOTAVAIL:
        return StartError(
            f"{host} is not an address of this machine",
            "Choose one that 'ip address' shows with --host, or 0.0.0.0 for all.",
        )
    return StartError(f"Cannot listen on {host} port {port}: {error}", "See --host and --port.")


def port_of(listener: socket.socket) -> int:
    """The port of a listening socket."""
    return int(listener.getsockname()[1])


def reachable(host: str) -> str:
    """An address of this machine at which what listens on ``host`` can be reached."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host  # noqa: S104 - compared only


def url_at(host: str, port: int) -> str:
    """The URL of a service at a host (a name or an address of either sort) and port, without a path."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
