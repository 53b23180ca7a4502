"""Tables of the lease queues, of the steady clock and of encryption at rest."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

from vetro.storage.sealed import SealedJson
from vetro.storage.types import UtcDateTime

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
    Column("payload", SealedJson),
    # The party it is for, such as a project: parties take turns.
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

boots = Table(
    "storage_boots",
    metadata,
    # A run of a machine with processes on this database, and when it was started: see `steady`.
    Column("boot_id", String(64), primary_key=True),
    Column("began_at", UtcDateTime, nullable=False),
)

sealing = Table(
    "storage_sealing",
    metadata,
    # Keys that sealed a value in this database. More than one: a rotation is in progress.
    Column("key_id", String(64), primary_key=True),
    Column("since", UtcDateTime, nullable=False),
    # Whether every sealed value is sealed with it.
    Column("complete", Boolean, nullable=False),
)
