"""Destroyed objects that may have left something behind."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0017"
down_revision = "environments_0016"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "environments_leaked_objects",
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("object_id", sa.String(255), nullable=False),
        sa.Column("type_name", sa.String(512), nullable=False),
        sa.Column("name", sa.String(255)),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("environment_id", "object_id"),
    )
