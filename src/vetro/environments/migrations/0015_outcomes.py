"""How deployments ended: by themselves, or because somebody cancelled them or their engine ended."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0015"
down_revision = "environments_0014"


def upgrade() -> None:
    """Add the column; null says that nobody noted it."""
    op.add_column("environments_tasks", sa.Column("outcome", sa.String(16)))
