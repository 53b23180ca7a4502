"""The tables of the mailboxes.

`messaging_calls` has a row for every plan sent, until its result was used (or a day later); a plan
that the guest has not acknowledged yet also has a row in `messaging_plans`. Two tables keep the
queue that every poll reads short.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

from vetro.storage import MigrationSet, SealedBytes, SealedJson, SealedText, UtcDateTime

metadata = MetaData()
MIGRATIONS = MigrationSet("messaging", Path(__file__).parent / "migrations", metadata)

_Serial = BigInteger().with_variant(Integer(), "sqlite")

mailboxes = Table(
    "messaging_mailboxes",
    metadata,
    Column("queue", String(255), primary_key=True),
    Column("generation", Integer, nullable=False),  # rises with every rotated or revoked token
    Column("token_hash", String(64), unique=True),  # of the token that is valid now
    Column("created_at", UtcDateTime, nullable=False),
    Column("last_contact", UtcDateTime),
    Column("agent_version", String(64)),
    Column("agent_uptime", Float),
    Column(
        "last_stamp", BigInteger
    ),  # the highest stamp sent: the guest drops plans that are not above it
    # Where the guest comes: HOST:PORT of the service, or amqp:HOST:PORT of a broker.
    Column("door", String(255)),
    # A digest of the settings that the guest was made with or was told last, and where those lead.
    Column("told", String(64)),
    Column("told_door", String(255)),
    # The uuid of the VM that reads it, when it is one of the compute service.
    Column("machine", String(36)),
)

plans = Table(
    "messaging_plans",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column(
        "queue",
        String(255),
        ForeignKey("messaging_mailboxes.queue", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("message_id", String(255), nullable=False, unique=True),
    Column("body", SealedBytes, nullable=False),
    Column("signature", LargeBinary),
    Column("lease_session", String(64)),
    Column("lease_until", UtcDateTime),
    Column("expires_at", UtcDateTime),  # the sender no longer waits: it is not handed out
    Index("messaging_plans_queue", "queue", "id"),
    sqlite_autoincrement=True,
)

calls = Table(
    "messaging_calls",
    metadata,
    Column("message_id", String(255), primary_key=True),
    Column(
        "queue",
        String(255),
        ForeignKey("messaging_mailboxes.queue", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("name", String(255)),  # the plan's, for people
    Column("body_hash", String(64), nullable=False),
    Column("sent_at", UtcDateTime, nullable=False),
    Column("acknowledged_at", UtcDateTime),
    Column("result", SealedBytes),
    Column("result_at", UtcDateTime),
    Column("discarded_at", UtcDateTime),
    Column("expires_at", UtcDateTime),  # the end of the sender's wait; null: it does not wait
    Index("messaging_calls_queue", "queue"),
)

dead_letters = Table(
    "messaging_dead_letters",
    metadata,
    Column("id", _Serial, primary_key=True, autoincrement=True),
    Column("queue", String(255), nullable=False),
    Column("message_id", String(255)),
    Column("reason", String(32), nullable=False),
    Column("body", SealedBytes, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Index("messaging_dead_letters_queue", "queue"),
    sqlite_autoincrement=True,
)

secrets = Table(
    "messaging_secrets",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", SealedBytes, nullable=False),
)

handles = Table(
    "messaging_handles",
    metadata,
    Column("handle", String(64), primary_key=True),
    Column("project_id", String(64), nullable=False),
    Column("token_hash", String(64), nullable=False),  # of the signature in its address
    Column("created_at", UtcDateTime, nullable=False),
)

signals = Table(
    "messaging_signals",
    metadata,
    Column(
        "handle",
        String(64),
        ForeignKey("messaging_handles.handle", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("signal_id", String(255), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("reason", SealedText, nullable=False),
    Column("data", SealedJson, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
)
