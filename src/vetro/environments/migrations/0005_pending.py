"""The model that an overtaken session was opened on."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0005"
down_revision = "environments_0004"


def upgrade() -> None:
    """Add the column."""
    op.add_column("environments_sessions", sa.Column("base", sa.Text))
