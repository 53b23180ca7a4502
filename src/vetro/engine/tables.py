"""The journal of effects, and the checkpoints of workflows."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, PrimaryKeyConstraint, String, Table, Text

from vetro.storage import MigrationSet, SealedJson, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("engine", Path(__file__).parent / "migrations", metadata)

journal = Table(
    "engine_journal",
    metadata,
    Column("task_id", String(36), nullable=False),
    Column("sequence", Integer, nullable=False),
    # The fence of the claim that ran it; a later run of the task has a larger one.
    Column("fence", Integer, nullable=False),
    Column("thread", String(255), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("request_digest", String(64), nullable=False),
    # started, done or failed
    Column("state", String(16), nullable=False),
    Column("result", SealedJson),
    Column("error", Text),
    Column("started", UtcDateTime, nullable=False),
    Column("finished", UtcDateTime),
    PrimaryKeyConstraint("task_id", "fence", "sequence"),
)

# How far the XML workflows of a task have come: one row for each task.
checkpoints = Table(
    "engine_checkpoints",
    metadata,
    Column("task_id", String(36), primary_key=True),
    # The fence of the run that has the task.
    Column("fence", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("progress", SealedJson),
    Column("updated", UtcDateTime, nullable=False),
)

# What came of the plans of a round that is not over.
answers = Table(
    "engine_answers",
    metadata,
    Column("task_id", String(36), nullable=False),
    Column("plan_id", String(64), nullable=False),
    Column("answer", SealedJson, nullable=False),
    PrimaryKeyConstraint("task_id", "plan_id"),
)
