"""Where each guest was last heard, and with which settings it was told to come."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0005"
down_revision = "messaging_0004"


def upgrade() -> None:
    """Add the columns; of existing guests none is known until they are heard or told."""
    op.add_column("messaging_mailboxes", sa.Column("door", sa.String(255)))
    op.add_column("messaging_mailboxes", sa.Column("told", sa.String(64)))
    op.add_column("messaging_mailboxes", sa.Column("told_door", sa.String(255)))
