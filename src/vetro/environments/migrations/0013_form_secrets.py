"""Secrets of forms: what ``encryptData()`` keeps."""

import sqlalchemy as sa
from alembic import op

revision = "environments_0013"
down_revision = "environments_0012"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "environments_form_secrets",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("project_id", sa.String(64), nullable=False),
        sa.Column(
            "environment_id",
            sa.String(255),
            sa.ForeignKey("environments.id", ondelete="CASCADE"),
        ),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "environments_form_secrets_project", "environments_form_secrets", ["project_id"]
    )
    op.create_index(
        "environments_form_secrets_environment", "environments_form_secrets", ["environment_id"]
    )
