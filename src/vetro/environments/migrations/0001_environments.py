"""Environments, sessions, tasks, reports."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0001"
down_revision = None
branch_labels = ("environments",)


def upgrade() -> None:
    """Create the tables of the environments room."""
    op.create_table(
        "environments",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("tenant_id", sa.String(64), nullable=False),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("description_text", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name", "tenant_id"),
    )
    op.create_table(
        "environments_sessions",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("user_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(36), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "environments_sessions_environment", "environments_sessions", ["environment_id"]
    )
    op.create_table(
        "environments_tasks",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("session_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("action", sa.Text),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("finished", sa.BigInteger),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("updated", sa.BigInteger, nullable=False),
    )
    op.create_index("environments_tasks_environment", "environments_tasks", ["environment_id"])
    op.create_table(
        "environments_statuses",
        sa.Column("task_id", sa.String(36), nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("entity_id", sa.String(255)),
        sa.Column("entity", sa.String(10)),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("level", sa.String(32), nullable=False),
        sa.Column("details", sa.Text),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("task_id", "sequence"),
    )
    op.create_table(
        "environments_instances",
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("instance_id", sa.String(255), nullable=False),
        sa.Column("instance_type", sa.Integer, nullable=False),
        sa.Column("type_name", sa.String(512)),
        sa.Column("type_title", sa.String(512)),
        sa.Column("unit_count", sa.Integer),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("destroyed", sa.BigInteger),
        sa.PrimaryKeyConstraint("environment_id", "instance_id"),
    )
