"""The text that says what a running task waits on."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0004"
down_revision = "environments_0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("environments_tasks", sa.Column("waiting_on", sa.Text))
