"""Environment templates."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0007"
down_revision = "environments_0006"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "environments_templates",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("tenant_id", sa.String(64), nullable=False),
        sa.Column("description_text", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("is_public", sa.Boolean, nullable=False),
        sa.Column("services", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("tenant_id", "name"),
    )
