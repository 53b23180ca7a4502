"""What must hold after every commit, whoever made it.

Waitlist (compute-node-api.md §11): at most one active ticket a queue; whenever somebody queues,
somebody is active; turns are given in the order of arrival; what has ended stays ended; expiry shows
within two seconds. Allocator: the VMs on a server never need more than it has. Reconciler (§5.1): a
silent server is ``unknown`` in time, one that is heard is ``running``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from simulation.loop import VirtualClock

OPEN = ("queued", "active")
EXPIRY_SECONDS = 2.0
#: 11 s without a heartbeat, a look every 5 s, and the way to the database.
UNKNOWN_SECONDS = 11 + 5 + 2
#: A heartbeat, then the next look or (after another instance's mistake) the next reassertion.
RUNNING_SECONDS = 25.0


class Violation(AssertionError):
    """Something was seen that must never be seen."""


@dataclass
class Node:
    """A server: its size, and what the world did with its heartbeats."""

    uuid: str
    memory_mib: int
    cpu: int
    last_beat: float = 0.0
    #: Since when it has been beating without a gap.
    steady_since: float = 0.0


@dataclass
class Model:
    """Compares each committed state with the one before and with the rules."""

    clock: VirtualClock
    nodes: dict[str, Node]
    #: Until when the rules of time are suspended: an outage or a killed process is being got over.
    calm_after: float = 0.0
    #: Until when servers that a killed process heard may have nobody who watches them.
    watched_after: float = 0.0
    commits: int = 0
    #: Raised when VMs or servers change.
    places: int = 0
    statuses: dict[str, str] = field(default_factory=dict[str, str])
    #: When a ticket ceased to queue.
    ended_waiting: dict[str, float] = field(default_factory=dict[str, float])
    overdue: dict[str, float] = field(default_factory=dict[str, float])
    memory: dict[str, int] = field(default_factory=dict[str, int])
    running: dict[str, bool] = field(default_factory=dict[str, bool])
    _seen: Any = None

    def look(self, connection: Connection) -> None:
        """Check the state that was just committed."""
        self.commits += 1
        self._tickets(connection)
        self._vms(connection)

    def _tickets(self, connection: Connection) -> None:
        rows = connection.exec_driver_sql(
            "SELECT uuid, server_uuid || '/' || scope || '/' || id, status, fence, expires_at"
            " FROM compute_tickets ORDER BY fence"
        ).fetchall()
        queues: dict[str, list[tuple[str, str]]] = {}
        statuses: dict[str, str] = {}
        overdue: dict[str, float] = {}
        now = self.clock.now().timestamp() * 1_000_000
        for uuid, queue, status, _fence, expires in rows:
            statuses[uuid] = status
            before = self.statuses.get(uuid)
            if before not in (None, *OPEN) and status != before:
                raise Violation(f"ticket {uuid} was {before} and is {status} now")
            if before == "active" and status == "queued":
                raise Violation(f"ticket {uuid} lost its turn")
            if status != "queued":
                self.ended_waiting.setdefault(uuid, self.clock.monotonic())
            if status in OPEN:
                queues.setdefault(queue, []).append((uuid, status))
                if expires <= now:
                    overdue[uuid] = expires
        for uuid in self.statuses.keys() - statuses.keys():
            self.ended_waiting.setdefault(uuid, self.clock.monotonic())
        for queue, listed in queues.items():
            active = [uuid for uuid, status in listed if status == "active"]
            if len(active) > 1:
                raise Violation(f"queue {queue} has {len(active)} active tickets")
            if not active:
                raise Violation(f"queue {queue} has {len(listed)} waiting and nobody's turn")
            if listed[0][1] != "active":
                raise Violation(f"queue {queue}: {active[0]} came after {listed[0][0]}")
        self.statuses, self.overdue = statuses, overdue

    def _vms(self, connection: Connection) -> None:
        rows = connection.exec_driver_sql(
            "SELECT server_uuid, SUM(memory_mib), SUM(cpu_cap) FROM compute_vms GROUP BY 1"
        ).fetchall()
        states = connection.exec_driver_sql("SELECT uuid, status FROM compute_servers").fetchall()
        seen = (rows, states)
        if seen != self._seen:
            self._seen = seen
            self.places += 1
        self.memory = {}
        for server, memory, cpu in rows:
            node = self.nodes[server]
            self.memory[server] = memory
            if memory > node.memory_mib or cpu > 4 * node.cpu:
                raise Violation(
                    f"server {server} has {node.memory_mib} MiB and gave away {memory},"
                    f" {4 * node.cpu} CPU and gave away {cpu}"
                )
        self.running = {uuid: status == "running" for uuid, status in states}

    # --- rules of time ---------------------------------------------------------------------

    def calm_for(self) -> float:
        """Seconds since the last trouble was over."""
        return self.clock.monotonic() - self.calm_after

    def tick(self) -> None:
        """Check what must have happened by now."""
        now = self.clock.monotonic()
        moment = self.clock.now().timestamp() * 1_000_000
        for uuid, expires in self.overdue_now(moment):
            late = (moment - expires) / 1_000_000
            if min(late, self.calm_for()) > EXPIRY_SECONDS:
                raise Violation(f"ticket {uuid} expired {late:.1f} s ago and is still open")
        for node in self.nodes.values():
            silent = now - node.last_beat
            running = self.running.get(node.uuid, True)
            watched = now - self.watched_after
            if running and min(silent, watched, self.calm_for()) > UNKNOWN_SECONDS:
                raise Violation(f"server {node.uuid} is silent for {silent:.1f} s and running")
            steady = now - node.steady_since
            if not running and min(steady, self.calm_for()) > RUNNING_SECONDS:
                raise Violation(f"server {node.uuid} is heard for {steady:.1f} s and not running")

    def overdue_now(self, moment: float) -> list[tuple[str, float]]:
        """Open tickets past their time as of the last commit."""
        return [(uuid, at) for uuid, at in self.overdue.items() if at <= moment]

    def woken(self, uuid: str, began: float) -> None:
        """A wait for a ticket returned: it must not have slept through its turn."""
        ended = self.ended_waiting.get(uuid)
        if ended is None:
            raise Violation(f"the wait for ticket {uuid} ended while it queued")
        late = self.clock.monotonic() - max(ended, began, self.calm_after)
        if late > EXPIRY_SECONDS:
            raise Violation(f"the wait for ticket {uuid} ended {late:.1f} s late")

    def had_room(self, memory_mib: int) -> bool:
        """Whether a running server has room for a VM."""
        return any(
            self.running.get(uuid) and node.memory_mib - self.memory.get(uuid, 0) >= memory_mib
            for uuid, node in self.nodes.items()
        )
