"""Tables of environments, sessions, tasks and reports (catalog-api.md §9)."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
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

from vetro.quotas import quota_table
from vetro.storage import MigrationSet, SealedJson, SealedText, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet(
    "environments",
    Path(__file__).parent / "migrations",
    metadata,
    # Counted by triggers, on SQLite only.
    derived=frozenset({"environments_model_writes"}),
)

environments = Table(
    "environments",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("tenant_id", String(64), nullable=False),
    Column("user_id", String(64), nullable=False),
    Column("description_text", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    # "muranopl", or "workflow": flat services that XML workflows deploy (§7).
    Column("model_kind", String(16), nullable=False, server_default="muranopl"),
    # The model: Objects, ObjectsCopy, Attributes, SystemData (§8).
    Column("model", SealedJson, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    UniqueConstraint("name", "tenant_id"),
)


def _of_environment(*, nullable: bool = True) -> Column[str]:
    """The environment that a row goes with."""
    home = ForeignKey("environments.id", ondelete="CASCADE")
    return Column("environment_id", String(255), home, nullable=nullable)


quotas = quota_table("environments_quotas", metadata)

sessions = Table(
    "environments_sessions",
    metadata,
    Column("id", String(36), primary_key=True),
    _of_environment(nullable=False),
    Column("user_id", String(64), nullable=False),
    Column("state", String(36), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("model", SealedJson, nullable=False),
    # Of an overtaken session: the model that it was opened on, to compute its changes.
    Column("base", SealedJson),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Index("environments_sessions_environment", "environment_id", "state"),
)

# History: a deployment outlives its environment (no foreign key) until it is pruned.
tasks = Table(
    "environments_tasks",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("environment_id", String(255), nullable=False),
    Column("environment_name", String(255), nullable=False, server_default=""),
    # The environment's project, and the user who requested the deployment.
    Column("project_id", String(64), nullable=False, server_default=""),
    Column("user_id", String(64), nullable=False, server_default=""),
    Column("user_name", String(255), nullable=False, server_default=""),
    Column("session_id", String(36), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("action", SealedJson),
    Column("description", SealedJson, nullable=False),
    Column("result", SealedJson),
    Column("waiting_on", Text),  # while it runs: the text that the engine stored last
    Column("cancellation", Text),  # the reason, once its cancellation was requested
    # How it ended (`lifecycle.Outcome`); null while it runs, and when a version before this one ended it.
    Column("outcome", String(16)),
    Column("started", UtcDateTime, nullable=False),
    Column("finished", UtcDateTime),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Column("environment_gone", UtcDateTime),  # when its environment was destroyed or abandoned
    Index("environments_tasks_environment", "environment_id"),
    Index("environments_tasks_project", "project_id", "started"),
    Index("environments_tasks_gone", "environment_gone"),
)

statuses = Table(
    "environments_statuses",
    metadata,
    Column("task_id", String(36), nullable=False),
    # Counts within the task: orders the reports independently of the clock.
    Column("sequence", Integer, nullable=False),
    Column("id", String(36), nullable=False),
    Column("entity_id", String(255)),
    Column("entity", String(20)),
    Column("text", Text, nullable=False),
    Column("level", String(32), nullable=False),
    Column("details", Text),
    Column("created", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("task_id", "sequence"),
)

instances = Table(
    "environments_instances",
    metadata,
    _of_environment(nullable=False),
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
    # The waiting caller removes its row; after this time any other caller does.
    Column("expires", UtcDateTime, nullable=False),
    Column("answer", SealedJson),
)

# What each process that serves the API has counted.
request_stats = Table(
    "environments_request_stats",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("request_count", BigInteger, nullable=False),
    Column("error_count", BigInteger, nullable=False),
    Column("average_response_time", Double, nullable=False),
    Column("requests_per_tenant", Text, nullable=False),
    Column("requests_per_second", Double, nullable=False),
    Column("errors_per_second", Double, nullable=False),
    Column("cpu_count", Integer, nullable=False),
    Column("cpu_percent", Double, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
)

templates = Table(
    "environments_templates",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("tenant_id", String(64), nullable=False),
    Column("description_text", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("is_public", Boolean, nullable=False),
    Column("services", SealedJson, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    UniqueConstraint("tenant_id", "name"),
)

# Forms that are being filled in, and those that made a component, to open it again.
wizards = Table(
    "environments_wizards",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("user_id", String(64), nullable=False),
    Column("package_id", String(36), nullable=False),
    Column("package_name", String(128), nullable=False),
    Column("package_version", String(64), nullable=False),
    Column("title", String(80), nullable=False),
    # The definition, as it was when the wizard was started.
    Column("form", Text, nullable=False),
    _of_environment(),
    # The component that it made, or changes.
    Column("component_id", String(255)),
    Column("options", SealedJson, nullable=False),
    Column("state", SealedJson, nullable=False),
    # The choices that were shown last.
    Column("offers", SealedJson, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
    Index("environments_wizards_project", "project_id", "updated"),
    Index("environments_wizards_component", "environment_id", "component_id"),
)

# What forms keep by encryptData(): models have the id. Without an environment it is a template's.
form_secrets = Table(
    "environments_form_secrets",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("project_id", String(64), nullable=False),
    _of_environment(),
    Column("secret", SealedText, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Index("environments_form_secrets_project", "project_id"),
    Index("environments_form_secrets_environment", "environment_id"),
)

# Destroyed objects whose `.destroy` failed, until somebody has looked after what they left behind.
leaked_objects = Table(
    "environments_leaked_objects",
    metadata,
    _of_environment(nullable=False),
    Column("object_id", String(255), nullable=False),
    Column("type_name", String(512), nullable=False),
    Column("name", String(255)),
    Column("error", Text, nullable=False),
    Column("task_id", String(36), nullable=False),
    Column("created", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("environment_id", "object_id"),
)

# What the rules of XML workflows did in a task, and why: a row a round, as long as the task is kept.
traces = Table(
    "environments_traces",
    metadata,
    Column("task_id", String(36), nullable=False),
    Column("round", Integer, nullable=False),
    Column("events", SealedJson, nullable=False),
    PrimaryKeyConstraint("task_id", "round"),
)
