"""Ports are looked up by their address: each guest that fetches its plans is (docs/decisions/0852)."""

from alembic import op

revision = "compute_0014"
down_revision = "compute_0013"


def upgrade() -> None:
    """Add the index."""
    op.create_index("compute_ports_ip", "compute_ports", ["ip"])
