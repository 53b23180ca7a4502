"""Which disk a VM has: another value each time that it is made anew (docs/decisions/0803)."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0012"
down_revision = "compute_0011"


def upgrade() -> None:
    """Add the column; VMs that are there keep the disk that they have."""
    op.add_column("compute_vms", sa.Column("incarnation", sa.String(36)))
