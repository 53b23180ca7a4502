"""Answers of calls that need no environment."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0002"
down_revision = "environments_0001"


def upgrade() -> None:
    """Create the table of answers."""
    op.create_table(
        "environments_calls",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("answer", sa.Text),
    )
