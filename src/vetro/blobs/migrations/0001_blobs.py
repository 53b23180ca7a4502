"""Files in the database: what they are called, and their content in parts."""

import sqlalchemy as sa
from alembic import op

revision = "blobs_0001"
down_revision = None
branch_labels = ("blobs",)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "blobs",
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("content_id", sa.String(32), nullable=False, unique=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("stored", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "blobs_parts",
        sa.Column("content_id", sa.String(32), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("stored", sa.BigInteger, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        # Archives and images are compressed: PostgreSQL would try in vain.
        op.execute("ALTER TABLE blobs_parts ALTER COLUMN content SET STORAGE EXTERNAL")
