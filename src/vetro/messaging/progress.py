"""How far a plan has come, and what its guest does instead."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import or_, select

from vetro.messaging import tables
from vetro.messaging.transport import Progress, Unfinished
from vetro.storage import Transaction


async def progress_of(tx: Transaction, message_id: str, now: datetime) -> Progress:
    """See `MessageTransport.progress`. A message that nobody knows is in its mailbox."""
    calls, plans = tables.calls, tables.plans
    found = await tx.execute(select(calls).where(calls.c.message_id == message_id))
    call = found.first()
    if call is None:
        return Progress("mailbox")
    unfetched = select(plans.c.message_id).where(plans.c.queue == call.queue)
    rows = await tx.execute(
        select(calls)
        .where(
            calls.c.queue == call.queue,
            calls.c.sent_at < call.sent_at,
            calls.c.result_at.is_(None),
            # What was withdrawn from the mailbox has not reached the guest, and will not.
            or_(calls.c.acknowledged_at.is_not(None), calls.c.message_id.in_(unfetched)),
        )
        .order_by(calls.c.sent_at)
    )
    fetched = call.acknowledged_at is not None
    return Progress("guest" if fetched else "mailbox", tuple(_unfinished(row, now) for row in rows))


def _unfinished(row: Any, now: datetime) -> Unfinished:
    awaited = row.discarded_at is None and row.expires_at is not None and row.expires_at > now
    return Unfinished(row.message_id, row.name or row.message_id, row.sent_at, awaited)
