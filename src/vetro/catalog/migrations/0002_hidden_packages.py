"""Deleted packages that environments still use."""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0002"
down_revision = "catalog_0001"


def upgrade() -> None:
    """Add the time of a package's deletion."""
    op.add_column("catalog_packages", sa.Column("deleted", sa.BigInteger))
