"""VMs that are being moved from one server to another."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0005"
down_revision = "compute_0004"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "compute_moves",
        sa.Column("vm_uuid", sa.String(36), primary_key=True),
        sa.Column("target_uuid", sa.String(36), nullable=False),
        sa.Column("job_uuid", sa.String(36), nullable=False),
    )
    op.create_index("compute_moves_target", "compute_moves", ["target_uuid"])
