"""When the machines with processes on this database were started."""

import sqlalchemy as sa
from alembic import op

revision = "storage_0004"
down_revision = "storage_0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "storage_boots",
        sa.Column("boot_id", sa.String(64), primary_key=True),
        sa.Column("began_at", sa.BigInteger, nullable=False),
    )
