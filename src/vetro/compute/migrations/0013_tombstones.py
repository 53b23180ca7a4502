"""What left a server outlives its record (docs/decisions/0821)."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0013"
down_revision = "compute_0012"


def upgrade() -> None:
    """Add the table; of servers that were deleted before nothing is known."""
    op.create_table(
        "compute_tombstones",
        sa.Column("server_uuid", sa.String(36), primary_key=True),
        sa.Column("moved_vms", sa.Text, nullable=False),
    )
