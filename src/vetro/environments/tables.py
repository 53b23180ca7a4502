"""Tables of environments, sessions, tasks and reports (catalog-api.md §9)."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from vetro.storage import SealedJson, UtcDateTime

metadata = MetaData()

environments = Table(
    "environments",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("tenant_id", String(64), nullable=False),
    Column("user_id", String(64), nullable=False),
    Column("description_text", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    # The model: Objects, ObjectsCopy, Attributes, SystemData (§8).
    Column("model", SealedJson, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    UniqueConstraint("name", "tenant_id"),
)

sessions = Table(
    "environments_sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    Column(
        "environment_id",
        String(255),
        ForeignKey("environments.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("user_id", String(64), nullable=False),
    Column("state", String(36), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("model", SealedJson, nullable=False),
    # Of an overtaken session: the model that it was opened on, to tell its changes by.
    Column("base", SealedJson),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Index("environments_sessions_environment", "environment_id"),
)

tasks = Table(
    "environments_tasks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column(
        "environment_id",
        String(255),
        ForeignKey("environments.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("session_id", String(36), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("action", SealedJson),
    Column("description", SealedJson, nullable=False),
    Column("result", SealedJson),
    Column("waiting_on", Text),  # while it runs; what an engine last said
    Column("cancellation", Text),  # why it is to be cancelled, once somebody has asked for that
    Column("started", UtcDateTime, nullable=False),
    Column("finished", UtcDateTime),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Index("environments_tasks_environment", "environment_id"),
)

statuses = Table(
    "environments_statuses",
    metadata,
    Column("task_id", String(36), nullable=False),
    # Counts within the task: the order of reports whatever the clock does.
    Column("sequence", Integer, nullable=False),
    Column("id", String(36), nullable=False),
    Column("entity_id", String(255)),
    Column("entity", String(10)),
    Column("text", Text, nullable=False),
    Column("level", String(32), nullable=False),
    Column("details", Text),
    Column("created", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("task_id", "sequence"),
)

instances = Table(
    "environments_instances",
    metadata,
    Column(
        "environment_id",
        String(255),
        ForeignKey("environments.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("instance_id", String(255), nullable=False),
    Column("instance_type", Integer, nullable=False),
    Column("type_name", String(512)),
    Column("type_title", String(512)),
    Column("unit_count", Integer),
    Column("created", UtcDateTime, nullable=False),
    Column("destroyed", UtcDateTime),
    PrimaryKeyConstraint("environment_id", "instance_id"),
)

calls = Table(
    "environments_calls",
    metadata,
    Column("id", String(36), primary_key=True),
    # Rows are removed by who waits; after this time by whoever comes next.
    Column("expires", UtcDateTime, nullable=False),
    Column("answer", SealedJson),
)
