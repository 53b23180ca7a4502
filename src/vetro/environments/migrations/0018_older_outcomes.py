"""How deployments ended before that was noted: their reports and cancellations say it."""

from alembic import op

revision = "environments_0018"
down_revision = "environments_0017"

#: How reports began that engines wrote when their service had ended.
INTERRUPTED = (
    "The service was killed during this deployment: ",
    "The service was stopped during this deployment: ",
    "The service ended again and again during this deployment: ",
)


def upgrade() -> None:
    """Fill the outcome of what failed; null stays where nothing says more than the state."""
    begins = " OR ".join(f"s.text LIKE '{text}%'" for text in INTERRUPTED)
    reported = (
        "EXISTS (SELECT 1 FROM environments_statuses s"
        " WHERE s.task_id = environments_tasks.id AND s.level = 'error'{})"
    )
    unknown = "WHERE outcome IS NULL AND finished IS NOT NULL AND "
    for outcome, condition in (
        ("cancelled", "cancellation IS NOT NULL AND " + reported.format("")),
        ("interrupted", reported.format(f" AND ({begins})")),
    ):
        op.execute(f"UPDATE environments_tasks SET outcome = '{outcome}' {unknown}{condition}")  # noqa: S608
