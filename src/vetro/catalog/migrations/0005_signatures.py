"""Signatures of packages."""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0005"
down_revision = "catalog_0004"


def upgrade() -> None:
    """Add the signature of an archive."""
    op.add_column("catalog_packages", sa.Column("signature", sa.Text))
