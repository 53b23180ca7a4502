"""Storage: database engine, migrations, leases and queues; SQLite and PostgreSQL.

The face that every service room builds on: open a ``Database``, work in ``transaction()`` or
``read()`` blocks, wake others with ``tx.notify`` and ``db.listen``, hand out work with
``LeaseQueue``, keep secrets in ``Sealed…`` columns. Tables and migrations belong to the rooms.
"""

from vetro.storage.clock import Clock, ManualClock, SystemClock
from vetro.storage.copying import copy_database
from vetro.storage.database import Database
from vetro.storage.errors import (
    AlreadyQueued,
    DatabaseBusy,
    DatabaseClosed,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseTooNew,
    DatabaseUnavailable,
    KeyMissing,
    LeaseLost,
    NoRoom,
    StorageError,
)
from vetro.storage.jsontext import decode as decode_json
from vetro.storage.jsontext import encode as encode_json
from vetro.storage.keyring import Keyring
from vetro.storage.leases import Lease, LeaseQueue
from vetro.storage.migrate import (
    STORAGE_MIGRATIONS,
    MigrationSet,
    migrate,
    pending_migrations,
)
from vetro.storage.notify import Subscription
from vetro.storage.postgres_use import PostgresUse
from vetro.storage.prepared import Prepared
from vetro.storage.renewal import Renewal
from vetro.storage.sealed import SealedBytes, SealedJson, SealedText, sealed_columns
from vetro.storage.sealing import prepare_sealing, rotate_key
from vetro.storage.sqlite_driver import carried_through
from vetro.storage.types import Json, UtcDateTime
from vetro.storage.units import StoredRow, Transaction, following, insert_if_new
from vetro.storage.urls import sqlite_file
from vetro.storage.waiting import LookAgain, await_until, watch
from vetro.storage.worker import Worker
