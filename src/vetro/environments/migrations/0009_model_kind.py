"""The kind of an environment's model."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0009"
down_revision = "environments_0008"


def upgrade() -> None:
    """Every environment until now has objects of MuranoPL."""
    op.add_column(
        "environments",
        sa.Column("model_kind", sa.String(16), nullable=False, server_default="muranopl"),
    )
