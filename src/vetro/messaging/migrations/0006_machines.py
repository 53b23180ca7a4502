"""The machine that reads each mailbox (docs/decisions/0852)."""

import sqlalchemy as sa
from alembic import op

revision = "messaging_0006"
down_revision = "messaging_0005"


def upgrade() -> None:
    """Add the column; of existing mailboxes the machine is kept that comes next."""
    op.add_column("messaging_mailboxes", sa.Column("machine", sa.String(36)))
