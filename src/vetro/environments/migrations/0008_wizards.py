"""Wizards: forms that are being filled in."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0008"
down_revision = "environments_0007"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "environments_wizards",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("package_id", sa.String(36), nullable=False),
        sa.Column("package_name", sa.String(128), nullable=False),
        sa.Column("package_version", sa.String(64), nullable=False),
        sa.Column("title", sa.String(80), nullable=False),
        sa.Column("form", sa.Text, nullable=False),
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
        ),
        sa.Column("component_id", sa.String(255)),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("offers", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "environments_wizards_project", "environments_wizards", ["project_id", "updated"]
    )
    op.create_index(
        "environments_wizards_component",
        "environments_wizards",
        ["environment_id", "component_id"],
    )
