"""The name of a call, and the time until which its sender waits for the result."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0002"
down_revision = "messaging_0001"


def upgrade() -> None:
    """Add the columns; existing calls have no name and wait without end."""
    op.add_column("messaging_calls", sa.Column("name", sa.String(255)))
    op.add_column("messaging_calls", sa.Column("expires_at", sa.BigInteger))
    op.add_column("messaging_plans", sa.Column("expires_at", sa.BigInteger))
