"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Text, TypeDecorator
from sqlalchemy.engine import Dialect

from vetro.storage.jsontext import LARGE, beside_the_loop, decode, encode, is_large

_MICROSECOND = 1_000_000


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime, stored as microseconds since 1970: exact, ordered, zone-free."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Python to database; a naive datetime is a programming error."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; stored times are aware UTC datetimes")
        delta = value - _EPOCH
        return (delta.days * 86_400 + delta.seconds) * _MICROSECOND + delta.microseconds

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Database to Python."""
        if value is None:
            return None
        return _EPOCH + timedelta(microseconds=int(value))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Json(TypeDecorator[Any]):
    """Any JSON value as text. ``None`` is SQL NULL; key order is kept."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        """Python to database."""
        if value is not None and is_large(value):
            return beside_the_loop(lambda: self.written(value, dialect))
        return self.written(value, dialect)

    def written(self, value: object, dialect: Dialect) -> str | None:
        """Python to database, where it is called."""
        del dialect
        return None if value is None else encode(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> object:
        """Database to Python."""
        if value is None:
            return None
        return decode(value) if len(value) < LARGE else beside_the_loop(lambda: decode(value))
