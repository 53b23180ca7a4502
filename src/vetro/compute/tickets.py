"""The waitlist: one active ticket for each (server, scope, id), first come first served (§11)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Row, and_, delete, func, insert, select, update

from vetro.compute.faults import invalid_parameters, not_found
from vetro.compute.servers import api_time
from vetro.compute.tables import tickets
from vetro.storage import Database, Transaction

OPEN = ("queued", "active")
EXPIRY_CHECK_SECONDS = 1.0


def channel(uuid: str) -> str:
    """Notifications of one ticket."""
    return f"ticket/{uuid}"


class TicketStore:
    """Tickets in the database; waits end with a notification or at the ticket's expiry."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def create(self, uuid: str, server_uuid: str, given: dict[str, Any]) -> dict[str, Any]:
        """Queue up; active at once when nobody is before it. Errors: 500 InvalidParameters."""
        errors: dict[str, str] = {}
        for name in ("scope", "id"):
            if not isinstance(given.get(name), str) or not given[name]:
                errors[name] = "value was not a string"
        expires: datetime | None = None
        try:
            text = str(given.get("expires_at"))
            expires = datetime.fromisoformat(text.replace("Z", "+00:00"))
            if expires.tzinfo is None:
                errors["expires_at"] = "value has no time zone"
        except ValueError:
            errors["expires_at"] = "value was not a date"
        if errors:
            raise invalid_parameters(errors)
        now = self.database.clock.now()
        async with self.database.transaction() as tx:
            known = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
            if known is None:
                highest = await tx.execute(select(func.max(tickets.c.fence)))
                await tx.execute(
                    insert(tickets).values(
                        uuid=uuid,
                        server_uuid=server_uuid,
                        scope=given["scope"],
                        id=given["id"],
                        action=given.get("action"),
                        status="queued",
                        fence=(highest.scalar() or 0) + 1,
                        extra=given.get("extra") or {},
                        created=now,
                        updated=now,
                        expires_at=expires,
                    )
                )
            await self._promote(tx, server_uuid, given["scope"], given["id"])
            row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).one()
            queue = await self._queue(tx, server_uuid, given["scope"], given["id"])
        return {"uuid": uuid, "queue": [self.view(one) for one in queue], **self.view(row)}

    async def _queue(self, tx: Transaction, server: str, scope: str, id_: str) -> list[Row[Any]]:
        query = (
            select(tickets)
            .where(
                tickets.c.server_uuid == server,
                tickets.c.scope == scope,
                tickets.c.id == id_,
                tickets.c.status.in_(OPEN),
            )
            .order_by(tickets.c.fence)
            .with_for_update()
        )
        return list(await tx.execute(query))

    async def _promote(self, tx: Transaction, server: str, scope: str, id_: str) -> None:
        """Expire who is too late, then make the first of the queue active."""
        now = self.database.clock.now()
        for row in await self._queue(tx, server, scope, id_):
            if row.expires_at <= now:
                await self._set(tx, row.uuid, "expired")
                continue
            if row.status == "queued":
                await self._set(tx, row.uuid, "active")
            return

    async def _set(self, tx: Transaction, uuid: str, status: str) -> None:
        await tx.execute(
            update(tickets)
            .where(tickets.c.uuid == uuid)
            .values(status=status, updated=self.database.clock.now())
        )
        tx.notify(channel(uuid), status)

    def view(self, row: Row[Any]) -> dict[str, Any]:
        """A ticket as the API shows it."""
        return {
            "uuid": row.uuid,
            "server_uuid": row.server_uuid,
            "scope": row.scope,
            "id": row.id,
            "action": row.action,
            "status": row.status,
            "fence": row.fence,
            "extra": row.extra,
            "created_at": api_time(row.created),
            "updated_at": api_time(row.updated),
            "expires_at": api_time(row.expires_at),
        }

    async def get(self, uuid: str) -> dict[str, Any]:
        """A ticket; a queued one says for whom it waits. Errors: 404."""
        async with self.database.read() as tx:
            row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
            if row is None:
                raise not_found(f"ticket {uuid} not found")
            view = self.view(row)
            if row.status == "queued":
                before = await tx.execute(
                    select(tickets.c.uuid)
                    .where(
                        tickets.c.server_uuid == row.server_uuid,
                        tickets.c.scope == row.scope,
                        tickets.c.id == row.id,
                        tickets.c.status.in_(OPEN),
                        tickets.c.fence < row.fence,
                    )
                    .order_by(tickets.c.fence)
                )
                view["waiting_on"] = [one.uuid for one in before]
            return view

    async def listing(self, server_uuid: str | None) -> list[dict[str, Any]]:
        """Tickets, oldest first."""
        query = select(tickets).order_by(tickets.c.fence)
        if server_uuid is not None:
            query = query.where(tickets.c.server_uuid == server_uuid)
        async with self.database.read() as tx:
            return [self.view(row) for row in await tx.execute(query)]

    async def wait(self, uuid: str) -> dict[str, Any]:
        """Wait until the ticket is active or over. Errors: 404."""
        async with self.database.listen(channel(uuid)) as subscription:
            while True:
                view = await self.get(uuid)
                if view["status"] != "queued":
                    return view
                await subscription.wait(timeout=None)

    async def release(self, uuid: str) -> None:
        """End a ticket; the next of its queue becomes active. Errors: 404."""
        async with self.database.transaction() as tx:
            row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
            if row is None:
                raise not_found(f"ticket {uuid} not found")
            if row.status in OPEN:
                await self._set(tx, uuid, "finished")
            await self._promote(tx, row.server_uuid, row.scope, row.id)

    async def remove(self, uuid: str) -> None:
        """Delete a ticket; waiting for it ends. Errors: 404."""
        async with self.database.transaction() as tx:
            row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
            if row is None:
                raise not_found(f"ticket {uuid} not found")
            await tx.execute(delete(tickets).where(tickets.c.uuid == uuid))
            tx.notify(channel(uuid), "deleted")
            await self._promote(tx, row.server_uuid, row.scope, row.id)

    async def expire(self) -> int:
        """Expire overdue tickets and let the next in; how many were expired."""
        now = self.database.clock.now()
        overdue = and_(tickets.c.status.in_(OPEN), tickets.c.expires_at <= now)
        async with self.database.read() as tx:
            rows = list(await tx.execute(select(tickets).where(overdue)))
        if not rows:
            return 0
        async with self.database.transaction() as tx:
            for server, scope, id_ in {(r.server_uuid, r.scope, r.id) for r in rows}:
                await self._promote(tx, cast("str", server), scope, id_)
        return len(rows)

    async def watch(self) -> None:
        """Expire tickets when their time comes, until cancelled."""
        async with self.database.listen("compute/tickets") as subscription:
            while True:
                await self.expire()
                async with self.database.read() as tx:
                    first = await tx.execute(
                        select(func.min(tickets.c.expires_at).label("first")).where(
                            tickets.c.status.in_(OPEN)
                        )
                    )
                    soonest = first.one().first
                left = timedelta(seconds=60)
                if soonest is not None:
                    left = min(left, soonest - self.database.clock.now())
                await subscription.wait(max(EXPIRY_CHECK_SECONDS, left.total_seconds()))


async def cancel(task: asyncio.Task[Any]) -> None:
    """End a task of ours."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
