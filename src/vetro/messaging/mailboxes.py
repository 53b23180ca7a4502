"""The built-in transport: mailboxes in the service's database.

Every method may be called in any process that has the database open: the engine sends and waits in
one process while the guest's long poll is open in another. A waiter first subscribes, then reads
the database, then sleeps; notifications (`Database.listen`) are hints and carry no message.

Deadlines (`expires_at`, `lease_until`, `result_at`, `discarded_at`) and the order of plans (`sent_at`) are by
`Database.steady_now`, which nobody can set and on which all machines agree; what is only shown to people
(contacts, dead letters) is by the wall clock.

Channels: `mailbox/plans/<queue>` (a plan was added or may be handed out again), the same for all
queues on `mailbox/plans` with the queue as payload, and `mailbox/results/<message id>`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from sqlalchemy import delete, func, insert, or_, select, update

from vetro.messaging import tables
from vetro.messaging.credentials import Credentials, Guest
from vetro.messaging.errors import DuplicateMessage, MessageTooLarge, UnknownMailbox
from vetro.messaging.results import (
    MalformedResult,
    Results,
    progress_of,
    results_channel,
    source_of,
    unfinished_of,
)
from vetro.messaging.settings import BROKER_DOOR, MailboxSection
from vetro.messaging.signals import Signals
from vetro.messaging.transport import Progress, Sending, Told, Unfinished
from vetro.storage import Database, LookAgain, Transaction, await_until, insert_if_new

if TYPE_CHECKING:
    from vetro.http import Face
    from vetro.messaging.machines import Machines

PLANS_CHANNEL = "mailbox/plans"

SHORTEST_PAUSE = 0.05
_PLAN_ADVICE = "send large files as downloadable files instead of inline bodies"


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxSettings:
    """Limits of the mailboxes. Sizes are in bytes, times in seconds.

    Guests get ``sizes.result_limit`` with every plan and cut outputs of scripts to fit it.
    """

    sizes: MailboxSection = field(default_factory=MailboxSection)
    lease_seconds: float = 60.0
    """How long a guest has to acknowledge a plan before it is handed out again."""
    longest_wait: float = 60.0
    default_wait: float = 30.0
    keep_results: float = 86_400.0
    keep_dead_letters: float = 7 * 86_400.0
    store_contacts: float = 5.0
    """How long contacts of guests are collected before they are stored."""
    prune_every: float = 3600.0
    requests_per_second: float = 20.0
    request_burst: int = 100


@dataclass(frozen=True, slots=True)
class PlanMessage:
    """A plan as it is handed to a guest: the exact bytes that were signed."""

    message_id: str
    body: bytes
    signature: bytes | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message from a guest that could not be used."""

    queue: str
    message_id: str | None
    reason: str
    """`malformed`, `unknown` (no such call), `late` (the call was discarded), `too large` or
    `foreign` (a guest answered a call made to another guest)."""
    body: bytes
    received_at: datetime


