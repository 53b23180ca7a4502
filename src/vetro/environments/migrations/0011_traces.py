"""Traces of XML workflows."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0011"
down_revision = "environments_0010"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "environments_traces",
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "round"),
    )
