"""A model as facts, in the tables that rules for Congress know (catalog-api.md §12).

A fact is a tuple of texts, as Python writes them (``False``, ``80``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

Facts = dict[str, set[tuple[str, ...]]]
Ancestors = Callable[[Mapping[str, Any]], Iterable[str]]
"""The classes of an object of the model: its own and all ancestors."""
OBJECTS, PROPERTIES = "murano:objects", "murano:properties"
RELATIONSHIPS, CONNECTED = "murano:relationships", "murano:connected"
PARENT_TYPES, STATES = "murano:parent_types", "murano:states"
MOST_FACTS = 500_000


class TooManyFacts(Exception):
    """A model is too large to be asked about."""

    def __init__(self) -> None:
        super().__init__(f"The model has more than {MOST_FACTS} facts; nobody can judge it")


def facts_of(objects: Mapping[str, Any], project_id: str, ancestors: Ancestors) -> Facts:
    """The facts of the root object of a model in the engine's form. Errors: ``TooManyFacts``."""
    found: Facts = {name: set() for name in (OBJECTS, PROPERTIES, RELATIONSHIPS, PARENT_TYPES)}
    ids = {id_of(node) for node in nodes_of(objects)}
    root = id_of(objects)
    waiting: list[tuple[Mapping[str, Any], str]] = [(objects, project_id)]
    while waiting:
        node, owner = waiting.pop()
        own = id_of(node)
        kind = str(node["?"].get("type", "")).partition("/")[0].partition("@")[0]
        found[OBJECTS].add((own, owner, kind))
        found[PARENT_TYPES].update((own, name) for name in {kind, *ancestors(node)})
        for path, value in _values(node, ""):
            name = "services" if path == "applications" and node is objects else path
            if isinstance(value, dict):
                inner = cast("dict[str, Any]", value)
                found[RELATIONSHIPS].add((own, id_of(inner), name))
                waiting.append((inner, own))
            elif isinstance(value, str) and value in ids:
                found[RELATIONSHIPS].add((own, value, name))
            else:
                found[PROPERTIES].add((own, name, str(value)))
    found[CONNECTED] = _closure(found[RELATIONSHIPS])
    found[STATES] = {(root, "pending")}
    if sum(map(len, found.values())) > MOST_FACTS:
        raise TooManyFacts
    return found


def id_of(node: Mapping[str, Any]) -> str:
    """The id of an object."""
    return str(node["?"].get("id", ""))


def is_object(value: object) -> bool:
    """Whether a value is an object of the model: a mapping with a header."""
    return isinstance(value, dict) and isinstance(cast("dict[str, object]", value).get("?"), dict)


def nodes_of(value: object) -> Iterator[dict[str, object]]:
    """Every object in a value, itself first."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(cast("list[object]", one))
        elif isinstance(one, dict):
            node = cast("dict[str, object]", one)
            if is_object(node):
                yield node
            waiting.extend(item for key, item in node.items() if key != "?")


def _values(node: Mapping[str, object], before: str) -> Iterator[tuple[str, object]]:
    """Scalars and objects among an object's properties, by their dotted paths; no nulls."""
    for key, value in node.items():
        if key != "?":
            yield from _parts(f"{before}{key}", value)


def _parts(path: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _parts(path, item)
    elif isinstance(value, dict) and not is_object(value):  # pyright: ignore[reportUnknownArgumentType]
        yield from _values(cast("dict[str, object]", value), f"{path}.")
    elif value is not None:
        yield path, value


def _closure(relationships: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Who reaches whom over any number of relationships."""
    next_of: dict[str, set[str]] = {}
    for source, target, _ in relationships:
        next_of.setdefault(source, set()).add(target)
    found: set[tuple[str, ...]] = set()
    for start in next_of:
        reached: set[str] = set()
        waiting = list(next_of[start])
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting.extend(next_of.get(one, ()))
        found.update((start, one) for one in reached)
        if len(found) > MOST_FACTS:
            raise TooManyFacts
    return found
