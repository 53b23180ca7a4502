"""Statements that are compiled once and go to SQLite's driver directly.

SQLite runs a short statement in some tens of microseconds. SQLAlchemy takes several times as long to find
the compiled form of a statement that it has seen before, to make its parameters, a context and a result
(docs/decisions/0545). A `Prepared` statement keeps its text, the order of its parameters, and what writes
and reads their types, for each database and set of parameters. Its errors are SQLAlchemy's own. Its rows
are tuples with names: to read a column of SQLAlchemy's row by its name makes and drops an `AttributeError`,
which takes 0.4 µs.

What would take long is left to SQLAlchemy's way, which knows how to do it beside the event loop: large
values, and whatever `vetro.storage.sqlite_driver` does not run on the loop. So is every statement on
PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from keyword import iskeyword
from operator import itemgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    Boolean,
    Delete,
    Executable,
    Float,
    Insert,
    Integer,
    Row,
    Select,
    String,
    TextClause,
    Update,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.engine.result import IteratorResult, SimpleResultMetaData
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.types import TypeEngine

from vetro.storage.jsontext import LARGE, is_large
from vetro.storage.sqlite_driver import LARGE_VALUES, SHORT, SqliteConnection
from vetro.storage.types import Json, UtcDateTime

_Convert = Callable[[Any], Any]
MOST_SETS = 200
"""Sets of parameters for which a statement is run on the loop: in about 3 µs each."""
SHORT_TEXT = 4096
"""Characters of a column whose values are never large."""
MOST_FORMS = 64
"""Sets of parameters of one statement that are kept; lists of other lengths are other sets."""


class PreparedResult(IteratorResult[Any]):
    """The rows of a prepared statement, and how many it changed."""

    rowcount = -1
    unread: Callable[[], list[tuple[Any, ...]]] | None = None
    """Reads rows with large JSON, which takes too long for the loop."""
    named: Callable[[Any], Any] = tuple
    """Makes a row of values."""

    def first(self) -> Row[Any] | None:
        """The next row; nothing else can be read then. In 0.3 µs instead of the 1.6 of SQLAlchemy's own,
        which prepares for many."""
        if self._hard_closed:
            return super().first()  # which says so
        values = next(self.iterator, None)
        self._hard_closed = True
        return None if values is None else self.named(values)

    def __iter__(self) -> Iterator[Row[Any]]:
        """The rows that are left; made here, as `first` does."""
        if self._hard_closed or self._unique_filter_state:
            return super().__iter__()
        rows: list[Any] = list(map(self.named, self.iterator))
        self._soft_close()
        return iter(rows)

    def all(self) -> Sequence[Row[Any]]:
        """The rows that are left."""
        return list(iter(self))

    def one_or_none(self) -> Row[Any] | None:
        """The only row, if there is one."""
        row = super().one_or_none()
        return None if row is None else self.named(row)

    def one(self) -> Row[Any]:
        """The only row."""
        return self.named(super().one())


@lru_cache(maxsize=1000)
def _naming(keys: tuple[str, ...]) -> Callable[[Any], Any]:
    """Makes rows of values, with what is used of SQLAlchemy's: the names of columns, and ``_mapping``."""
    named = namedtuple("Named", keys)  # pyright: ignore[reportUntypedNamedTuple]
    kind: Any = type("Row", (named,), {"__slots__": (), "_mapping": property(named._asdict)})
    return partial(tuple.__new__, kind)


def _is_name(key: str) -> bool:
    """Whether a row's column can be an attribute of `_naming`'s rows."""
    return key.isidentifier() and not key.startswith("_") and not iskeyword(key)


