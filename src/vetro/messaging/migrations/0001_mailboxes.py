"""Mailboxes, plans, calls and dead letters."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0001"
down_revision = None
branch_labels = ("messaging",)


def upgrade() -> None:
    """Create the tables of the mailboxes."""
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "messaging_mailboxes",
        sa.Column("queue", sa.String(255), primary_key=True),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("token_hash", sa.String(64), unique=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_contact", sa.BigInteger),
        sa.Column("agent_version", sa.String(64)),
        sa.Column("agent_uptime", sa.Float),
    )
    op.create_table(
        "messaging_plans",
        sa.Column("id", serial, primary_key=True, autoincrement=True),
        sa.Column(
            "queue",
            sa.String(255),
            sa.ForeignKey("messaging_mailboxes.queue", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("message_id", sa.String(255), nullable=False, unique=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary),
        sa.Column("lease_session", sa.String(64)),
        sa.Column("lease_until", sa.BigInteger),
        sqlite_autoincrement=True,
    )
    op.create_index("messaging_plans_queue", "messaging_plans", ["queue", "id"])
    op.create_table(
        "messaging_calls",
        sa.Column("message_id", sa.String(255), primary_key=True),
        sa.Column(
            "queue",
            sa.String(255),
            sa.ForeignKey("messaging_mailboxes.queue", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("body_hash", sa.String(64), nullable=False),
        sa.Column("sent_at", sa.BigInteger, nullable=False),
        sa.Column("acknowledged_at", sa.BigInteger),
        sa.Column("result", sa.LargeBinary),
        sa.Column("result_at", sa.BigInteger),
        sa.Column("discarded_at", sa.BigInteger),
    )
    op.create_index("messaging_calls_queue", "messaging_calls", ["queue"])
    op.create_table(
        "messaging_dead_letters",
        sa.Column("id", serial, primary_key=True, autoincrement=True),
        sa.Column("queue", sa.String(255), nullable=False),
        sa.Column("message_id", sa.String(255)),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("messaging_dead_letters_queue", "messaging_dead_letters", ["queue"])
    op.create_table(
        "messaging_secrets",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
