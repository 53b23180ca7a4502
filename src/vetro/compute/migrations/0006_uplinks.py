"""Networks outside the installation, reached through the interface that carries a NIC tag."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0006"
down_revision = "compute_0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("compute_networks", sa.Column("uplink", sa.Text))
