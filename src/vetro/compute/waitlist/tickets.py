"""The waitlist: one active ticket for each (server, scope, id), first come first served (§11).

Every change of a queue happens in a transaction that excludes other changes of the same queue, in
all service processes, and ends with the promotion of the oldest queued ticket. A ticket's fence
number is taken inside that exclusion, so it rises in order of arrival; a node that has received a
higher number of a queue refuses the holder of a lower one.

Waits end by notification. Tickets expire by a watch that sleeps until the first of them does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import and_, delete, func, insert, select, update

from vetro.compute.tables import tickets
from vetro.compute.values.counters import next_number
from vetro.compute.values.faults import (
    internal_error,
    invalid_parameters,
    not_found,
)
from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import Json, Record, api_time
from vetro.compute.wire import OTHER_QUEUE
from vetro.http import Fault
from vetro.http.parameters import FieldError
from vetro.storage import Database, StoredRow, Subscription, Transaction

log = structlog.get_logger(__name__)

OPEN = ("queued", "active")
CHANNEL = "compute/tickets"
#: The longest sleep of the watch; tickets that expire sooner than that wake it when they are made.
LONGEST_SLEEP_SECONDS = 60.0
NAP_SECONDS = 1.0
KEPT = timedelta(days=30)
LIST_LIMIT = 1000
#: Columns of the API's names, as far as lists may be sorted by them.
SORTABLE = {
    "created_at": tickets.c.created,
    "expires_at": tickets.c.expires_at,
    "id": tickets.c.id,
    "scope": tickets.c.scope,
    "server_uuid": tickets.c.server_uuid,
    "status": tickets.c.status,
    "updated_at": tickets.c.updated,
    "uuid": tickets.c.uuid,
    "reqid": tickets.c.reqid,
    "action": tickets.c.action,
}
_TEXT_LIMITS = {"scope": 64, "id": 255, "action": 255}
Queue = tuple[str, str, str]


def channel(uuid: str) -> str:
    """Notifications of one ticket."""
    return f"ticket/{uuid}"


def expiry_of(text: str, now: datetime) -> datetime:
    """When a ticket expires: ISO 8601, UTC when no zone is given, a bare year will do.

    A text that is not a time is compared as text with the current time, as in the seed: it is past
    at once or never comes.
    """
    candidate = text.strip().replace("Z", "+00:00").replace("z", "+00:00")
    if re.fullmatch(r"\d{4}", candidate):
        candidate += "-01-01"
    elif re.fullmatch(r"\d{4}-\d\d", candidate):
        candidate += "-01"
    try:
        moment = datetime.fromisoformat(candidate)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        later = text > (api_time(now) or "")
        return datetime(9999, 12, 31, tzinfo=UTC) if later else datetime(1970, 1, 1, tzinfo=UTC)


def _errors_of(given: Record) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("scope", "id", "expires_at"):
        if not isinstance(given.get(name), str) or not given[name]:
            errors.append(FieldError(name, "value was not a string"))
    if not isinstance(given.get("action", ""), str | None):
        errors.append(FieldError("action", "value was not a string"))
    if not isinstance(given.get("extra", {}), dict | None):
        errors.append(FieldError("extra", "value is not an object."))
    for name, limit in _TEXT_LIMITS.items():
        value = given.get(name)
        if isinstance(value, str) and (len(value) > limit or "\0" in value):
            errors.append(FieldError(name, f"value is longer than {limit} characters"))
    return errors


class TicketStore:
    """Tickets in the database; waits end with a notification or at the ticket's expiry."""

    def __init__(self, database: Database, *, expired_wait_status: int = 500) -> None:
        """``expired_wait_status``: 500, or 204 as the seed has it (§13)."""
        self.database = database
        self._expired_wait_status = expired_wait_status
        #: Queues whose promotion failed; looked at again by the watch.
        self.pending: set[Queue] = set()

    async def create(
        self, uuid: str, server_uuid: str, given: Record, *, request_id: str = ""
    ) -> Record:
        """Queue a ticket; active at once if it is the first. The same uuid again: the same ticket.

        Errors: 500 InvalidParameters; 409 for a ticket of another queue.
        """
        errors = _errors_of(given)
        if errors:
            raise invalid_parameters(errors)
        now = self.database.clock.now()
        expires = expiry_of(given["expires_at"], now)
        queue = (server_uuid, given["scope"], given["id"])
        async with self._alone(queue) as tx:
            known = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
            if known is None:
                await tx.execute(
                    insert(tickets).values(
                        uuid=uuid,
                        server_uuid=server_uuid,
                        scope=given["scope"],
                        id=given["id"],
                        action=given.get("action"),
                        status="queued",
                        fence=await next_number(tx, "ticket-fence"),
                        extra=given.get("extra") or {},
                        created=now,
                        updated=now,
                        expires_at=expires,
                        reqid=request_id[:128] or None,
                    )
                )
                if expires - now < timedelta(seconds=LONGEST_SLEEP_SECONDS):
                    tx.notify(CHANNEL)
            elif (known.server_uuid, known.scope, known.id) != queue:
                raise Fault(f"ticket {uuid} is in another queue", status=409, type_=OTHER_QUEUE)
            await self._promote(tx, queue)
            waiting = await tx.execute(
                select(tickets).where(self._open(queue)).order_by(tickets.c.fence)
            )
            rows = waiting.all()
            row = next((one for one in rows if one.uuid == uuid), None)
            if row is None:
                row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).one()
        return {**self.view(row), "queue": [self.view(one) for one in rows]}

    @asynccontextmanager
    async def _alone(self, queue: Queue) -> AsyncGenerator[Transaction, None]:
        """A transaction that excludes all other changes of a queue."""
        async with self.database.transaction() as tx:
            await self._exclude(tx, queue)
            yield tx

    def _open(self, queue: Queue) -> Any:
        server, scope, id_ = queue
        return and_(
            tickets.c.server_uuid == server,
            tickets.c.scope == scope,
            tickets.c.id == id_,
            tickets.c.status.in_(OPEN),
        )

    async def _promote(self, tx: Transaction, queue: Queue) -> None:
        """Expire overdue tickets, then activate the first of the queue."""
        # The oldest open ticket is the active one, if there is one: turns are given in that order.
        now = self.database.clock.now()
        oldest = (
            select(tickets.c.uuid, tickets.c.status, tickets.c.expires_at)
            .where(self._open(queue))
            .order_by(tickets.c.fence)
            .limit(1)
        )
        while True:
            row = (await tx.execute(oldest)).first()
            if row is None:
                return
            if row.expires_at > now:
                if row.status == "queued":
                    await self._set(tx, row.uuid, "active", now)
                return
            await self._set(tx, row.uuid, "expired", now)

    async def _set(self, tx: Transaction, uuid: str, status: str, now: datetime) -> None:
        await tx.execute(
            update(tickets).where(tickets.c.uuid == uuid).values(status=status, updated=now)
        )
        tx.notify(channel(uuid), status)

    def view(self, row: StoredRow) -> Record:
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
            "reqid": row.reqid,
            "created_at": api_time(row.created),
            "updated_at": api_time(row.updated),
            "expires_at": api_time(row.expires_at),
        }

    async def row(self, tx: Transaction, uuid: str) -> StoredRow:
        """A ticket's row. Errors: 404, also for text that is not a uuid."""
        row = None
        if UUID.match(uuid) or (len(uuid) <= 36 and uuid.isascii() and uuid.isprintable()):
            row = (await tx.execute(select(tickets).where(tickets.c.uuid == uuid))).first()
        if row is None:
            raise not_found(f"ticket {uuid} not found")
        return row

    async def get(self, uuid: str) -> Record:
        """A ticket; a queued one names the ticket it waits for. Errors: 404."""
        async with self.database.read() as tx:
            row = await self.row(tx, uuid)
            view = self.view(row)
            if row.status == "queued":
                view["waiting_on"] = await self._before(tx, row)
            return view

    async def _before(self, tx: Transaction, row: StoredRow) -> list[str]:
        queue = (row.server_uuid, row.scope, row.id)
        before = await tx.execute(
            select(tickets.c.uuid)
            .where(self._open(queue), tickets.c.fence < row.fence)
            .order_by(tickets.c.fence)
        )
        return [one.uuid for one in before]

    async def listing(
        self,
        server_uuid: str | None,
        *,
        limit: int = LIST_LIMIT,
        offset: int = 0,
        attribute: str = "created_at",
        descending: bool = False,
    ) -> list[Record]:
        """Tickets of a server (or all), the finished and expired ones too; ties by arrival."""
        column = SORTABLE[attribute]
        query = select(tickets).order_by(
            column.desc() if descending else column,
            tickets.c.fence.desc() if descending else tickets.c.fence,
        )
        if server_uuid is not None:
            query = query.where(tickets.c.server_uuid == server_uuid)
        async with self.database.read() as tx:
            return [self.view(row) for row in await tx.execute(query.limit(limit).offset(offset))]

    async def wait(self, uuid: str) -> str:
        """Wait until the ticket is active or finished; its status.

        Errors: 404 unknown, also when it is deleted meanwhile; 500 expired.
        """
        async with self.database.listen(channel(uuid)) as subscription:
            waited = False
            status = await self._status(uuid)
            while status == "queued":
                waited = True
                # The notification carries the ticket's new status; without it, read the ticket
                # again.
                status = await subscription.wait(timeout=None) or await self._status(uuid)
            if status == "deleted":
                raise not_found(f"no such ticket {uuid}")
            if status == "expired" and self._expired_wait_status != 204:
                raise internal_error(
                    "ticket has expired" if waited else f"ticket {uuid} is expired"
                )
            return status

    async def _status(self, uuid: str) -> str:
        async with self.database.read() as tx:
            try:
                return (await self.row(tx, uuid)).status
            except Fault:
                return "deleted"

    async def release(self, uuid: str) -> None:
        """End a ticket; the next of its queue becomes active. May be repeated. Errors: 404."""
        async with self.database.transaction() as tx:
            queue = await self._enter_queue_of(tx, uuid)
            now = self.database.clock.now()
            ended = await tx.execute(
                update(tickets)
                .where(tickets.c.uuid == uuid, tickets.c.status.in_(OPEN))
                .values(status="finished", updated=now)
            )
            if ended.rowcount:
                tx.notify(channel(uuid), "finished")
            await self._promote(tx, queue)

    async def remove(self, uuid: str) -> None:
        """Delete a ticket; waiting for it ends. Errors: 404."""
        async with self.database.transaction() as tx:
            queue = await self._enter_queue_of(tx, uuid)
            await tx.execute(delete(tickets).where(tickets.c.uuid == uuid))
            tx.notify(channel(uuid), "deleted")
            await self._promote(tx, queue)

    async def _enter_queue_of(self, tx: Transaction, uuid: str) -> Queue:
        """Exclude others from the queue of a ticket. Errors: 404."""
        row = await self.row(tx, uuid)
        queue = (row.server_uuid, row.scope, row.id)
        await self._exclude(tx, queue)
        return queue

    async def _exclude(self, tx: Transaction, queue: Queue) -> None:
        await tx.exclude("ticket queue " + "\0".join(queue))

    async def remove_all(self, server_uuid: str) -> None:
        """Delete every ticket of a server; their waits end."""
        async with self.database.transaction() as tx:
            gone = await tx.execute(
                delete(tickets)
                .where(tickets.c.server_uuid == server_uuid)
                .returning(tickets.c.uuid)
            )
            for row in gone.all():
                tx.notify(channel(row.uuid), "deleted")

    async def fence_of(self, uuid: str) -> Record:
        """The fence a node task is sent with. Errors: 404; 409 when it is not this ticket's turn."""
        async with self.database.read() as tx:
            row = await self.row(tx, uuid)
        if row.status != "active":
            raise Fault(
                f"ticket {uuid} is {row.status}: its holder may not act",
                status=409,
                type_="TicketNotActive",
            )
        return {"scope": row.scope, "id": row.id, "number": row.fence}

    async def expire(self) -> int:
        """Expire overdue tickets and let the next in; how many were overdue."""
        now = self.database.clock.now()
        overdue = and_(tickets.c.status.in_(OPEN), tickets.c.expires_at <= now)
        async with self.database.read() as tx:
            query = select(tickets.c.server_uuid, tickets.c.scope, tickets.c.id).where(overdue)
            rows = (await tx.execute(query)).all()
        queues: dict[Queue, None] = dict.fromkeys((r.server_uuid, r.scope, r.id) for r in rows)
        queues.update(dict.fromkeys(self.pending))
        for queue in queues:
            try:
                async with self._alone(queue) as tx:
                    late = await tx.execute(
                        select(tickets.c.uuid).where(self._open(queue), tickets.c.expires_at <= now)
                    )
                    for row in late.all():
                        await self._set(tx, row.uuid, "expired", now)
                    await self._promote(tx, queue)
                self.pending.discard(queue)
            except (OSError, TimeoutError):
                self.pending.add(queue)
                raise
        return len(rows)

    async def forget_old(self) -> int:
        """Delete tickets that ended 30 days ago or more; how many."""
        old = and_(
            tickets.c.status.not_in(OPEN),
            tickets.c.updated < self.database.clock.now() - KEPT,
        )
        async with self.database.transaction() as tx:
            return (await tx.execute(delete(tickets).where(old))).rowcount

    async def seconds_to_next_expiry(self) -> float:
        """When the next open ticket expires; 0 or less: one has, and is not marked yet."""
        async with self.database.read() as tx:
            first = await tx.execute(
                select(func.min(tickets.c.expires_at).label("first")).where(
                    tickets.c.status.in_(OPEN)
                )
            )
            soonest = first.one().first
        if soonest is None:
            return LONGEST_SLEEP_SECONDS
        return (soonest - self.database.clock.now()).total_seconds()

    async def watch(self) -> None:
        """Expire tickets when their time comes, until cancelled."""
        async with self.database.listen(CHANNEL) as subscription:
            while True:
                try:
                    seconds = await self.seconds_to_next_expiry()
                    if seconds <= 0 or self.pending:
                        await self.expire()
                        seconds = await self.seconds_to_next_expiry()
                except (OSError, TimeoutError) as error:
                    log.warning("waitlist_waits_for_database", error=str(error))
                    seconds = 1.0
                # Never zero: an expiry that fails must not become a busy loop.
                await self._sleep(subscription, min(LONGEST_SLEEP_SECONDS, max(0.05, seconds)))
                subscription.drain()

    async def _sleep(self, subscription: Subscription, seconds: float) -> None:
        """Sleep until notified, until the time is over, or until the wall clock was set forward.

        Sleeps in short steps and reads the clocks: tickets expire by the wall clock, sleep uses
        another.
        """
        wall, loop_time = self.database.clock.now, asyncio.get_running_loop().time
        began, began_wall = loop_time(), wall()
        # Sleeps of less than a millisecond are skipped: a clock may be too coarse to measure them.
        while seconds - (slept := loop_time() - began) > 0.001:
            if (wall() - began_wall).total_seconds() - slept > NAP_SECONDS:
                return
            nap = min(NAP_SECONDS, seconds - slept)
            if await subscription.wait(nap) is not None:
                return


def sort_of(attribute: Json, order: Json) -> tuple[str, bool]:
    """Checked sorting parameters. Errors: 500 InvalidParameters."""
    errors: list[FieldError] = []
    name = str(attribute or "created_at")
    if name not in SORTABLE:
        errors.append(FieldError("attribute", "Invalid value for param 'attribute'"))
    direction = str(order or "ASC").upper()
    if direction not in ("ASC", "DESC"):
        errors.append(FieldError("order", "Invalid value for param 'order'"))
    if errors:
        raise invalid_parameters(errors)
    return name, direction == "DESC"
