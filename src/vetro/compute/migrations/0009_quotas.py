"""Quotas: limits of projects, and which VMs they count."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0009"
down_revision = "compute_0008"


def upgrade() -> None:
    """Add the table, the column and an index of the owners."""
    op.create_table(
        "compute_quotas",
        sa.Column("project_id", sa.String(64), primary_key=True),
        sa.Column("resource", sa.String(32), primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
    )
    op.add_column(
        "compute_vms",
        sa.Column("counted", sa.Boolean, nullable=False, server_default=sa.true()),
    )
    op.create_index("compute_vms_owner", "compute_vms", ["owner_uuid", "counted"])
