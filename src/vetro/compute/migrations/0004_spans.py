"""Fabric numbers of subnets, and what nodes were last sent about their fabrics."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0004"
down_revision = "compute_0003"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "compute_fabric_numbers",
        sa.Column("subnet_uuid", sa.String(36), primary_key=True),
        sa.Column("vni", sa.Integer, nullable=False, unique=True),
    )
    op.create_table(
        "compute_spans_told",
        sa.Column("server_uuid", sa.String(36), primary_key=True),
        sa.Column("subnet_uuid", sa.String(36), primary_key=True),
        sa.Column("fingerprint", sa.String(32), nullable=False),
    )
    op.create_index("compute_spans_told_subnet", "compute_spans_told", ["subnet_uuid"])
