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

from sqlalchemy import and_, case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from vetro.storage.database import Database
from vetro.storage.errors import AlreadyQueued, LeaseLost, StorageError
from vetro.storage.renewal import Renewal
from vetro.storage.sqlite_driver import carried_through
from vetro.storage.tables import fences, leased_work
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

    def _claimable(
        self, now: datetime, key: str | None = None, share: tuple[str, int] | None = None
    ) -> Any:
        """The condition for claimable work; ``share``: an owner, and what it may hold per party."""
        return and_(
            leased_work.c.queue == self.name,
            *([] if key is None else [leased_work.c.key == key]),
            leased_work.c.available_at <= now,
            or_(leased_work.c.owner.is_(None), leased_work.c.expires_at <= now),
            *([] if share is None else [self._held_of_party(now, share[0]) < share[1]]),
        )

    def _held_of_party(self, now: datetime, owner: str | None = None) -> Any:
        """How much work of a row's party is held (by one owner); 0 for work without a party."""
        other = leased_work.alias("other")
        query = select(func.count()).where(
            other.c.queue == self.name,
            other.c.party == leased_work.c.party,
            other.c.owner.is_not(None) if owner is None else other.c.owner == owner,
            other.c.expires_at > now,
        )
        return query.correlate(leased_work).scalar_subquery()

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
        share = None if most_per_party is None else (owner, most_per_party)
        async with self.database.read() as tx:
            # Most calls find nothing: do not take the write lock for that.
            claimable = self._claimable(self.database.steady_now(), key, share)
            found = await tx.execute(select(leased_work.c.id).where(claimable).limit(1))
            if found.first() is None:
                return None
        lease: Lease | None = None
        try:
            async with self.database.transaction() as tx:
                lease = await self._claim_in(tx, owner, ttl_seconds, key, share)
        except asyncio.CancelledError:
            # A commit that has begun is completed all the same: nobody would run the work until the
            # lease ends.
            if lease is not None:
                with suppress(StorageError):
                    await carried_through(self.unclaim(lease))
            raise
        return lease

    async def _claim_in(
        self,
        tx: Transaction,
        owner: str,
        ttl_seconds: float,
        key: str | None,
        share: tuple[str, int] | None,
    ) -> Lease | None:
        # Read the clock after the wait for the write lock: the lease begins now.
        now = self.database.steady_now()
        row = (
            await tx.execute(
                select(leased_work)
                .where(self._claimable(now, key, share))
                .order_by(self._held_of_party(now), leased_work.c.id)
                .limit(1)
                .with_for_update(skip_locked=True, of=leased_work)
            )
        ).first()
        if row is None:
            return None
        fence = await self._next_fence(tx)
        expires_at = now + timedelta(seconds=ttl_seconds)
        await tx.execute(
            update(leased_work)
            .where(leased_work.c.id == row.id)
            .values(owner=owner, expires_at=expires_at, fence=fence, attempt=row.attempt + 1)
        )
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
            values = {"owner": None, "expires_at": None, "attempt": lease.attempt - 1}
            await tx.execute(update(leased_work).where(self._held(lease)).values(**values))
            tx.notify(self.channel, lease.key)

    async def _next_fence(self, tx: Transaction) -> int:
        raised = await tx.execute(
            self._insert(fences)
            .values(queue=self.name, value=1)
            .on_conflict_do_update(
                index_elements=[fences.c.queue], set_={"value": fences.c.value + 1}
            )
            .returning(fences.c.value)
        )
        return int(raised.scalar_one())

    def _held(self, lease: Lease) -> Any:
        return and_(
            leased_work.c.queue == self.name,
            leased_work.c.key == lease.key,
            leased_work.c.fence == lease.fence,
            leased_work.c.owner == lease.owner,
        )

    async def renew(self, lease: Lease, ttl_seconds: float | None = None) -> Lease:
        """Extend the lease to ``ttl_seconds`` (as long as it was given for) from now.

        Errors: ``LeaseLost``.
        """
        ttl = lease.ttl_seconds if ttl_seconds is None else ttl_seconds
        async with self.database.transaction() as tx:
            expires_at = self.database.steady_now() + timedelta(seconds=ttl)
            changed = await tx.execute(
                update(leased_work).where(self._held(lease)).values(expires_at=expires_at)
            )
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
        removed = await tx.execute(delete(leased_work).where(self._held(lease)))
        if removed.rowcount != 1:
            raise LeaseLost(self.name, lease.key, lease.fence)

    async def release(self, lease: Lease) -> None:
        """Give the work back at once, for another owner to claim (a graceful shutdown)."""
        async with self.database.transaction() as tx:
            changed = await tx.execute(
                update(leased_work)
                .where(self._held(lease))
                .values(owner=None, expires_at=None, available_at=self.database.steady_now())
            )
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
            .where(self._claimable(now), since <= now - timedelta(seconds=seconds))
            .order_by(leased_work.c.id)
        )
        return [str(row.key) for row in await tx.execute(query)]

    async def load(self, tx: Transaction) -> QueueLoad:
        """The load of the queue."""
        now = self.database.steady_now()
        mine = leased_work.c.queue == self.name
        held = and_(leased_work.c.owner.is_not(None), leased_work.c.expires_at > now)
        numbers = await tx.execute(
            select(
                func.count().filter(held).label("held"),
                func.count().filter(self._claimable(now)).label("waiting"),
                func.min(leased_work.c.available_at, type_=UtcDateTime)
                .filter(self._claimable(now))
                .label("oldest"),
            ).where(mine)
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
        share = None if owner is None or most_per_party is None else (owner, most_per_party)

        async def look() -> bool | LookAgain | None:
            now = self.database.steady_now()
            async with self.database.read() as tx:
                ready = await tx.execute(
                    select(leased_work.c.id).where(self._claimable(now, share=share)).limit(1)
                )
                if ready.first() is not None:
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
