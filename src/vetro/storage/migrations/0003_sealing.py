"""The keys that sealed the stored values."""

import sqlalchemy as sa
from alembic import op

revision = "storage_0003"
down_revision = "storage_0002"


def upgrade() -> None:
    """Create the table of the keys in use; the first start seals the existing values."""
    op.create_table(
        "storage_sealing",
        sa.Column("key_id", sa.String(64), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )
