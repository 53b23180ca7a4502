"""Who made what has no uuid of its own: key pairs, interfaces, attachments, ways of addresses."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0011"
down_revision = "compute_0010"

_TABLES = (
    "compute_keypairs",
    "compute_router_interfaces",
    "compute_volumes",
    "compute_floating_ips",
)


def upgrade() -> None:
    """Add the columns; of what there is nobody is known."""
    for table in _TABLES:
        op.add_column(table, sa.Column("made_by", sa.String(64), nullable=False, server_default=""))
