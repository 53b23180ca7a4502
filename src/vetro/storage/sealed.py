"""Columns whose values are stored sealed (``vetro.storage.keyring``).

The types behave like ``Json``, ``Text`` and ``LargeBinary``. Values written before keys existed are
still read: no JSON begins with ``sealed:``, and no plan or result begins with ``MAGIC``. A
``Database`` that was opened without a keyring stores in clear (tests, tools) and cannot read sealed
values. Equal values differ when they are sealed, so such columns cannot be compared in a query.
"""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Column, LargeBinary, MetaData, Text, TypeDecorator
from sqlalchemy.engine import Dialect

from vetro.storage.errors import StorageError
from vetro.storage.jsontext import LARGE, beside_the_loop, decode, encode
from vetro.storage.keyring import PREFIX, Keyring
from vetro.storage.types import Json

MAGIC = b"\x00vetro\x00"
ATTRIBUTE = "vetro_keyring"
"""The attribute of a dialect that holds the keyring; each ``Database`` has its own dialect."""


def keyring_of(dialect: Dialect) -> Keyring | None:
    """The keyring of the database that a statement is for."""
    return cast("Keyring | None", getattr(dialect, ATTRIBUTE, None))


def _opened(value: str, dialect: Dialect) -> bytes:
    keyring = keyring_of(dialect)
    if keyring is None:
        raise StorageError("the value is sealed, and the database was opened without its keys")
    return keyring.open(value)


class SealedText(TypeDecorator[str]):
    """Text, sealed in the database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Python to database."""
        keyring = keyring_of(dialect)
        if value is None or keyring is None:
            return value
        return keyring.seal(value.encode())

    def process_result_value(self, value: object, dialect: Dialect) -> str | None:
        """Database to Python."""
        if isinstance(value, str) and value.startswith(PREFIX):
            return _opened(value, dialect).decode()
        return cast("str | None", value)


class SealedJson(Json):
    """Any JSON value, sealed in the database. ``None`` is SQL NULL; key order is kept."""

    cache_ok = True

    def written(self, value: object, dialect: Dialect) -> str | None:
        """Python to database, where it is called."""
        if value is None:
            return None
        keyring = keyring_of(dialect)
        text = encode(value)
        return text.decode() if keyring is None else keyring.seal(text)

    def process_result_value(self, value: Any, dialect: Dialect) -> object:
        """Database to Python."""
        if value is None:
            return None

        def read() -> Any:
            return decode(_opened(value, dialect) if value.startswith(PREFIX) else value)

        return read() if len(value) < LARGE else beside_the_loop(read)


class SealedBytes(TypeDecorator[bytes]):
    """Bytes, sealed in the database."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        """Python to database."""
        keyring = keyring_of(dialect)
        if value is None or keyring is None:
            return value
        return MAGIC + keyring.seal(value).encode()

    def process_result_value(self, value: Any, dialect: Dialect) -> bytes | None:
        """Database to Python."""
        if value is None:
            return None
        given = bytes(value)
        if given.startswith(MAGIC):
            return _opened(given[len(MAGIC) :].decode(), dialect)
        return given


SEALED = (SealedText, SealedJson, SealedBytes)


def sealed_columns(metadata: MetaData) -> list[list[Column[object]]]:
    """The sealed columns of each table that has any."""
    tables = [
        [one for one in table.columns if isinstance(one.type, SEALED)]
        for table in metadata.sorted_tables
    ]
    return [columns for columns in tables if columns]
