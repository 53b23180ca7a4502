"""Tables of the lease queues."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, UniqueConstraint

from vetro.storage.types import Json, UtcDateTime

metadata = MetaData()

leased_work = Table(
    "storage_leased_work",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer(), "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    Column("queue", String(64), nullable=False),
    Column("key", String(255), nullable=False),
    Column("payload", Json),
    # For whom it is, such as a project: work is handed out to parties in turn.
    Column("party", String(64)),
    Column("available_at", UtcDateTime, nullable=False),
    Column("owner", String(255)),
    Column("expires_at", UtcDateTime),
    Column("fence", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    UniqueConstraint("queue", "key"),
)

fences = Table(
    "storage_fences",
    metadata,
    Column("queue", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
