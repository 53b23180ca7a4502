"""How many connections a service holds, and which one is closed when there are too many.

Each connection uses a descriptor, of which a process has a limited number: a client that opens idle
connections could block the service for everyone. So connections are counted, for the process and
for each address, and above a limit the connection that has waited longest *without a complete
request* is closed. A normal client sends its request within milliseconds and is not affected. When
all the others are being served, the new connection is admitted to the reserve, where only the
operations pages (``/healthz`` …) answer.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Protocol

#: In the scope's state: why this connection may use only the operations pages.
LIMITED = "vetro.limited"
#: One event loop cannot use more descriptors than this; some programs iterate over all of them.
MOST_DESCRIPTORS = 65_536


@dataclass(frozen=True)
class ConnectionLimits:
    """What a client may take of connections and of time, on every port of a process; a node's task
    API has the same limits ([decision 0111](decisions/0111-slow-clients.md)).
    """

    header_seconds: float = 20.0
    """Seconds for all headers of a request."""
    body_seconds: float = 60.0
    """In every such span at least `body_bytes` of a request's body must come."""
    body_bytes: int = 8192
    """Bytes of a body that must come in `body_seconds`."""
    write_seconds: float = 120.0
    """Seconds after which the connection is closed when the client does not read its answer."""
    keep_alive_seconds: int = 75
    """Seconds that a connection may be silent between two requests."""
    total: int = 0
    """Connections at a time; 0: what the limit of open files leaves (three quarters)."""
    per_address: int = 0
    """Connections at a time from one address; 0: half of them."""
    reserve: int = 32
    """Connections on top, where `/healthz`, `/readyz` and `/metrics` (a node's `/ping`) answer."""
    max_header_line: int = 16_384
    """Bytes of a header of a request, name and value together, and of its target (431, 414); all headers
    together may have four times that, at least 65536."""
    backlog: int = 4096
    """Connections that wait until they are accepted; the system's `net.core.somaxconn` may be less."""
    tcp_keepidle: int = 600
    """Seconds of silence after which the system asks whether a client is still there; 0: never."""

    def problem(self) -> str:
        """The reason why this process cannot keep the limits, naming the field, or ''."""
        if not self.total:
            return ""
        if self.per_address > self.total:
            return f"per_address ({self.per_address}) is more than total ({self.total})"
        most = _for_connections(_most_descriptors()) - self.reserve
        if self.total > most:
            return (
                f"total ({self.total}) is more than the {max(0, most)} connections that the limit of"
                f" {_most_descriptors()} open files leaves beside the reserve of {self.reserve}"
            )
        return ""


class Client(Protocol):
    """A connection for the purposes of admission."""

    @property
    def address(self) -> str:
        """The other end's address; '' when it has none."""
        ...

    def cut_off(self) -> None:
        """Close the connection to free its descriptor."""
        ...


class Admission:
    """Counts connections and closes waiting ones above the limits."""

    def __init__(self, total: int, per_address: int, reserve: int) -> None:
        self.total = total
        self.per_address = per_address
        self.reserve = reserve
        # All of them, and those without a complete request, longest first (as an ordered set).
        self._all: set[Client] = set()
        self._on_reserve: set[Client] = set()
        self._waiting: dict[Client, None] = {}
        self._of_address: dict[str, set[Client]] = {}
        self._waiting_of_address: dict[str, dict[Client, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, client: Client) -> str:
        """Admit a new connection; why it may use only the operations pages, or ''."""
        why = ""
        address = client.address
        same = self._of_address.get(address, set())
        if address and len(same) >= self.per_address:
            if not self._make_room(self._waiting_of_address.get(address, {})):
                why = f"There are {len(same)} connections from {address}, which is the limit; close some"
        elif len(self._all) - len(self._on_reserve) >= self.total and not self._make_room(
            self._waiting
        ):
            why = "The service has reached its limit of connections"
        self._all.add(client)
        self._of_address.setdefault(address, set()).add(client)
        if why:
            self._on_reserve.add(client)
        self.wait(client)
        if len(self._on_reserve) > self.reserve:
            oldest = next((one for one in self._waiting if one in self._on_reserve), client)
            self._cut_off(oldest)
        return why

    def leave(self, client: Client) -> None:
        """Forget a closed connection; forgetting it again does nothing."""
        self._all.discard(client)
        self._on_reserve.discard(client)
        self.serve(client)
        same = self._of_address.get(client.address)
        if same is not None:
            same.discard(client)
            if not same:
                del self._of_address[client.address]

    def wait(self, client: Client) -> None:
        """Mark a connection as waiting: its request is incomplete, or it is idle."""
        if client in self._all:
            self._waiting[client] = None
            self._waiting_of_address.setdefault(client.address, {})[client] = None

    def serve(self, client: Client) -> None:
        """Mark a connection as being served."""
        self._waiting.pop(client, None)
        same = self._waiting_of_address.get(client.address)
        if same is not None:
            same.pop(client, None)
            if not same:
                del self._waiting_of_address[client.address]

    def _make_room(self, waiting: dict[Client, None]) -> bool:
        oldest = next(iter(waiting), None)
        if oldest is None:
            return False
        self._cut_off(oldest)
        return True

    def _cut_off(self, client: Client) -> None:
        self.leave(client)
        client.cut_off()


def admission(limits: ConnectionLimits, *, each_address: bool) -> Admission:
    """Admission within ``limits`` and the process's descriptors.

    ``each_address``: whether clients have different addresses (behind a proxy all have the proxy's).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    available = MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    total = limits.total or max(16, _for_connections(available) - limits.reserve)
    per_address = limits.per_address or max(8, total // 2)
    return Admission(total, per_address if each_address else total, limits.reserve)


def _for_connections(descriptors: int) -> int:
    """The descriptors left for connections, beside database, files, pipes and own connections."""
    return descriptors - max(64, descriptors // 4)


def _most_descriptors() -> int:
    """The number that ``raise_descriptor_limit`` can reach."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY in (soft, hard):
        return MOST_DESCRIPTORS
    return max(soft, min(hard, MOST_DESCRIPTORS))


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors as far as possible; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
