"""How far a plan has come, and which plans its guest runs before it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import or_, select

from vetro.messaging import tables
from vetro.messaging.transport import Progress, Unfinished
from vetro.storage import Transaction


async def progress_of(tx: Transaction, message_id: str, now: datetime) -> Progress:
    """See `MessageTransport.progress`. An unknown message counts as in its mailbox."""
    calls = tables.calls
    found = await tx.execute(select(calls).where(calls.c.message_id == message_id))
    call = found.first()
    if call is None:
        return Progress("mailbox")
    before = await unfinished_of(tx, call.queue, now, before=call.sent_at)
    return Progress("mailbox" if call.acknowledged_at is None else "guest", tuple(before))


async def unfinished_of(
    tx: Transaction, queue: str, now: datetime, *, before: datetime | None = None
) -> list[Unfinished]:
    """The plans that a guest has not answered, oldest first; only those sent ``before``."""
    calls, plans = tables.calls, tables.plans
    unfetched = select(plans.c.message_id).where(plans.c.queue == queue)
    wanted = select(calls).where(
        calls.c.queue == queue,
        calls.c.result_at.is_(None),
        # A plan withdrawn from the mailbox has not reached the guest and will not.
        or_(calls.c.acknowledged_at.is_not(None), calls.c.message_id.in_(unfetched)),
    )
    if before is not None:
        wanted = wanted.where(calls.c.sent_at < before)
    rows = await tx.execute(wanted.order_by(calls.c.sent_at))
    return [_unfinished(row, now) for row in rows]


def _unfinished(row: Any, now: datetime) -> Unfinished:
    awaited = row.discarded_at is None and row.expires_at is not None and row.expires_at > now
    return Unfinished(row.message_id, row.name or row.message_id, row.sent_at, awaited)
