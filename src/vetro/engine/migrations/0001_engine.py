"""The journal of effects."""

import sqlalchemy as sa
from alembic import op

revision = "engine_0001"
down_revision = None
branch_labels = ("engine",)


def upgrade() -> None:
    """Create the tables of the engine room."""
    op.create_table(
        "engine_journal",
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("thread", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("request_digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.BigInteger),
        sa.PrimaryKeyConstraint("task_id", "fence", "sequence"),
    )
