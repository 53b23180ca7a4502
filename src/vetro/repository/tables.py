"""Tables of the metadata repository.

A project points at a set of definitions. It begins with the shipped set, which all projects share;
its first change gives it a set of its own (the entries are copied, not the contents).
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)

from vetro.storage import MigrationSet, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("repository", Path(__file__).parent / "migrations", metadata)

# Contents, by the SHA-256 of their bytes.
contents = Table(
    "repository_contents",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
)

sets = Table(
    "repository_sets",
    metadata,
    # "shipped-" and a digest: never changes. "project-" and a project's id: of this project.
    Column("id", String(80), primary_key=True),
    # Rises with every change of the set's entries.
    Column("revision", BigInteger, nullable=False),
    Column("created", UtcDateTime, nullable=False),
    Column("updated", UtcDateTime, nullable=False),
)

projects = Table(
    "repository_projects",
    metadata,
    Column("project_id", String(64), primary_key=True),
    Column("set_id", String(80), ForeignKey("repository_sets.id"), nullable=False),
    Index("repository_projects_set", "set_id"),
)

entries = Table(
    "repository_entries",
    metadata,
    Column(
        "set_id", String(80), ForeignKey("repository_sets.id", ondelete="CASCADE"), nullable=False
    ),
    Column("kind", String(16), nullable=False),
    Column("path", String(512), nullable=False),
    # Null: a directory.
    Column("digest", String(64), ForeignKey("repository_contents.digest")),
    PrimaryKeyConstraint("set_id", "kind", "path"),
    Index("repository_entries_digest", "digest"),
)

# The archive for each client of a set; valid while ``revision`` is the set's.
archives = Table(
    "repository_archives",
    metadata,
    Column(
        "set_id", String(80), ForeignKey("repository_sets.id", ondelete="CASCADE"), nullable=False
    ),
    Column("client", String(16), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("sha1", String(40), nullable=False),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("set_id", "client"),
)
