"""Indexes for the oldest work of a queue, and for what of it is held."""

import sqlalchemy as sa
from alembic import op

revision = "storage_0005"
down_revision = "storage_0004"


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("storage_leased_work_oldest", "storage_leased_work", ["queue", "id"])
    op.create_index(
        "storage_leased_work_held",
        "storage_leased_work",
        ["queue", "party"],
        sqlite_where=sa.text("owner IS NOT NULL"),
        postgresql_where=sa.text("owner IS NOT NULL"),
    )
