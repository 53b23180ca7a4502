"""Roles in a domain."""

import sqlalchemy as sa
from alembic import op

revision = "identity_0002"
down_revision = "identity_0001"


def upgrade() -> None:
    """Create the assignments of roles in domains."""
    op.create_table(
        "identity_domain_assignments",
        sa.Column("user_id", sa.String(64), sa.ForeignKey("identity_users.id", ondelete="CASCADE")),
        sa.Column(
            "domain_id", sa.String(64), sa.ForeignKey("identity_domains.id", ondelete="CASCADE")
        ),
        sa.Column("role_id", sa.String(64), sa.ForeignKey("identity_roles.id", ondelete="CASCADE")),
        sa.PrimaryKeyConstraint("user_id", "domain_id", "role_id"),
    )
