"""The party that work is for."""

import sqlalchemy as sa
from alembic import op

revision = "storage_0002"
down_revision = "storage_0001"


def upgrade() -> None:
    """Add the column."""
    op.add_column("storage_leased_work", sa.Column("party", sa.String(64)))
