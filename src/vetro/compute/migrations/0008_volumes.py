"""Volumes, their snapshots and backups."""

import sqlalchemy as sa
from alembic import op

revision = "compute_0008"
down_revision = "compute_0007"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "compute_volumes",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("size_gib", sa.Integer, nullable=False),
        sa.Column("format", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("server_uuid", sa.String(36)),
        sa.Column("vm_uuid", sa.String(36)),
        sa.Column("device", sa.String(255), nullable=False),
        sa.Column("read_only", sa.Boolean, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_volumes_vm", "compute_volumes", ["vm_uuid"])
    op.create_index("compute_volumes_owner", "compute_volumes", ["owner_uuid"])
    op.create_table(
        "compute_volume_copies",
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("owner_uuid", sa.String(64), nullable=False),
        sa.Column("volume_uuid", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("size_gib", sa.Integer, nullable=False),
        sa.Column("format", sa.String(20), nullable=False),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("server_uuid", sa.String(36)),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64)),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index("compute_volume_copies_volume", "compute_volume_copies", ["volume_uuid"])
