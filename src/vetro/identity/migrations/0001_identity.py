"""Users, projects, roles, credentials, tokens."""

import sqlalchemy as sa
from alembic import op

revision = "identity_0001"
down_revision = None
branch_labels = ("identity",)


def upgrade() -> None:
    """Create the tables of the identity service."""
    op.create_table(
        "identity_domains",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
    )
    op.create_table(
        "identity_projects",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("domain_id", sa.String(64), sa.ForeignKey("identity_domains.id"), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.UniqueConstraint("domain_id", "name"),
    )
    op.create_table(
        "identity_users",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("domain_id", sa.String(64), sa.ForeignKey("identity_domains.id"), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("email", sa.String(255)),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("default_project_id", sa.String(64)),
        sa.Column("password_hash", sa.String(255)),
        sa.UniqueConstraint("domain_id", "name"),
    )
    op.create_table(
        "identity_roles",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
    )
    op.create_table(
        "identity_assignments",
        sa.Column("user_id", sa.String(64), sa.ForeignKey("identity_users.id", ondelete="CASCADE")),
        sa.Column(
            "project_id", sa.String(64), sa.ForeignKey("identity_projects.id", ondelete="CASCADE")
        ),
        sa.Column("role_id", sa.String(64), sa.ForeignKey("identity_roles.id", ondelete="CASCADE")),
        sa.PrimaryKeyConstraint("user_id", "project_id", "role_id"),
    )
    op.create_table(
        "identity_application_credentials",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column(
            "user_id",
            sa.String(64),
            sa.ForeignKey("identity_users.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column(
            "project_id",
            sa.String(64),
            sa.ForeignKey("identity_projects.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
        sa.Column("secret_hash", sa.String(64), nullable=False),
        sa.Column("roles", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.UniqueConstraint("user_id", "name"),
    )
    op.create_table(
        "identity_tokens",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column(
            "user_id",
            sa.String(64),
            sa.ForeignKey("identity_users.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column(
            "project_id", sa.String(64), sa.ForeignKey("identity_projects.id", ondelete="CASCADE")
        ),
        sa.Column("domain_scope", sa.String(64)),
        sa.Column("roles", sa.Text),
        sa.Column("methods", sa.Text, nullable=False),
        sa.Column("audit_id", sa.String(32), nullable=False),
        sa.Column("application_credential_id", sa.String(64)),
        sa.Column("issued_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("identity_tokens_user", "identity_tokens", ["user_id"])
    op.create_index("identity_tokens_expiry", "identity_tokens", ["expires_at"])
