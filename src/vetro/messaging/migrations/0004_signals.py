"""Signals: what guests report to handles over signed addresses."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0004"
down_revision = "messaging_0003"


def upgrade() -> None:
    """Create the tables of handles and signals."""
    op.create_table(
        "messaging_handles",
        sa.Column("handle", sa.String(64), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "messaging_signals",
        sa.Column(
            "handle",
            sa.String(64),
            sa.ForeignKey("messaging_handles.handle", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("signal_id", sa.String(255), primary_key=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
    )
