"""The reason why a running task is to be cancelled."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0003"
down_revision = "environments_0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("environments_tasks", sa.Column("cancellation", sa.Text))
