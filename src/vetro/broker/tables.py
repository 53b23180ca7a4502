"""Tables of the service broker, in a database of its own.

What a platform sent is kept as a keyed digest only: it is compared with a repeated request, and its
parameters may hold passwords.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, ForeignKey, MetaData, PrimaryKeyConstraint, String, Table

from vetro.storage import MigrationSet, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("broker", Path(__file__).parent / "migrations", metadata)

# The project of an organization's services, from its first one on.
organizations = Table(
    "broker_organizations",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("project_id", String(64), nullable=False),
)

# One environment a space. The name is chosen first, so that a restarted broker continues.
spaces = Table(
    "broker_spaces",
    metadata,
    Column("id", String(255), nullable=False),
    Column("project_id", String(64), nullable=False),
    Column("environment_name", String(255), nullable=False),
    Column("environment_id", String(64)),
    PrimaryKeyConstraint("project_id", "id"),
)

instances = Table(
    "broker_instances",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("service_id", String(255), nullable=False),
    Column("plan_id", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    # Of the application, chosen before it is added.
    Column("object_id", String(64), nullable=False),
    Column("environment_id", String(64)),
    # accepted, creating, created, deleting (``vetro.broker.store.State``).
    Column("state", String(16), nullable=False),
    Column("created", UtcDateTime, nullable=False),
)

bindings = Table(
    "broker_bindings",
    metadata,
    Column(
        "instance_id",
        String(255),
        ForeignKey("broker_instances.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("id", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    PrimaryKeyConstraint("instance_id", "id"),
)
