"""Logs and metrics of tasks: that one began, how it ended, how long it took.

One line for each, written after the commit by the process that made it: ``deployment_started`` and
``deployment_ended`` (``deletion_…`` when the environment is destroyed, ``action_…`` for an action).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import structlog
from sqlalchemy import func, select

from vetro.environments.tables import environments, sessions
from vetro.environments.task_values import TaskAction, is_deployment
from vetro.http import counter, histogram, show_counts, stored_gauge
from vetro.storage import LeaseQueue, Transaction

log = structlog.get_logger("vetro.environments")

Outcome = Literal["success", "warnings", "failed", "cancelled", "interrupted", "abandoned"]
OUTCOMES = (
    "`success`, `warnings` (its reports have some), `failed`, `cancelled`, `interrupted` (its service"
    " ended), `abandoned` (its environment was given up meanwhile)."
)
KINDS = "`deployment`, `deletion` (of the environment) or `action`."
#: From a second to hours: creating machines and installing software take long.
SECONDS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)

STARTED = counter(
    "vetro_deployments_started", "Deployments that an engine of this service started.", kind=KINDS
)
ENDED = counter(
    "vetro_deployments_ended",
    "Deployments that ended in this service.",
    kind=KINDS,
    outcome=OUTCOMES,
)
DURATION = histogram(
    "vetro_deployment_seconds",
    "Time of a deployment, from its request to its end, waiting for an engine included.",
    SECONDS,
    kind=KINDS,
    outcome=OUTCOMES,
)
WAITED = histogram(
    "vetro_deployment_wait_seconds",
    "Time from the request of a deployment until an engine started it.",
    (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800),
    kind=KINDS,
)
CALLS = counter(
    "vetro_static_calls",
    "Static actions and schemas that an engine of this service answered.",
    kind="`action` or `schema`.",
    outcome="`success`, `not found`, `invalid`, `failed` or `timeout`.",
)
WAITING = stored_gauge(
    "vetro_engine_queue_length",
    "Work that waits for an engine.",
    queue="`deployments`, or `calls` for static actions and schemas.",
)
OLDEST = stored_gauge(
    "vetro_engine_queue_age_seconds",
    "How long the oldest of this work has waited; 0: nothing waits.",
    queue="As above.",
)
RUNNING = stored_gauge("vetro_deployments_running", "Deployments that engines are running.")
ENVIRONMENTS = stored_gauge(
    "vetro_environments",
    "Environments, by the state of the newest session that was deployed.",
    state="`new` (nothing was deployed yet), `deployed`, `deploying`, `deploy failure`, `deleting` or"
    " `delete failure`.",
)
DEPLOYED_STATES = ("deployed", "deploying", "deploy failure", "deleting", "delete failure")


@dataclass(frozen=True)
class TaskIdentity:
    """The fields that every log line about a task has."""

    deployment: str
    environment: str
    environment_name: str
    project: str
    user: str
    action: TaskAction | None
    created: datetime | None = None
    """When its environment was created, unless that is gone."""

    @property
    def kind(self) -> str:
        """A deployment, a deletion or an action."""
        if not self.action or "method" not in self.action:
            return "deletion"
        return "deployment" if is_deployment(self.action, self.environment) else "action"

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a line."""
        said = {
            "deployment": self.deployment,
            "environment": self.environment,
            "environment_name": self.environment_name,
            "project": self.project,
            "user": self.user,
        }
        if self.kind == "action" and self.action is not None:
            said["action"] = self.action["method"]
        return said


@dataclass(frozen=True)
class Ending:
    """How a task ended: seconds since it was requested; the reason, unless it succeeded."""

    identity: TaskIdentity
    outcome: Outcome
    seconds: float
    reason: str = ""


Listener = Callable[[Ending], None]
_LISTENERS: list[Listener] = []


@contextmanager
def listening_for_endings(listener: Listener) -> Generator[None, None, None]:
    """Notify ``listener`` of every task that ends in this process, for the duration of the block.

    It must not wait, and raises nothing.
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def task_began(identity: TaskIdentity, waited: float, attempt: int) -> None:
    """Log that an engine begins a task."""
    STARTED.labels(identity.kind).inc()
    WAITED.labels(identity.kind).observe(max(0.0, waited))
    log.info(
        f"{identity.kind}_started",
        **identity.fields,
        waited_seconds=round(waited, 3),
        **({"attempt": attempt} if attempt > 1 else {}),
    )


def task_ended(ending: Ending) -> None:
    """Log and count a task's end, which is stored already."""
    kind = ending.identity.kind
    ENDED.labels(kind, ending.outcome).inc()
    DURATION.labels(kind, ending.outcome).observe(max(0.0, ending.seconds))
    log.log(
        30 if ending.outcome in ("failed", "interrupted") else 20,
        f"{kind}_ended",
        **ending.identity.fields,
        outcome=ending.outcome,
        seconds=round(ending.seconds, 3),
        **({"reason": ending.reason} if ending.reason else {}),
    )
    for listener in _LISTENERS:
        listener(ending)


def call_ended(
    kind: str, subject: str, project: str, user: str, seconds: float, failure: str, reason: str
) -> None:
    """Log and count the answer to a static action or a schema."""
    CALLS.labels(kind, failure or "success").inc()
    if kind != "action":
        return
    log.log(
        30 if failure in ("failed", "timeout") else 20,
        "static_action_ended",
        action=subject,
        project=project,
        user=user,
        outcome=failure or "success",
        seconds=round(seconds, 3),
        **({"reason": reason} if reason else {}),
    )


async def read_stored(tx: Transaction, queues: dict[str, LeaseQueue]) -> None:
    """Set the room's gauges; ``queues``: the lease queues by their names in the metrics."""
    for name, queue in queues.items():
        load = await queue.load(tx)
        WAITING.labels(name).set(load.waiting)
        OLDEST.labels(name).set(load.oldest_seconds)
        if name == "deployments":
            RUNNING.set(load.held)
    newest = (
        select(
            sessions.c.state,
            func.row_number()
            .over(
                partition_by=sessions.c.environment_id,
                order_by=(sessions.c.version.desc(), sessions.c.updated.desc()),
            )
            .label("place"),
        )
        .where(sessions.c.state.in_(DEPLOYED_STATES))
        .subquery()
    )
    query = select(newest.c.state, func.count().label("number")).where(newest.c.place == 1)
    rows = await tx.execute(query.group_by(newest.c.state))
    found: dict[str, float] = {row.state: row.number for row in rows}
    every = (await tx.execute(select(func.count()).select_from(environments))).scalar_one()
    found["new"] = max(0, every - sum(found.values()))
    show_counts(ENVIRONMENTS, found, ("new", *DEPLOYED_STATES))
