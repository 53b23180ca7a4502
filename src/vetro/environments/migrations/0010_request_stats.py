"""Statistics of requests, a row for each process."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0010"
down_revision = "environments_0009"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "environments_request_stats",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("request_count", sa.BigInteger, nullable=False),
        sa.Column("error_count", sa.BigInteger, nullable=False),
        sa.Column("average_response_time", sa.Double, nullable=False),
        sa.Column("requests_per_tenant", sa.Text, nullable=False),
        sa.Column("requests_per_second", sa.Double, nullable=False),
        sa.Column("errors_per_second", sa.Double, nullable=False),
        sa.Column("cpu_count", sa.Integer, nullable=False),
        sa.Column("cpu_percent", sa.Double, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
