"""Metrics of guests and their mailboxes."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import func, select

from vetro.http import stored_gauge
from vetro.messaging.tables import calls, mailboxes, plans
from vetro.storage import Database, Transaction, UtcDateTime

LATELY_SECONDS = 300
"""A waiting guest polls at least every minute, and contacts are stored at intervals."""

AGENTS = stored_gauge("vetro_agents", "Known guest agents: each has a mailbox.")
HEARD = stored_gauge(
    "vetro_agents_heard",
    f"Guest agents that contacted the service in the last {LATELY_SECONDS} seconds.",
)
WAITING = stored_gauge(
    "vetro_mailboxes_waiting", "Mailboxes with a plan that its guest has not acknowledged."
)
PLANS = stored_gauge("vetro_plans_waiting", "Plans that no guest has acknowledged yet.")
OLDEST = stored_gauge(
    "vetro_plan_age_seconds", "How long the oldest of these plans has waited; 0: none waits."
)


async def read_stored(database: Database, tx: Transaction) -> None:
    """Set the room's gauges."""
    now, steady = database.clock.now(), database.steady_now()
    lately = mailboxes.c.last_contact >= now - timedelta(seconds=LATELY_SECONDS)
    boxes = (
        await tx.execute(
            select(
                func.count().label("every"), func.count().filter(lately).label("heard")
            ).select_from(mailboxes)
        )
    ).one()
    AGENTS.set(boxes.every)
    HEARD.set(boxes.heard)
    waiting = (plans.c.expires_at.is_(None)) | (plans.c.expires_at > steady)
    mail = (
        await tx.execute(
            select(
                func.count().label("plans"),
                func.count(plans.c.queue.distinct()).label("boxes"),
                func.min(calls.c.sent_at, type_=UtcDateTime).label("oldest"),
            )
            .select_from(plans.join(calls, calls.c.message_id == plans.c.message_id))
            .where(waiting)
        )
    ).one()
    PLANS.set(mail.plans)
    WAITING.set(mail.boxes)
    OLDEST.set(0 if mail.oldest is None else max(0.0, (steady - mail.oldest).total_seconds()))
