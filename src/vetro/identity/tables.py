"""Tables of the built-in identity service."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from vetro.storage import Json, MigrationSet, UtcDateTime

MIGRATIONS = MigrationSet("identity", Path(__file__).parent / "migrations")
metadata = MetaData()
DOMAIN_ID = "default"

domains = Table(
    "identity_domains",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("enabled", Boolean, nullable=False),
    Column("description", String(1000), nullable=False),
)

projects = Table(
    "identity_projects",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("domain_id", String(64), ForeignKey("identity_domains.id"), nullable=False),
    Column("name", String(64), nullable=False),
    Column("description", String(1000), nullable=False),
    Column("enabled", Boolean, nullable=False),
    UniqueConstraint("domain_id", "name"),
)

users = Table(
    "identity_users",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("domain_id", String(64), ForeignKey("identity_domains.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("email", String(255)),
    Column("enabled", Boolean, nullable=False),
    Column("default_project_id", String(64)),
    Column("password_hash", String(255)),
    UniqueConstraint("domain_id", "name"),
)

roles = Table(
    "identity_roles",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
)

assignments = Table(
    "identity_assignments",
    metadata,
    Column(
        "user_id", String(64), ForeignKey("identity_users.id", ondelete="CASCADE"), nullable=False
    ),
    Column(
        "project_id",
        String(64),
        ForeignKey("identity_projects.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column(
        "role_id", String(64), ForeignKey("identity_roles.id", ondelete="CASCADE"), nullable=False
    ),
    PrimaryKeyConstraint("user_id", "project_id", "role_id"),
)

domain_assignments = Table(
    "identity_domain_assignments",
    metadata,
    Column(
        "user_id", String(64), ForeignKey("identity_users.id", ondelete="CASCADE"), nullable=False
    ),
    Column(
        "domain_id",
        String(64),
        ForeignKey("identity_domains.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column(
        "role_id", String(64), ForeignKey("identity_roles.id", ondelete="CASCADE"), nullable=False
    ),
    PrimaryKeyConstraint("user_id", "domain_id", "role_id"),
)

#: The scopes of roles; the column is named ``<scope>_id``.
GRANTS = {"project": assignments, "domain": domain_assignments}

application_credentials = Table(
    "identity_application_credentials",
    metadata,
    Column("id", String(64), primary_key=True),
    Column(
        "user_id", String(64), ForeignKey("identity_users.id", ondelete="CASCADE"), nullable=False
    ),
    Column(
        "project_id",
        String(64),
        ForeignKey("identity_projects.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(255), nullable=False),
    Column("description", String(1000), nullable=False),
    Column("secret_hash", String(64), nullable=False),
    Column("roles", Json, nullable=False),
    Column("expires_at", UtcDateTime),
    UniqueConstraint("user_id", "name"),
)

tokens = Table(
    "identity_tokens",
    metadata,
    # Only a hash is stored: a reader of the database cannot use a token.
    Column("digest", String(64), primary_key=True),
    Column(
        "user_id", String(64), ForeignKey("identity_users.id", ondelete="CASCADE"), nullable=False
    ),
    Column("project_id", String(64), ForeignKey("identity_projects.id", ondelete="CASCADE")),
    Column("domain_scope", String(64)),
    Column("roles", Json),
    Column("methods", Json, nullable=False),
    Column("audit_id", String(32), nullable=False),
    Column("application_credential_id", String(64)),
    Column("issued_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index("identity_tokens_user", "user_id"),
    Index("identity_tokens_expiry", "expires_at"),
)
