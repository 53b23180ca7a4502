"""Texts that wait to be added to the index of words."""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0007"
down_revision = "catalog_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add whether a text waits; none does yet."""
    op.add_column(
        "catalog_index",
        sa.Column("is_waiting", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index(
        "catalog_index_waiting",
        "catalog_index",
        ["is_waiting"],
        sqlite_where=sa.text("is_waiting = 1"),
        postgresql_where=sa.text("is_waiting"),
    )
