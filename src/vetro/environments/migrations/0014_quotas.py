"""Quotas: limits of projects on their environments."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0014"
down_revision = "environments_0013"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "environments_quotas",
        sa.Column("project_id", sa.String(64), primary_key=True),
        sa.Column("resource", sa.String(32), primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
