"""Lease queues."""

import sqlalchemy as sa
from alembic import op

revision = "storage_0001"
down_revision = None
branch_labels = ("storage",)


def upgrade() -> None:
    """Create the tables of the lease queues."""
    op.create_table(
        "storage_leased_work",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("queue", sa.String(64), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("payload", sa.Text),
        sa.Column("available_at", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.UniqueConstraint("queue", "key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "storage_fences",
        sa.Column("queue", sa.String(64), primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