class Mailboxes:
    """Durable queues between the engine and the guests (guest-agent.md §2a).

    `secret` keys the guests' credentials; give the same bytes to every process of an
    installation. Without it a random one is kept in the database.
    """

    def __init__(
        self,
        db: Database,
        *,
        secret: bytes | None = None,
        settings: MailboxSettings | None = None,
    ) -> None:
        self.db = db
        self.settings = settings or MailboxSettings()
        self.credentials = Credentials(db, secret)
        self.signals = Signals(db, self.credentials)
        self._results = Results(db, self.settings.sizes.result_limit)

    def face(
        self,
        archive: Callable[[], bytes] = bytes,
        door: str = "",
        machines: Machines | None = None,
    ) -> Face:
        """The guests' HTTP face, at `/agents`. Create it once, in a running event loop.

        ``archive``: the guest agent that `GET /agents/v1/agent.pyz` gives, read at the first request;
        ``door``: ``HOST:PORT`` where guests find the face; ``machines``: whose guests these are.
        """
        from vetro.messaging.face import make_agents_face  # an engine needs no HTTP server

        return make_agents_face(self, archive, door, machines)

    async def read_stored(self, tx: Transaction) -> None:
        """Set the metrics of the stored mailboxes."""
        from vetro.messaging.metrics import read_stored

        await read_stored(self.db, tx)

    # --- the engine's side -------------------------------------------------------------

    async def declare(self, queue: str) -> None:
        """Make the mailbox if it does not exist. Idempotent."""
        async with self.db.transaction() as tx:
            await self._declare(tx, queue)

    async def issue_credential(self, queue: str) -> str:
        """The guest's token, stable until rotated; declares the mailbox if needed."""
        await self.declare(queue)
        return await self.credentials.issue(queue)

    def broker_user(self, queue: str) -> str:
        """ "": guests on HTTP need no user of a broker."""
        return ""

    async def rotate_credential(self, queue: str) -> str:
        """A new token; the former one stops working. Raises `UnknownMailbox`."""
        return await self.credentials.rotate(queue)

    async def revoke(self, queue: str) -> None:
        """Invalidate the guest's token. Idempotent."""
        await self.credentials.revoke(queue)

    async def delete(self, queue: str) -> None:
        """Remove the mailbox, its messages and its credential. Idempotent."""
        async with self.db.transaction() as tx:
            for table in (tables.plans, tables.calls, tables.dead_letters, tables.mailboxes):
                await tx.execute(delete(table).where(table.c.queue == queue))
            _announce(tx, queue)

    async def queues_of(self, prefix: str) -> list[str]:
        """The mailboxes whose names begin with a text, sorted."""
        name = tables.mailboxes.c.queue
        async with self.db.read() as tx:
            found = select(name).where(name.startswith(prefix, autoescape=True)).order_by(name)
            return list((await tx.execute(found)).scalars())

    async def send(self, queue: str, message_id: str, body: bytes, **how: Unpack[Sending]) -> None:
        """Append a plan to the guest's queue; see `MessageTransport.send`."""
        if len(body) > self.settings.sizes.plan_limit:
            raise MessageTooLarge(
                f"The plan {message_id}", len(body), self.settings.sizes.plan_limit, _PLAN_ADVICE
            )
        digest = hashlib.sha256(body).hexdigest()
        now = self.db.steady_now()
        lifetime, stamp = how.get("lifetime"), how.get("stamp")
        expires = None if lifetime is None else now + timedelta(seconds=lifetime)
        async with self.db.transaction() as tx:
            await self._require(tx, queue)
            call = {
                "message_id": message_id,
                "queue": queue,
                "name": how.get("name", "")[:255] or None,
                "body_hash": digest,
                "sent_at": now,
                "expires_at": expires,
                # Nobody waits for the answer to an order, so it counts as answered from the start.
                "result_at": now if how.get("order") else None,
            }
            if not await insert_if_new(tx, tables.calls, call):
                former = await tx.execute(
                    select(tables.calls.c.queue, tables.calls.c.body_hash).where(
                        tables.calls.c.message_id == message_id
                    )
                )
                row = former.one()
                if (row.queue, row.body_hash) != (queue, digest):
                    raise DuplicateMessage(message_id)
                return  # a repeated effect: the plan was sent already
            await tx.execute(
                insert(tables.plans).values(
                    queue=queue,
                    message_id=message_id,
                    body=body,
                    signature=how.get("signature"),
                    expires_at=expires,
                )
            )
            if stamp is not None:
                stamps = tables.mailboxes.c.last_stamp
                await tx.execute(
                    update(tables.mailboxes)
                    .where(tables.mailboxes.c.queue == queue)
                    .where(or_(stamps.is_(None), stamps < stamp))
                    .values(last_stamp=stamp)
                )
            _announce(tx, queue)

    async def wait_result(self, message_id: str, timeout: float) -> bytes | None:
        """The result of a sent plan; None when it has not come after `timeout` seconds."""
        return await await_until(
            self.db, results_channel(message_id), partial(self._result, message_id), timeout
        )

    async def discard(self, message_id: str) -> bool:
        """Stop waiting: withdraw the plan, drop its result, record a later result as late.

        True when the guest has not received the plan and will not.
        """
        plans, calls = tables.plans, tables.calls
        async with self.db.transaction() as tx:
            found = await tx.execute(
                select(plans.c.queue, plans.c.lease_until)
                .where(plans.c.message_id == message_id)
                .with_for_update()
            )
            row = found.first()
            await tx.execute(delete(plans).where(plans.c.message_id == message_id))
            await tx.execute(
                update(calls)
                .where(calls.c.message_id == message_id)
                .values(discarded_at=self.db.steady_now(), result=None)
            )
            if row is not None:
                _announce(tx, row.queue)
        return row is not None and row.lease_until is None

    async def progress(self, message_id: str) -> Progress:
        """How far a sent plan has come, and which plans its guest has to finish before it."""
        async with self.db.read() as tx:
            return await progress_of(tx, message_id, self.db.steady_now())

    async def unfinished(self, queue: str) -> list[Unfinished]:
        """The plans that a guest has not answered, oldest first."""
        async with self.db.read() as tx:
            return await unfinished_of(tx, queue, self.db.steady_now())

    async def last_stamp(self, queue: str) -> int:
        """The highest stamp that the guest was sent; 0 if none."""
        async with self.db.read() as tx:
            found = await tx.execute(
                select(tables.mailboxes.c.last_stamp).where(tables.mailboxes.c.queue == queue)
            )
            return int(found.scalar_one_or_none() or 0)

    async def told(self, queue: str) -> Told:
        """What the guest knows of where to come; nothing of a mailbox that is not there."""
        known = tables.mailboxes.c
        async with self.db.read() as tx:
            found = await tx.execute(
                select(known.told, known.door, known.last_contact).where(known.queue == queue)
            )
            row = found.first()
        if row is None:
            return Told(None, None, False)
        return Told(row.told, row.door, row.last_contact is not None)

    async def note_told(self, queue: str, digest: str, door: str) -> None:
        """Record which settings the guest has. Raises `UnknownMailbox`."""
        table = tables.mailboxes
        async with self.db.transaction() as tx:
            await self._require(tx, queue)
            await tx.execute(
                update(table)
                .where(table.c.queue == queue)
                .values(
                    told=digest,
                    told_door=door[:255],
                    door=func.coalesce(table.c.door, door[:255]),
                )
            )

    async def note_door(self, queue: str, door: str, *, known: bool = False) -> None:
        """Record that a guest has come, and where.

        A guest says itself where it has come, and the service may listen there later. So only the door counts
        that it was told, or one that is ``known`` to be the service's.
        """
        table = tables.mailboxes
        own = table.c.queue == queue
        async with self.db.transaction() as tx:
            await tx.execute(update(table).where(own).values(last_contact=self.db.clock.now()))
            told = own if known else own & (table.c.told_door == door)
            await tx.execute(update(table).where(told).values(door=door[:255]))

    async def doors(self) -> dict[str, int]:
        """Where guests come, or were made to come, and how many; those of brokers are left out."""
        door = tables.mailboxes.c.door
        counted = select(door, func.count().label("guests")).where(door.is_not(None))
        async with self.db.read() as tx:
            rows = (await tx.execute(counted.group_by(door).order_by(door))).all()
        found: dict[str, int] = {row.door: row.guests for row in rows}
        return {name: count for name, count in found.items() if not name.startswith(BROKER_DOOR)}

    async def last_contact(self, queue: str) -> datetime | None:
        """The guest's last contact; None if there is none (or no such mailbox)."""
        async with self.db.read() as tx:
            found = await tx.execute(
                select(tables.mailboxes.c.last_contact).where(tables.mailboxes.c.queue == queue)
            )
            return found.scalar_one_or_none()

    async def dead_letters(self, queue: str) -> list[DeadLetter]:
        """Messages of a guest that could not be used, oldest first."""
        table = tables.dead_letters
        async with self.db.read() as tx:
            rows = await tx.execute(
                select(table).where(table.c.queue == queue).order_by(table.c.id)
            )
            return [
                DeadLetter(row.queue, row.message_id, row.reason, bytes(row.body), row.received_at)
                for row in rows
            ]

    # --- the guest's side --------------------------------------------------------------

    async def next_plan(self, guest: Guest, session: str | None, wait: float) -> PlanMessage | None:
        """The guest's oldest unacknowledged plan, leased to `session`; None after `wait` seconds.

        The order is strict: while the oldest plan is leased, later ones wait. A lease ends
        after its time, or when another session of the same guest asks (a mailbox has one
        reader: the former agent process is dead).
        """
        look = partial(self._lease, guest.queue, session)
        return await await_until(self.db, _plans_channel(guest.queue), look, wait)

    async def ready_at(self, guest: Guest, session: str | None) -> float | None:
        """Seconds until a plan may be handed to the guest (0: now); None when there is no plan."""
        now = self.db.steady_now()
        async with self.db.read() as tx:
            row = (await tx.execute(_oldest(guest.queue, now))).first()
        if row is None:
            return None
        return _when_free(row, now).seconds if _is_held(row, session, now) else 0.0

    async def acknowledge(self, guest: Guest, message_id: str) -> None:
        """The guest has the plan on its disk. Idempotent."""
        async with self.db.transaction() as tx:
            removed = await tx.execute(
                delete(tables.plans).where(
                    tables.plans.c.message_id == message_id, tables.plans.c.queue == guest.queue
                )
            )
            if removed.rowcount:
                await tx.execute(
                    update(tables.calls)
                    .where(tables.calls.c.message_id == message_id)
                    .values(acknowledged_at=self.db.clock.now())
                )
                _announce(tx, guest.queue)

    async def accept_result(self, guest: Guest, body: bytes, message_id: str | None = None) -> None:
        """Store a result. A repeated one is ignored; one that cannot be used is kept as a dead
        letter.

        `message_id` correlates results without a `SourceID` (format v1). Raises
        `MalformedResult` and `MessageTooLarge`; the waiter for a malformed one gets an error.
        """
        await self._results.take(guest.queue, body, message_id)

    async def accept_brokered(
        self, results: str, body: bytes, message_id: str | None, sender: str = "", door: str = ""
    ) -> None:
        """Store a result that came over a broker, which is called ``door``.

        ``sender``: the queue of the guest that the broker knows to have sent it; an answer to another
        guest's plan is refused then. Without one it is attributed to the guest that its plan was sent to.
        An unusable one is a dead letter of that guest, or of the result queue `results` when the plan is
        unknown. The waiter for a refused result (too large, malformed) gets an error result in its place.
        """
        source = source_of(body, message_id)
        calls = tables.calls.c
        async with self.db.read() as tx:
            found = await tx.execute(select(calls.queue).where(calls.message_id == (source or "")))
            asked = found.scalar_one_or_none()
        queue = sender or asked
        if queue is not None:
            await self.note_door(queue, door or BROKER_DOOR, known=True)
        try:
            await self._results.take(queue or results, body, message_id)
        except MessageTooLarge:
            await self._results.take_large(queue or results, body, message_id)
        except MalformedResult:
            pass  # it is a dead letter, logged and answered

    async def is_unsent(self, message_id: str) -> bool:
        """Whether a plan still waits in its mailbox to be handed out."""
        async with self.db.read() as tx:
            found = await tx.execute(
                select(tables.plans.c.id).where(tables.plans.c.message_id == message_id)
            )
            return found.first() is not None

    async def record_contacts(self, contacts: Mapping[str, datetime]) -> None:
        """Store the last contacts of guests (a batch: polls are frequent)."""
        if not contacts:
            return
        async with self.db.transaction() as tx:
            for queue, moment in contacts.items():
                await tx.execute(
                    update(tables.mailboxes)
                    .where(tables.mailboxes.c.queue == queue)
                    .values(last_contact=moment)
                )

    async def record_alive(self, guest: Guest, version: str | None, uptime: float | None) -> None:
        """Store an agent's version and uptime."""
        async with self.db.transaction() as tx:
            await tx.execute(
                update(tables.mailboxes)
                .where(tables.mailboxes.c.queue == guest.queue)
                .values(
                    agent_version=version, agent_uptime=uptime, last_contact=self.db.clock.now()
                )
            )

    async def prune(self) -> None:
        """Drop plans and results that are not waited for any more, and old dead letters."""
        now = self.db.steady_now()
        old_call = now - timedelta(seconds=self.settings.keep_results)
        old_letter = self.db.clock.now() - timedelta(seconds=self.settings.keep_dead_letters)
        plans, calls, letters = tables.plans, tables.calls, tables.dead_letters
        async with self.db.transaction() as tx:
            await tx.execute(delete(plans).where(plans.c.expires_at <= now))
            await tx.execute(
                delete(calls).where(
                    or_(
                        calls.c.result_at < old_call,
                        calls.c.discarded_at < old_call,
                        calls.c.expires_at < old_call,
                    )
                )
            )
            await tx.execute(delete(letters).where(letters.c.received_at < old_letter))

    # --- inside ------------------------------------------------------------------------

    async def _declare(self, tx: Transaction, queue: str) -> None:
        fresh = {"queue": queue, "generation": 1, "created_at": self.db.clock.now()}
        await insert_if_new(tx, tables.mailboxes, fresh)

    async def _require(self, tx: Transaction, queue: str) -> None:
        found = await tx.execute(
            select(func.count())
            .select_from(tables.mailboxes)
            .where(tables.mailboxes.c.queue == queue)
        )
        if not found.scalar_one():
            raise UnknownMailbox(queue)

    async def _result(self, message_id: str) -> bytes | None:
        async with self.db.read() as tx:
            found = await tx.execute(
                select(tables.calls.c.result).where(tables.calls.c.message_id == message_id)
            )
            result = found.scalar_one_or_none()
        return None if result is None else bytes(result)

    async def _lease(self, queue: str, session: str | None) -> PlanMessage | LookAgain | None:
        """Lease the oldest plan; `LookAgain` when another lease that holds it ends."""
        async with self.db.read() as tx:
            now = self.db.steady_now()
            row = (await tx.execute(_oldest(queue, now))).first()
            if row is None:
                return None  # the usual answer takes no write transaction
            if _is_held(row, session, now):
                return _when_free(row, now)
        async with self.db.transaction() as tx:
            now = self.db.steady_now()
            row = (await tx.execute(_oldest(queue, now).with_for_update())).first()
            if row is None:
                return None
            if _is_held(row, session, now):
                return _when_free(row, now)
            await tx.execute(
                update(tables.plans)
                .where(tables.plans.c.id == row.id)
                .values(
                    lease_session=session or "",
                    lease_until=now + timedelta(seconds=self.settings.lease_seconds),
                )
            )
        signature = None if row.signature is None else bytes(row.signature)
        return PlanMessage(row.message_id, bytes(row.body), signature)


def _announce(tx: Transaction, queue: str) -> None:
    tx.notify(_plans_channel(queue))
    tx.notify(PLANS_CHANNEL, queue)


def _plans_channel(queue: str) -> str:
    return f"mailbox/plans/{queue}"


def _oldest(queue: str, now: datetime) -> Any:
    """The oldest plan of a queue that has not expired."""
    plans = tables.plans
    return (
        select(plans)
        .where(plans.c.queue == queue, or_(plans.c.expires_at.is_(None), plans.c.expires_at > now))
        .order_by(plans.c.id)
        .limit(1)
    )


def _when_free(row: Any, now: datetime) -> LookAgain:
    return LookAgain(max(SHORTEST_PAUSE, (row.lease_until - now).total_seconds()))


def _is_held(row: Any, session: str | None, now: datetime) -> bool:
    """True if the plan is leased to a session that may still acknowledge it."""
    if row.lease_until is None or row.lease_until <= now:
        return False
    known = session is not None and row.lease_session != ""
    return not (known and row.lease_session != session)
