"""Work handed out under leases with fencing numbers.

A row is one piece of work. A claimer gets it for a time (the lease); without renewal the next
claimer gets it. Every claim takes a larger *fence* than any earlier claim of that queue: a holder
that did not notice that its lease expired still has its old fence, and completing, renewing or
releasing with an old fence is ``LeaseLost``. Completion happens in the caller's transaction, so
that the result of the work and the end of the work are one commit, exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, case, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from vetro.storage.claiming import (
    CLAIMABLE,
    OF_CLAIM,
    any_claimable,
    first_in_turn,
    full_parties,
    mark_claimed,
    next_fence,
)
from vetro.storage.database import Database
from vetro.storage.errors import AlreadyQueued, LeaseLost, StorageError
from vetro.storage.prepared import Prepared
from vetro.storage.renewal import Renewal
from vetro.storage.sqlite_driver import carried_through
from vetro.storage.tables import leased_work
from vetro.storage.types import UtcDateTime
from vetro.storage.units import Transaction
from vetro.storage.waiting import LookAgain, await_until


@dataclass(frozen=True)
class Lease:
    """A claim: ``fence`` is larger than that of every earlier claim of the queue.

    ``waited_seconds``: how long the work could have been claimed before it was.
    """

    key: str
    payload: Any
    fence: int
    attempt: int
    owner: str
    expires_at: datetime
    ttl_seconds: float
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class QueueLoad:
    """The load of a queue: held and waiting work, and seconds that the oldest has waited."""

    held: int
    waiting: int
    oldest_seconds: float


def _changed(*names: str) -> Prepared:
    """Set columns of the work of a claim."""
    return Prepared(update(leased_work).where(OF_CLAIM).values({n: bindparam(n) for n in names}))


_RENEW = _changed("expires_at")
_RELEASE = _changed("owner", "expires_at", "available_at")
_UNCLAIM = _changed("owner", "expires_at", "attempt")
_COMPLETE = Prepared(delete(leased_work).where(OF_CLAIM))


class LeaseQueue:
    """A named queue of work, first in first out by enqueueing time."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name

    @property
    def channel(self) -> str:
        """The channel of notifications about new and released work."""
        return f"leases/{self.name}"

    async def enqueue(
        self,
        tx: Transaction,
        key: str,
        payload: object = None,
        *,
        delay_seconds: float = 0.0,
        party: str | None = None,
    ) -> None:
        """Add work under ``key``, unique in the queue; visible when ``tx`` commits.

        ``party``: the one that the work is for. Claimers take the oldest work of the party with the
        least held work.
        Errors: ``AlreadyQueued`` (the transaction stays usable) while earlier work has this key.
        """
        now = self.database.steady_now()
        added = await tx.execute(
            self._insert(leased_work)
            .values(
                queue=self.name,
                key=key,
                payload=payload,
                party=party,
                available_at=now + timedelta(seconds=delay_seconds),
                attempt=0,
                fence=0,
            )
            .on_conflict_do_nothing(index_elements=[leased_work.c.queue, leased_work.c.key])
            .returning(leased_work.c.id)
        )
        if added.first() is None:
            raise AlreadyQueued(self.name, key)
        tx.notify(self.channel, key)

    @property
    def _insert(self) -> Any:
        return sqlite_insert if self.database.is_sqlite else postgresql_insert

    async def claim(
        self,
        owner: str,
        ttl_seconds: float,
        *,
        key: str | None = None,
        most_per_party: int | None = None,
    ) -> Lease | None:
        """Take work that is not held, for ``ttl_seconds``; ``None`` when there is none.

        Takes the oldest work of the party with the least held work, so that a party with much work
        does not delay the others. With ``key``: only the work of that key. ``most_per_party``: skip
        parties of which ``owner`` already holds so much work.
        """
        async with self.database.read() as tx:
            # Most calls find nothing: do not take the write lock for that.
            if not await self._any_claimable(tx, owner, most_per_party, key):
                return None
        lease: Lease | None = None
        try:
            async with self.database.transaction() as tx:
                lease = await self._claim_in(tx, owner, ttl_seconds, key, most_per_party)
        except asyncio.CancelledError:
            # A commit that has begun is completed all the same: nobody would run the work until the
            # lease ends.
            if lease is not None:
                with suppress(StorageError):
                    await carried_through(self.unclaim(lease))
            raise
        return lease

    async def _any_claimable(
        self, tx: Transaction, owner: str | None, most: int | None, key: str | None = None
    ) -> bool:
        now = self.database.steady_now()
        full = await full_parties(tx, self.name, now, owner, most) if owner else ()
        return await any_claimable(tx, self.name, now, key=key, full=full)

    async def _claim_in(
        self,
        tx: Transaction,
        owner: str,
        ttl_seconds: float,
        key: str | None,
        most: int | None,
    ) -> Lease | None:
        # Read the clock after the wait for the write lock: the lease begins now.
        now = self.database.steady_now()
        full = await full_parties(tx, self.name, now, owner, most)
        row = await first_in_turn(tx, self.name, now, key=key, full=full)
        if row is None:
            return None
        fence = await next_fence(tx, self.name)
        expires_at = now + timedelta(seconds=ttl_seconds)
        await mark_claimed(tx, row, owner, expires_at, fence)
        return Lease(
            row.key,
            row.payload,
            fence,
            row.attempt + 1,
            owner,
            expires_at,
            ttl_seconds,
            max(0.0, (now - row.available_at).total_seconds()),
        )

    async def unclaim(self, lease: Lease) -> None:
        """Undo a claim whose work was not begun: it was no attempt. Does nothing when it is not ours."""
        async with self.database.transaction() as tx:
            changes = {"owner": None, "expires_at": None, "attempt": lease.attempt - 1}
            await tx.execute(_UNCLAIM, self._of_claim(lease) | changes)
            tx.notify(self.channel, lease.key)

    def _of_claim(self, lease: Lease) -> dict[str, object]:
        """The parameters of ``OF_CLAIM``."""
        return {
            "its_queue": self.name,
            "its_key": lease.key,
            "its_fence": lease.fence,
            "its_owner": lease.owner,
        }

    async def renew(self, lease: Lease, ttl_seconds: float | None = None) -> Lease:
        """Extend the lease to ``ttl_seconds`` (as long as it was given for) from now.

        Errors: ``LeaseLost``.
        """
        ttl = lease.ttl_seconds if ttl_seconds is None else ttl_seconds
        async with self.database.transaction() as tx:
            expires_at = self.database.steady_now() + timedelta(seconds=ttl)
            changed = await tx.execute(_RENEW, self._of_claim(lease) | {"expires_at": expires_at})
            if changed.rowcount != 1:
                raise LeaseLost(self.name, lease.key, lease.fence)
        return replace(lease, expires_at=expires_at, ttl_seconds=ttl)

    def hold(self, lease: Lease) -> Renewal:
        """Renew the lease for the duration of ``async with``.

        When it is lost, the block is cancelled and raises ``LeaseLost``: another owner has the work now.
        """
        lost = LeaseLost(self.name, lease.key, lease.fence)
        name = f"{self.name}/{lease.key}"
        return Renewal(lambda: self.renew(lease), lease.ttl_seconds, lost=lost, name=name)

    async def complete(self, tx: Transaction, lease: Lease) -> None:
        """End the work within ``tx``. ``LeaseLost`` (and so no commit) when it is not ours.

        A lease that expired but was not claimed again is still ours: the fence is unchanged.
        """
        removed = await tx.execute(_COMPLETE, self._of_claim(lease))
        if removed.rowcount != 1:
            raise LeaseLost(self.name, lease.key, lease.fence)

    async def release(self, lease: Lease) -> None:
        """Give the work back at once, for another owner to claim (a graceful shutdown)."""
        async with self.database.transaction() as tx:
            free = {"owner": None, "expires_at": None, "available_at": self.database.steady_now()}
            changed = await tx.execute(_RELEASE, self._of_claim(lease) | free)
            if changed.rowcount != 1:
                raise LeaseLost(self.name, lease.key, lease.fence)
            tx.notify(self.channel, lease.key)

    async def withdraw(self, tx: Transaction, keys: Sequence[str]) -> set[str]:
        """Remove work that is not held; returns the keys that were removed.

        Held work stays: its owner ends it (and finds its subject gone).
        """
        if not keys:
            return set()
        removed = await tx.execute(
            delete(leased_work)
            .where(
                leased_work.c.queue == self.name,
                leased_work.c.key.in_(list(keys)),
                leased_work.c.owner.is_(None),
            )
            .returning(leased_work.c.key)
        )
        return {str(row.key) for row in removed}

    async def expire_owner(self, tx: Transaction, owner_prefix: str) -> list[str]:
        """Make the work of dead owners claimable now; returns its keys.

        For a process that knows that owners with this prefix are dead (its own predecessor).
        """
        mine = and_(
            leased_work.c.queue == self.name,
            leased_work.c.owner.is_not(None),
            func.substr(leased_work.c.owner, 1, len(owner_prefix)) == owner_prefix,
        )
        rows = (await tx.execute(select(leased_work.c.key).where(mine))).all()
        await tx.execute(update(leased_work).where(mine).values(owner=None, expires_at=None))
        tx.notify(self.channel)
        return [str(row.key) for row in rows]

    async def keys(self, tx: Transaction) -> set[str]:
        """The keys of all work that has not ended, held or not."""
        rows = await tx.execute(select(leased_work.c.key).where(leased_work.c.queue == self.name))
        return {str(row.key) for row in rows}

    async def overdue(self, tx: Transaction, seconds: float) -> list[str]:
        """The keys of work that has waited to be claimed for at least ``seconds``, oldest first.

        Work whose lease ran out has waited since then.
        """
        now = self.database.steady_now()
        since = case(
            (leased_work.c.owner.is_(None), leased_work.c.available_at),
            else_=leased_work.c.expires_at,
        )
        query = (
            select(leased_work.c.key)
            .where(CLAIMABLE, since <= now - timedelta(seconds=seconds))
            .order_by(leased_work.c.id)
        )
        rows = await tx.execute(query, {"its_queue": self.name, "now": now})
        return [str(row.key) for row in rows]

    async def load(self, tx: Transaction) -> QueueLoad:
        """The load of the queue."""
        now = self.database.steady_now()
        mine = leased_work.c.queue == self.name
        held = and_(leased_work.c.owner.is_not(None), leased_work.c.expires_at > now)
        numbers = await tx.execute(
            select(
                func.count().filter(held).label("held"),
                func.count().filter(CLAIMABLE).label("waiting"),
                func.min(leased_work.c.available_at, type_=UtcDateTime)
                .filter(CLAIMABLE)
                .label("oldest"),
            ).where(mine),
            {"its_queue": self.name, "now": now},
        )
        row = numbers.one()
        age = (now - row.oldest).total_seconds() if row.oldest is not None else 0.0
        return QueueLoad(row.held, row.waiting, max(0.0, age))

    async def wait_for_work(
        self,
        timeout: float | None = None,
        *,
        owner: str | None = None,
        most_per_party: int | None = None,
    ) -> bool:
        """Wait until there may be work: new, released, or of an expired lease.

        ``owner``, ``most_per_party``: as for ``claim``. The end of the owner's own work does not
        end the wait. ``False`` after ``timeout`` seconds without any. There is no polling: the wait
        ends with a notification or when the first held lease expires.
        """

        async def look() -> bool | LookAgain | None:
            now = self.database.steady_now()
            async with self.database.read() as tx:
                if await self._any_claimable(tx, owner, most_per_party):
                    return True
                next_at = await self._next_change(tx, now)
            return None if next_at is None else LookAgain((next_at - now).total_seconds())

        return await await_until(self.database, self.channel, look, timeout) is not None

    async def _next_change(self, tx: Transaction, now: datetime) -> datetime | None:
        """When work that is not claimable now becomes claimable without any change."""
        # A row becomes claimable at the later of both times: its delay and the end of its lease.
        moment = case(
            (leased_work.c.owner.is_(None), leased_work.c.available_at),
            (leased_work.c.expires_at > leased_work.c.available_at, leased_work.c.expires_at),
            else_=leased_work.c.available_at,
        )
        query = select(func.min(moment, type_=UtcDateTime)).where(
            leased_work.c.queue == self.name, moment > now
        )
        return (await tx.execute(query)).scalar_one()
