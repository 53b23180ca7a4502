"""Where tasks of XML workflows stand."""

import sqlalchemy as sa
from alembic import op

revision = "engine_0002"
down_revision = "engine_0001"


def upgrade() -> None:
    """Create the tables of checkpoints."""
    op.create_table(
        "engine_checkpoints",
        sa.Column("task_id", sa.String(36), primary_key=True),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("round", sa.Integer, nullable=False),
        sa.Column("progress", sa.Text),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "engine_answers",
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("plan_id", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "plan_id"),
    )
