"""Tables of the native back end: stacks, and every resource that exists or may exist."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from vetro.storage import Json, MigrationSet, SealedJson, SealedText, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("stacks", Path(__file__).parent / "migrations", metadata)

stacks = Table(
    "stacks_stacks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("name", String(255), nullable=False),
    Column("status", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("waiting_on", Text),
    Column("template", SealedJson, nullable=False),
    Column("parameters", SealedJson, nullable=False),
    Column("files", SealedJson, nullable=False),
    Column("environment", SealedText),
    Column("tags", Json, nullable=False),
    Column("outputs", SealedJson, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime),
    Column("fence", BigInteger, nullable=False),  # rises with every operation
    Column("owner", String(255)),  # the process that works on it
    Column("owner_until", UtcDateTime),
    UniqueConstraint("project_id", "name"),
)

resources = Table(
    "stacks_resources",
    metadata,
    Column(
        "id", BigInteger().with_variant(Integer(), "sqlite"), primary_key=True, autoincrement=True
    ),
    Column(
        "stack_id", String(36), ForeignKey("stacks_stacks.id", ondelete="CASCADE"), nullable=False
    ),
    Column("name", String(255), nullable=False),
    Column("type", String(255), nullable=False),
    Column("physical_id", String(255), nullable=False),
    Column("current", Boolean, nullable=False),  # false: to be removed
    Column("retain", Boolean, nullable=False),
    Column("status", String(32), nullable=False),
    Column("reason", Text, nullable=False),
    Column(
        "properties", SealedJson, nullable=False
    ),  # as they were last applied, functions evaluated
    Column("data", SealedJson, nullable=False),
    Column("requires", Json, nullable=False),  # ids of rows that must outlive this one
    # The mark of what is the stack's; null: nothing there is.
    Column("claim", String(64), server_default=""),
    Index("stacks_resources_stack", "stack_id"),
    Index("stacks_resources_physical", "physical_id"),
    sqlite_autoincrement=True,
)
