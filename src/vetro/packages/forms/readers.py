"""The values of what people or programs entered in a field, by the field's type (B3)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any, cast

from vetro.documents import DocumentError, DocumentLimits, read_json

NOTHING: tuple[Any, ...] = (None, "", [])
_DATABASE = re.compile(r"[A-Za-z_][A-Za-z0-9_$#@]*\Z")
MAX_ROWS = 1000
"""Of a table, and components of one field."""


class Refused(Exception):
    """A value cannot be read. ``key``: of ``errorMessages``."""

    def __init__(self, text: str, key: str = "invalid") -> None:
        super().__init__(text)
        self.text = text
        self.key = key


def snake(name: str) -> str:
    """``helpText`` as ``help_text``."""
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)


def as_text(value: object) -> str:
    """A scalar as text: `true` and `false` for booleans."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def is_same_text(value: object, raw: object) -> bool:
    """Whether what was entered stands for a value to choose; ``True`` does for true, too."""
    text = as_text(raw)
    return as_text(value) == (text.lower() if isinstance(value, bool) else text)


def is_true(value: object) -> bool:
    """Whether an attribute says yes; an expression may give any value."""
    return value not in (False, 0, "", [], {}, "false")


def _read_text(raw: object) -> str:
    if raw is None:
        return ""
    if isinstance(raw, (dict, list)):
        raise Refused("Enter text")
    return as_text(raw)


def _read_integer(raw: object) -> int | None:
    if raw in NOTHING:
        return None
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    text = str(raw).strip() if isinstance(raw, (str, float)) else ""
    if re.fullmatch(r"[-+]?[0-9]{1,100}(\.0*)?", text):
        return int(text.partition(".")[0])
    raise Refused("Enter a whole number")


_TRUE = ("true", "on", "1", "yes")
_FALSE = ("", "false", "off", "0", "no", "none", "null")


def _read_boolean(raw: object) -> bool:
    if raw is None or isinstance(raw, bool):
        return bool(raw)
    text = str(raw).strip().lower() if isinstance(raw, (str, int)) else "?"
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise Refused("Choose yes or no")


def _read_address(raw: object) -> str:
    text = _read_text(raw).strip()
    if text:
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            raise Refused("Enter an IPv4 address, such as 10.0.0.5") from None
    return text


def _read_names(raw: object) -> list[str]:
    given = cast("list[object]", raw) if isinstance(raw, list) else _read_text(raw).split(",")
    names = [str(one).strip() for one in given]
    names = [one for one in names if one]
    for one in names:
        if not _DATABASE.match(one):
            raise Refused(
                f"{one!s:.80} is not a name for a database: begin with a letter or _, then use letters,"
                " digits, _ $ # @"
            )
    return names


READERS: dict[str, Callable[[object], object]] = {
    "string": _read_text,
    "text": _read_text,
    "password": _read_text,
    "integer": _read_integer,
    "instance": _read_integer,
    "boolean": _read_boolean,
    "floatingip": _read_boolean,
    "clusterip": _read_address,
    "databaselist": _read_names,
}
"""How a value of a type is read; the other types are chosen from offers."""


# -- tables --------------------------------------------------------------------------------------


def table_columns(given: object) -> list[tuple[str, str, str]]:
    """Name, type (``label``, ``checkbox``, ``radio``) and title of each column of a table (B9)."""
    found: list[tuple[str, str, str]] = []
    for one in cast("list[object]", given) if isinstance(given, list) else []:
        if isinstance(one, dict):
            column = {snake(str(k)): v for k, v in cast("dict[object, object]", one).items()}
            name, kind = column.get("column_name"), column.get("column_type", "label")
            found.append((str(name), str(kind), str(column.get("title") or name)))
    return found


def read_rows(raw: object, columns: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The rows of a table: given as a list, as JSON text, or as their number. Errors: ``Refused``."""
    given: object = raw
    if isinstance(raw, str):
        try:
            given = read_json(raw, DocumentLimits(bytes=100_000, depth=4)) if raw else []
        except DocumentError as error:
            raise Refused("Enter the rows of the table as JSON") from error
    if isinstance(given, int) and not isinstance(given, bool):
        blank = {name: "" if kind == "label" else False for name, kind in columns}
        rows = [dict(blank) for _ in range(max(0, min(given, MAX_ROWS)))]
        for name, kind in columns:
            if kind == "radio" and rows:
                rows[0][name] = True
        return rows
    if given is None:
        return []
    if not isinstance(given, list) or len(cast("list[object]", given)) > MAX_ROWS:
        raise Refused(f"A table is a list of at most {MAX_ROWS} rows")
    known = dict(columns)
    found: list[dict[str, object]] = []
    for one in cast("list[object]", given):
        if not isinstance(one, dict):
            raise Refused("Each row of the table is a map of its columns")
        row = cast("dict[str, object]", one)
        unknown = sorted(set(row) - set(known))
        if unknown:
            raise Refused(f"The table has no column {unknown[0]!s:.80}")
        found.append(
            {
                name: _read_text(row.get(name)) if kind == "label" else _read_boolean(row.get(name))
                for name, kind in columns
            }
        )
    return found


def rows_of(value: object, columns: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The rows of a table whose columns are keys of a list's maps."""
    rows: list[dict[str, Any]] = []
    for one in cast("list[object]", value) if isinstance(value, list) else []:
        row = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        rows.append(
            {
                name: bool(row.get(name))
                if kind != "label"
                else ""
                if row.get(name) is None
                else as_text(row[name])
                for name, kind in columns
            }
        )
    return rows