class _Place(NamedTuple):
    """A parameter: where its value is, and what it is when it is not given."""

    key: str
    at: int
    given: Any


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement for one database and set of parameters."""

    sql: str
    places: Sequence[_Place]
    take: Callable[[Mapping[str, Any]], Sequence[Any]] | None
    """The values of all places, if each is a parameter of its own."""
    writers: Sequence[tuple[int, _Convert, bool]]
    """Places that are not written as they are, and whether they have JSON."""
    unbounded: Sequence[int]
    """Places whose values may be of any length."""
    rows: SimpleResultMetaData | None
    named: Callable[[Any], Any]
    readers: Sequence[tuple[int, _Convert]]
    json_columns: Sequence[int]
    changes: bool

    def written(self, parameters: Mapping[str, Any]) -> list[object] | None:
        """The parameters as the driver takes them; ``None`` when they are large.

        All are taken at once, and only those are looked at that need it: an upload writes 100 values, and
        a loop over all of them took a thirtieth of its time.
        """
        values = list(self.take(parameters)) if self.take is not None else self._each(parameters)
        for at, write, is_json in self.writers:
            value = values[at]
            if is_json and is_large(value):
                return None
            values[at] = write(value)
        size = 0
        for at in self.unbounded:
            value = values[at]
            if isinstance(value, (str, bytes)):
                size += len(value)
        return values if size < LARGE_VALUES else None

    def _each(self, parameters: Mapping[str, Any]) -> list[Any]:
        """The values of places, of which some are parts of lists or have a value of the statement's own."""
        values: list[Any] = []
        for key, at, given in self.places:
            value = parameters.get(key, given)
            if at >= 0:
                value = value[at]
            if value is _REQUIRED:
                raise StatementError(
                    f"the parameter {key!r} is missing", self.sql, dict(parameters), None
                )
            values.append(value)
        return values

    def read(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Rows with their values as Python's."""
        found: list[tuple[object, ...]] = []
        for row in rows:
            values = list(row)
            for place, convert in self.readers:
                values[place] = convert(values[place])
            found.append(tuple(values))
        return found

    def has_large(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Whether a row has JSON that is to be read beside the loop."""
        columns = self.json_columns
        return any(len(row[place] or "") >= LARGE for row in rows for place in columns)


_REQUIRED = object()
_CURSOR_OF = sqlite3.Connection.cursor
"""The driver's own; a `LoopConnection` makes those that SQLAlchemy needs."""


class Prepared:
    """A statement for ``Transaction.execute``; a constant of its module. ``statement``: SQLAlchemy's."""

    def __init__(self, statement: Executable) -> None:
        self.statement = statement
        self._forms: dict[tuple[Any, ...], _Form | None] = {}
        self._short = bool(statement.get_execution_options().get("short", False))
        #: Parameters with a list of values.
        self._lists: tuple[str, ...] | None = None

    def run(
        self, connection: SqliteConnection, parameters: Mapping[str, Any]
    ) -> PreparedResult | None:
        """Run it; ``None``, and nothing done, when SQLAlchemy is to run it.

        The result's rows may be `unread`.
        """
        form = self._form(connection.dialect, parameters)
        if form is None:
            return None
        values = form.written(parameters)
        if values is None:
            return None
        driver = connection.driver
        cursor = _CURSOR_OF(driver)
        try:
            cursor.execute(form.sql, values)
            rows: list[Any] = cursor.fetchall() if form.rows is not None else []
            changed = cursor.rowcount
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                form.sql, values, error, sqlite3.Error, dialect=connection.dialect
            ) from error
        finally:
            cursor.close()
        if form.changes:
            driver.written += 4
        is_large = bool(form.json_columns) and form.has_large(rows)
        if form.readers and not is_large:
            rows = form.read(rows)
        columns: Any = form.rows or _NO_COLUMNS
        result = PreparedResult(columns, iter(rows))
        result.rowcount = changed
        result.named = form.named
        if is_large:
            result.unread = partial(form.read, rows)
        return result

    def run_for_each(
        self, connection: SqliteConnection, several: Sequence[Mapping[str, Any]]
    ) -> PreparedResult | None:
        """Run it for each of several sets of parameters, which are alike; see `run`."""
        form = self._form(connection.dialect, several[0])
        if form is None or form.rows is not None or len(several) > MOST_SETS:
            return None
        written = [form.written(one) for one in several]
        values = [one for one in written if one is not None]
        if len(values) < len(several):
            return None
        cursor = _CURSOR_OF(connection.driver)
        try:
            cursor.executemany(form.sql, values)
            changed = cursor.rowcount
        except sqlite3.Error as error:
            raise DBAPIError.instance(
                form.sql, values, error, sqlite3.Error, dialect=connection.dialect
            ) from error
        finally:
            cursor.close()
        connection.driver.written += 4 + len(several) // 8
        none: Any = _NO_COLUMNS
        result = PreparedResult(none, iter(()))
        result.rowcount = changed
        return result

    def _form(self, dialect: Dialect, parameters: Mapping[str, Any]) -> _Form | None:
        lists = self._lists
        if lists is None:
            lists = self._lists = _lists_in(self.statement, dialect)
        # Each database has a dialect of its own, which has the keys of its sealed columns.
        key: tuple[object, ...] = (dialect, *parameters)
        if lists:
            # A list that the statement has itself is always the same.
            key += tuple([len(parameters[name]) for name in lists if name in parameters])
        try:
            return self._forms[key]
        except KeyError:
            pass
        if len(self._forms) >= MOST_FORMS:
            self._forms.clear()
        form = self._forms[key] = self._made(dialect, parameters)
        return form

    def _made(self, dialect: Dialect, parameters: Mapping[str, Any]) -> _Form | None:
        statement = self.statement
        if not isinstance(statement, Select | Insert | Update | Delete | TextClause):
            return None
        compiled: Any = statement.compile(dialect=dialect, column_keys=sorted(parameters))
        if compiled.insert_prefetch or compiled.update_prefetch:
            return None  # columns with defaults of Python's
        sql, names, parts = str(compiled), list(compiled.positiontup or ()), {}
        if any(bind.key in parameters for bind in compiled.literal_execute_params):
            return None  # a value that is part of the text
        if compiled.post_compile_params or compiled.literal_execute_params:
            state = compiled.construct_expanded_state(dict(parameters), escape_names=False)
            sql, names = state.statement, list(state.positiontup or ())
            parts = {
                part: (name, at)
                for name, several in state.parameter_expansion.items()
                for at, part in enumerate(several)
            }
        if not self._short and sql[:7].upper() not in SHORT:
            return None
        places: list[_Place] = []
        writers: list[tuple[int, _Convert, bool]] = []
        unbounded: list[int] = []
        for place, one in enumerate(names):
            name, at = parts.get(one, (one, -1))
            bind = compiled.binds[name]
            key = bind.key if bind.key in parameters else name
            given = _REQUIRED if bind.required or bind.callable is not None else bind.value
            kind = bind.type
            is_json = isinstance(kind, Json)
            if is_json:  # without its own question whether the value is large
                write = _writer(kind, dialect)
            else:
                write = kind.dialect_impl(dialect).bind_processor(dialect)
            places.append(_Place(key, at, given))
            if write is not None:
                writers.append((place, write, is_json))
            if not _is_bounded(kind):
                unbounded.append(place)
        columns: list[Any] = []
        if not isinstance(statement, TextClause):
            columns = list(statement.exported_columns)
        keys = [str(column.key) for column in columns]
        if len(set(keys)) != len(keys) or not all(map(_is_name, keys)):
            return None
        readers = [
            (place, column.type.dialect_impl(dialect).result_processor(dialect, None))
            for place, column in enumerate(columns)
        ]
        return _Form(
            sql,
            places,
            _taking(places, parameters),
            writers,
            unbounded,
            SimpleResultMetaData(keys) if keys else None,
            _naming(tuple(keys)),
            [(place, convert) for place, convert in readers if convert is not None],
            [i for i, one in enumerate(columns) if isinstance(one.type, Json)],
            not isinstance(statement, Select),
        )


def _writer(kind: Json, dialect: Dialect) -> _Convert:
    return lambda value: kind.written(value, dialect)


def _taking(
    places: Sequence[_Place], parameters: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], Sequence[Any]] | None:
    """See ``_Form.take``."""
    keys = [place.key for place in places]
    if any(place.at >= 0 for place in places) or not parameters.keys() >= set(keys):
        return None
    if len(keys) > 1:
        return itemgetter(*keys)
    return lambda given: [given[key] for key in keys]


def _is_bounded(kind: TypeEngine[Any]) -> bool:
    """Whether values of a type are short, so that nobody need ask how large they are."""
    if isinstance(kind, String):
        return kind.length is not None and kind.length <= SHORT_TEXT
    return isinstance(kind, Integer | Boolean | Float | UtcDateTime)


def _lists_in(statement: Executable, dialect: Dialect) -> tuple[str, ...]:
    compiled: Any = cast("Any", statement).compile(dialect=dialect)
    return tuple(sorted(bind.key for bind in compiled.post_compile_params))


_NO_COLUMNS = SimpleResultMetaData([])
