"""The highest stamp that a guest was sent."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0003"
down_revision = "messaging_0002"


def upgrade() -> None:
    """Add the column; the stamps sent to existing guests were not stored."""
    op.add_column("messaging_mailboxes", sa.Column("last_stamp", sa.BigInteger))
