"""Stacks and their resources."""

import sqlalchemy as sa
from alembic import op

revision = "stacks_0001"
down_revision = None
branch_labels = ("stacks",)


def upgrade() -> None:
    """Create the tables of the native back end."""
    op.create_table(
        "stacks_stacks",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("waiting_on", sa.Text),
        sa.Column("template", sa.Text, nullable=False),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("environment", sa.Text),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("outputs", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(255)),
        sa.Column("owner_until", sa.BigInteger),
        sa.UniqueConstraint("project_id", "name"),
    )
    op.create_table(
        "stacks_resources",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column(
            "stack_id",
            sa.String(36),
            sa.ForeignKey("stacks_stacks.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("type", sa.String(255), nullable=False),
        sa.Column("physical_id", sa.String(255), nullable=False),
        sa.Column("current", sa.Boolean, nullable=False),
        sa.Column("retain", sa.Boolean, nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("requires", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("stacks_resources_stack", "stacks_resources", ["stack_id"])
    op.create_index("stacks_resources_physical", "stacks_resources", ["physical_id"])
