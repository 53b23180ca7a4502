"""Which machine a mailbox belongs to: another one with its credential is refused (guest-agent.md §2a).

A credential is a file in a machine, and a copy of the machine's disk has it as well. So the mailbox keeps the
machine that it was first read from. Where a request comes from, its address says: nodes let no machine send
from an address that is not its own. Addresses that are no machine's (a host, another cloud's instance behind
a router) are not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import select, update

from vetro.http import Headers
from vetro.messaging import tables
from vetro.storage import Database

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a guest's request came from: an address, and the node that says so ('' for this door)."""

    address: str
    node: str = ""


class Machines(Protocol):
    """The machines of the compute service, as a mailbox asks about them."""

    def relayed(self, headers: Headers) -> tuple[str, str] | None:
        """The guest's address and the node, where a request came through the relay of a node."""
        ...

    async def having(self, address: str, node: str) -> Sequence[str]:
        """The uuids of the machines that may send from an address, on a node or ('') on any."""
        ...

    async def is_told(self, machine: str, queue: str) -> bool | None:
        """Whether what the machine was made with names this mailbox; ``None``: no such machine."""
        ...


class Homes:
    """Keeps for each mailbox the machine that reads it."""

    def __init__(self, db: Database, machines: Machines) -> None:
        self._db = db
        self._machines = machines

    async def admits(self, queue: str, origin: Origin) -> bool:
        """Whether a mailbox may be read from there.

        A machine whose user data names the mailbox goes before one where somebody configured the agent; of
        two whose user data do, the one that came first, until it is gone.
        """
        near = await self._machines.having(origin.address, origin.node)
        for _ in range(_TRIES if near else 0):
            home = await self._home(queue)
            if home in near:
                return True
            settled = None if home is None else await self._machines.is_told(home, queue)
            if settled:
                return False
            told = [one for one in near if await self._machines.is_told(one, queue)]
            if settled is not None and not told:
                return False
            if not told and len(near) > 1:
                return True  # machines of several nodes have this address: which one it was is not known
            if await self._settle(queue, home, (told or near)[0]):
                return True
        return True

    async def _home(self, queue: str) -> str | None:
        query = select(tables.mailboxes.c.machine).where(tables.mailboxes.c.queue == queue)
        async with self._db.read() as tx:
            return (await tx.execute(query)).scalar_one_or_none()

    async def _settle(self, queue: str, home: str | None, machine: str) -> bool:
        """Keep a mailbox's machine; false when another request has changed it meanwhile."""
        former = tables.mailboxes.c.machine
        unchanged = former.is_(None) if home is None else former == home
        async with self._db.transaction() as tx:
            changed = await tx.execute(
                update(tables.mailboxes)
                .where(tables.mailboxes.c.queue == queue, unchanged)
                .values(machine=machine)
            )
            return bool(changed.rowcount)
