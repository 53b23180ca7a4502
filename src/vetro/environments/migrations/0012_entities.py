"""Reports of XML workflows about the environment: the word has eleven letters."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0012"
down_revision = "environments_0011"


def upgrade() -> None:
    """Widen the column; SQLite does not know lengths."""
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("environments_statuses", "entity", type_=sa.String(20))
