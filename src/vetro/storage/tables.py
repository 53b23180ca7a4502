"""Tables of the lease queues, of the steady clock and of encryption at rest."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
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
# The oldest work of a queue, and what of it is held, without reading the rest.
Index("storage_leased_work_oldest", leased_work.c.queue, leased_work.c.id)
Index(
    "storage_leased_work_held",
    leased_work.c.queue,
    leased_work.c.party,
    sqlite_where=leased_work.c.owner.is_not(None),
    postgresql_where=leased_work.c.owner.is_not(None),
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
