"""The trace that a task belongs to, for nodes that fetch their tasks."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0010"
down_revision = "compute_0009"


def upgrade() -> None:
    """Add the column."""
    op.add_column("compute_tasks", sa.Column("traceparent", sa.String(55)))
