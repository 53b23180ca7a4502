"""Work handed out by leases with fencing numbers.

A row is one piece of work. A claimer gets it for a time (the lease); who does not renew loses it to the
next claimer. Every claim takes a larger *fence* than any claim of that queue before it: a holder that
slept through its expiry still has its old fence, and completing, renewing or releasing with an old
fence is ``LeaseLost``. Completion happens in the caller's transaction, so that the result of the work
and the end of the work are one commit, exactly once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, delete, func, insert, or_, select, update

from vetro.storage.database import Database, Transaction
from vetro.storage.errors import LeaseLost
from vetro.storage.tables import fences, leased_work


@dataclass(frozen=True)
class Lease:
    """A claim: ``fence`` is larger than that of every earlier claim of the queue."""

    key: str
    payload: Any
    fence: int
    attempt: int
    owner: str
    expires_at: datetime


class LeaseQueue:
    """A named queue of work, first in first out by enqueueing time."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name

    @property
    def channel(self) -> str:
        """Notifications of new and released work."""
        return f"leases/{self.name}"

    async def enqueue(
        self, tx: Transaction, key: str, payload: Any = None, *, delay_seconds: float = 0.0
    ) -> None:
        """Add work under ``key``, unique in the queue; visible when ``tx`` commits."""
        now = self.database.clock.now()
        await tx.execute(
            insert(leased_work).values(
                queue=self.name,
                key=key,
                payload=payload,
                available_at=now + timedelta(seconds=delay_seconds),
                attempt=0,
                fence=0,
            )
        )
        tx.notify(self.channel, key)

    def _claimable(self, now: datetime) -> Any:
        return and_(
            leased_work.c.queue == self.name,
            leased_work.c.available_at <= now,
            or_(leased_work.c.owner.is_(None), leased_work.c.expires_at <= now),
        )

    async def claim(self, owner: str, ttl_seconds: float) -> Lease | None:
        """Take the oldest work nobody holds, for ``ttl_seconds``; ``None`` when there is none."""
        now = self.database.clock.now()
        async with self.database.read() as tx:
            # Most calls find nothing: do not become a writer for that.
            found = await tx.execute(select(leased_work.c.id).where(self._claimable(now)).limit(1))
            if found.first() is None:
                return None
        async with self.database.transaction() as tx:
            row = (
                await tx.execute(
                    select(leased_work)
                    .where(self._claimable(now))
                    .order_by(leased_work.c.id)
                    .limit(1)
                    .with_for_update(skip_locked=True)
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
            return Lease(row.key, row.payload, fence, row.attempt + 1, owner, expires_at)

    async def _next_fence(self, tx: Transaction) -> int:
        raised = await tx.execute(
            update(fences)
            .where(fences.c.queue == self.name)
            .values(value=fences.c.value + 1)
            .returning(fences.c.value)
        )
        row = raised.first()
        if row is not None:
            return int(row.value)
        # Two first claims may come here together: the second insert waits, then raises the first's.
        dialect = tx.connection.dialect.name
        if dialect == "postgresql":
            from sqlalchemy.dialects.postgresql import insert as upsert
        else:
            from sqlalchemy.dialects.sqlite import insert as upsert
        statement = upsert(fences).values(queue=self.name, value=1)
        result = await tx.execute(
            statement.on_conflict_do_update(
                index_elements=[fences.c.queue], set_={"value": fences.c.value + 1}
            ).returning(fences.c.value)
        )
        return int(result.scalar_one())

    def _held(self, lease: Lease) -> Any:
        return and_(
            leased_work.c.queue == self.name,
            leased_work.c.key == lease.key,
            leased_work.c.fence == lease.fence,
            leased_work.c.owner == lease.owner,
        )

    async def renew(self, lease: Lease, ttl_seconds: float) -> Lease:
        """Extend the lease to ``ttl_seconds`` from now. ``LeaseLost`` when it is not ours."""
        expires_at = self.database.clock.now() + timedelta(seconds=ttl_seconds)
        async with self.database.transaction() as tx:
            changed = await tx.execute(
                update(leased_work).where(self._held(lease)).values(expires_at=expires_at)
            )
            if changed.rowcount != 1:
                raise LeaseLost(self.name, lease.key, lease.fence)
        return Lease(lease.key, lease.payload, lease.fence, lease.attempt, lease.owner, expires_at)

    async def complete(self, tx: Transaction, lease: Lease) -> None:
        """End the work within ``tx``. ``LeaseLost`` (and so no commit) when it is not ours.

        A lease that expired but that nobody claimed since is still ours: the fence says so.
        """
        removed = await tx.execute(delete(leased_work).where(self._held(lease)))
        if removed.rowcount != 1:
            raise LeaseLost(self.name, lease.key, lease.fence)

    async def release(self, lease: Lease) -> None:
        """Give the work back at once, for another to claim (a graceful shutdown)."""
        async with self.database.transaction() as tx:
            changed = await tx.execute(
                update(leased_work).where(self._held(lease)).values(owner=None, expires_at=None)
            )
            if changed.rowcount != 1:
                raise LeaseLost(self.name, lease.key, lease.fence)
            tx.notify(self.channel, lease.key)

    async def expire_owner(self, tx: Transaction, owner_prefix: str) -> list[str]:
        """Make the work of dead owners claimable now; returns its keys.

        For a process that knows that owners with this prefix are gone (its own predecessor).
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

    async def wait_for_work(self, timeout: float | None = None) -> bool:
        """Wait until there may be work: new, released, or of an expired lease.

        ``False`` after ``timeout`` seconds without any. Nothing is polled: the wait ends with a
        notification or when the first held lease runs out.
        """
        async with self.database.listen(self.channel) as subscription:
            deadline = None if timeout is None else time.monotonic() + timeout
            while True:
                now = self.database.clock.now()
                async with self.database.read() as tx:
                    ready = await tx.execute(
                        select(leased_work.c.id).where(self._claimable(now)).limit(1)
                    )
                    if ready.first() is not None:
                        return True
                    next_at = await self._next_change(tx, now)
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                if left == 0.0:
                    return False
                until = None if next_at is None else max(0.01, (next_at - now).total_seconds())
                waits = [value for value in (left, until) if value is not None]
                await subscription.wait(min(waits) if waits else None)

    async def _next_change(self, tx: Transaction, now: datetime) -> datetime | None:
        row = (
            await tx.execute(
                select(
                    func.min(leased_work.c.expires_at).label("expires"),
                    func.min(leased_work.c.available_at).label("first"),
                ).where(
                    leased_work.c.queue == self.name,
                    or_(leased_work.c.expires_at > now, leased_work.c.available_at > now),
                )
            )
        ).one()
        times = [value for value in (row.expires, row.first) if value is not None and value > now]
        return min(times) if times else None
