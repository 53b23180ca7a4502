"""How many connections a service holds, and which one goes when there are too many.

A connection costs a descriptor, and a process has so many of them: whoever opens connections and says
nothing would silence the service for everybody. So connections are counted, for the whole process and for
each address, and when one too many comes the one that has been waiting longest *without a whole request*
makes room. A client that means it sends its request within milliseconds and is not met by that. When all
the others are being served, the new one is let in on the reserve, where only the operations pages
(``/healthz`` …) answer.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Protocol

#: In the scope's state: why only the operations pages may answer this connection.
LIMITED = "vetro.limited"
#: More descriptors than this are of no use to one event loop; some programs walk through all of them.
MOST_DESCRIPTORS = 65_536


@dataclass(frozen=True)
class ConnectionLimits:
    """What a client may take of connections and of time.

    ``header_seconds``: from the first byte of a request (or the connection) to the end of its headers.
    ``body_seconds``: in every such span at least ``body_bytes`` of a body must come.
    ``write_seconds``: an answer must move on within this time. ``total``: connections at a time;
    ``None``: what the descriptor limit leaves. ``per_address``: of them from one address; ``None``:
    half. ``reserve``: connections on top, for the operations pages alone.
    """

    header_seconds: float = 20.0
    body_seconds: float = 60.0
    body_bytes: int = 8192
    write_seconds: float = 120.0
    total: int | None = None
    per_address: int | None = None
    reserve: int = 32


class Client(Protocol):
    """A connection as admission sees it."""

    @property
    def address(self) -> str:
        """The other end's address; '' when it has none."""
        ...

    def cut_off(self) -> None:
        """Close: it said nothing worth waiting for."""
        ...


class Admission:
    """Counts connections and makes room."""

    def __init__(self, total: int, per_address: int, reserve: int) -> None:
        self.total = total
        self.per_address = per_address
        self.reserve = reserve
        # All of them, and those that wait for a whole request, longest first (as an ordered set).
        self._all: set[Client] = set()
        self._on_reserve: set[Client] = set()
        self._waiting: dict[Client, None] = {}
        self._of_address: dict[str, set[Client]] = {}
        self._waiting_of_address: dict[str, dict[Client, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, client: Client) -> str:
        """Take a new connection in; why only the operations pages may answer it, or ''."""
        why = ""
        address = client.address
        same = self._of_address.get(address, set())
        if address and len(same) >= self.per_address:
            if not self._make_room(self._waiting_of_address.get(address, {})):
                why = f"There are {len(same)} connections from {address}, which is the limit"
        elif len(self._all) - len(self._on_reserve) >= self.total and not self._make_room(
            self._waiting
        ):
            why = "The service has as many connections as it can hold"
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
        """A connection is closed; saying so twice is the same."""
        self._all.discard(client)
        self._on_reserve.discard(client)
        self.serve(client)
        same = self._of_address.get(client.address)
        if same is not None:
            same.discard(client)
            if not same:
                del self._of_address[client.address]

    def wait(self, client: Client) -> None:
        """It has nothing to be served: its request is not whole, or it keeps the connection for more."""
        if client in self._all:
            self._waiting[client] = None
            self._waiting_of_address.setdefault(client.address, {})[client] = None

    def serve(self, client: Client) -> None:
        """A request of it is being served."""
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

    ``each_address``: whether addresses tell clients apart (behind a proxy all have the proxy's).
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    available = MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    # What is left is for the database, files, pipes and connections of our own.
    total = limits.total or max(16, available - max(64, available // 4) - limits.reserve)
    per_address = limits.per_address or max(8, total // 2)
    return Admission(total, per_address if each_address else total, limits.reserve)


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of descriptors as far as it may be; returns what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_DESCRIPTORS
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
