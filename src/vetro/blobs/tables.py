"""Files in the database: what they are called, and their content in parts."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table

from vetro.storage import MigrationSet, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("blobs", Path(__file__).parent / "migrations", metadata)

blobs = Table(
    "blobs",
    metadata,
    # What the file is for, "/", and its name.
    Column("key", String(255), primary_key=True),
    Column("content_id", String(32), nullable=False, unique=True),
    Column("bytes", BigInteger, nullable=False),
    Column("stored", UtcDateTime, nullable=False),
)

blob_parts = Table(
    "blobs_parts",
    metadata,
    Column("content_id", String(32), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
    Column("stored", UtcDateTime, nullable=False),
)
