"""Search parameters of the package list (catalog-api.md §6.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vetro.digits import is_number
from vetro.http import BadRequest
from vetro.packages import Version

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
ORDER_COLUMNS = {"fqn": "fully_qualified_name", "name": "name", "created": "created"}


@dataclass(frozen=True)
class PackageQuery:
    """The filters of a search. Lists are alternatives; ``None`` does not filter."""

    catalog: bool = False
    include_disabled: bool = False
    owned: bool = False
    ids: list[str] | None = None
    categories: list[str] | None = None
    tags: list[str] | None = None
    fqn: str | None = None
    name: str | None = None
    class_name: str | None = None
    type: str | None = None
    version: str | None = None
    search: list[str] = field(default_factory=list[str])
    order_by: list[str] = field(default_factory=lambda: ["name"])
    descending: bool = False
    limit: int = DEFAULT_LIMIT
    marker: str | None = None


def _flag(values: dict[str, list[str]], name: str) -> bool:
    return values.get(name, ["false"])[-1].lower() == "true"


def _first(values: dict[str, list[str]], name: str) -> str | None:
    found = values.get(name)
    return found[-1] if found else None


def parse_in(text: str) -> list[str] | None:
    """``a,b,"c,d"`` as a list; ``None`` when the quoting is broken (the filter is then ignored)."""
    items: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == '"':
            item = ""
            position += 1
            while position < len(text) and text[position] != '"':
                if text[position] == "\\" and position + 1 < len(text):
                    position += 1
                item += text[position]
                position += 1
            if position >= len(text):
                return None
            position += 1
            if position < len(text) and text[position] != ",":
                return None
        else:
            end = text.find(",", position)
            end = len(text) if end < 0 else end
            item = text[position:end]
            if '"' in item:
                return None
            position = end
        items.append(item)
        position += 1
    return items


def stored_version(text: str | None) -> str | None:
    """A version in its stored form: ``0``, ``0.0`` and ``0.0.0`` are equal (A3).

    An invalid version is returned unchanged: it matches nothing.
    """
    if text is None:
        return None
    try:
        return str(Version.parse(text))
    except ValueError:
        return text


def _alternatives(values: dict[str, list[str]], name: str) -> list[str] | None:
    given = values.get(name)
    if not given:
        return None
    found: list[str] = []
    for value in given:
        if value.startswith("in:"):
            parsed = parse_in(value[3:])
            if parsed is None:
                return None
            found.extend(parsed)
        else:
            found.append(value)
    return found


def read_limit(text: str) -> int:
    """The value of a `limit`. Errors: 400; `²` is a digit, but no number."""
    if not is_number(text) or int(text) <= 0:
        raise BadRequest("limit must be a whole number above 0")
    return int(text)


def parse_query(
    pairs: Sequence[tuple[str, str]], *, page: int = DEFAULT_LIMIT, largest: int = MAX_LIMIT
) -> PackageQuery:
    """Query parameters as a ``PackageQuery``. ``page``: packages on it without a ``limit``; ``largest``:
    with any. Errors: 400 for ``limit`` and ``sort_dir``."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    limit = min(page, largest)
    given = _first(values, "limit")
    if given is not None:
        limit = min(read_limit(given), largest)
    direction = _first(values, "sort_dir") or "asc"
    if direction not in ("asc", "desc"):
        raise BadRequest("sort_dir must be asc or desc")
    order = [name for name in values.get("order_by", []) if name in ORDER_COLUMNS] or ["name"]
    words = (_first(values, "search") or "").replace(";", ",").split(",")
    return PackageQuery(
        catalog=_flag(values, "catalog"),
        include_disabled=_flag(values, "include_disabled"),
        owned=_flag(values, "owned"),
        ids=_alternatives(values, "id"),
        categories=_alternatives(values, "category"),
        tags=_alternatives(values, "tag"),
        fqn=_first(values, "fqn"),
        name=_first(values, "name"),
        class_name=_first(values, "class_name"),
        type=_first(values, "type"),
        version=stored_version(_first(values, "version")),
        search=[word.strip() for word in words if word.strip()],
        order_by=order,
        descending=direction == "desc",
        limit=limit,
        marker=_first(values, "marker"),
    )
