"""Which nodes have which images, and the progress of those being fetched."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0007"
down_revision = "compute_0006"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "compute_image_copies",
        sa.Column("server_uuid", sa.String(36), primary_key=True),
        sa.Column("image_uuid", sa.String(36), primary_key=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("percent", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_image_copies_image", "compute_image_copies", ["image_uuid"])
