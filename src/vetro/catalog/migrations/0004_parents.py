"""What classes extend: forms offer packages whose classes inherit what a field wants."""

import sqlalchemy as sa
from alembic import op

revision = "catalog_0004"
down_revision = "catalog_0003"


def upgrade() -> None:
    """Add the table. The packages that are there are indexed when a form asks for the first time."""
    op.create_table(
        "catalog_parents",
        sa.Column(
            "package_id",
            sa.String(36),
            sa.ForeignKey("catalog_packages.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("parent", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("package_id", "name", "parent"),
    )
    op.create_index("catalog_parents_parent", "catalog_parents", ["parent"])
