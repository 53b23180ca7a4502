"""Organizations, spaces, instances and bindings of a platform."""

import sqlalchemy as sa
from alembic import op

revision = "broker_0001"
down_revision = None
branch_labels = ("broker",)


def upgrade() -> None:
    """Create the tables of the broker room."""
    op.create_table(
        "broker_organizations",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
    )
    op.create_table(
        "broker_spaces",
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("environment_name", sa.String(255), nullable=False),
        sa.Column("environment_id", sa.String(64)),
        sa.PrimaryKeyConstraint("project_id", "id"),
    )
    op.create_table(
        "broker_instances",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column("service_id", sa.String(255), nullable=False),
        sa.Column("plan_id", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("object_id", sa.String(64), nullable=False),
        sa.Column("environment_id", sa.String(64)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "broker_bindings",
        sa.Column(
            "instance_id",
            sa.String(255),
            sa.ForeignKey("broker_instances.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "id"),
    )


def downgrade() -> None:
    """Remove them."""
    for name in ("bindings", "instances", "spaces", "organizations"):
        op.drop_table(f"broker_{name}")
