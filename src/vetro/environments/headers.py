"""What the header ``?`` of an object may hold (muranopl.md §13, catalog-api.md §5.3, decision 0826).

Engines read some members of a header, and own some of those. Each has its form here; what a designer's
tool keeps beside them is its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import cast

from vetro.environments.model import Json
from vetro.json_values import JsonObject
from vetro.packages import version_spec

ID_LIMIT = 255
"""Characters of an id: tables that name objects have room for them."""
ID_RULE = (
    f"must be text of 1 to {ID_LIMIT} printable characters that a path can have: without '/', no spaces"
    " around it, not '.', '..' or '?'; leave it out of what is new and it gets one"
)
_TYPE_LIMIT = 500
_FULL_NAME = re.compile(r"\w+(?:\.\w+)*")
_TYPE = re.compile(rf"(?:{_FULL_NAME.pattern})(?:/(?P<version>[^/@]+))?(?:@{_FULL_NAME.pattern})?")
_HANDLER = re.compile(r"\.?[^\W\d]\w*")


def class_of(block: Mapping[str, Json]) -> str:
    """The class that a header names, without its version and its package."""
    return str(block.get("type")).partition("@")[0].partition("/")[0]


def header_problem(block: Json) -> str:
    """What is wrong with a header first, in words that follow its path; '' if nothing is."""
    return next(header_problems(block), "")


def header_problems(block: Json) -> Iterator[str]:
    """All that is wrong with a header: of two mistakes each can be mended by itself."""
    if not isinstance(block, dict):
        yield " must be an object with the id and the type (the class) of its object"
        return
    known = cast("JsonObject", block)
    if known.get("type") is None:
        yield " has no '?/type': give it the name of its object's class"
    elif not _is_type(known["type"]):
        yield "/type must name a class: NAME, NAME/VERSION or NAME/VERSION@PACKAGE"
    if not is_id(known.get("id")):
        yield f"/id {ID_RULE}"
    for key, (fits, said) in _MEMBERS.items():
        value = known.get(key)
        if value is not None and not fits(value):
            yield f"/{key} {said}"


def values_problem(block: Json) -> str:
    """The same of the header of a value on its way to a program, which may leave out id and type."""
    if isinstance(block, dict):
        given = {key: one for key, one in cast("JsonObject", block).items() if one is not None}
        block = {"id": "new", "type": "any", **given}
    return header_problem(block)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


def _is_map(value: Json) -> bool:
    return isinstance(value, dict)


def _is_type(value: Json) -> bool:
    return isinstance(value, str) and len(value) <= _TYPE_LIMIT and _names_class(value)


@lru_cache(1024)
def _names_class(value: str) -> bool:
    found = _TYPE.fullmatch(value)
    if found is None:
        return False
    version = found["version"]
    return version is None or (bool(version.strip()) and _is_version(version))


def _is_version(value: Json) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        version_spec(value)
    except ValueError:
        return False
    return True


def is_id(value: Json) -> bool:
    """Whether a value can be the id of something in a model: a path can name it."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= ID_LIMIT
        and value.isprintable()
        and value == value.strip()
        and "/" not in value
        and value not in (".", "..", "?")
    )


def _is_package(value: Json) -> bool:
    return isinstance(value, str) and len(value) <= ID_LIMIT and bool(_FULL_NAME.fullmatch(value))


def _are_actions(value: Json) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, dict)
        and isinstance(one.get("enabled"), bool)
        and isinstance(one.get("name"), str)
        and isinstance(one.get("arguments"), dict | None)
        for one in cast("dict[str, Json]", value).values()
    )


def _are_dependencies(value: Json) -> bool:
    if not isinstance(value, dict) or set(cast("JsonObject", value)) - {"onDestruction"}:
        return False
    rows = cast("JsonObject", value).get("onDestruction")
    return rows is None or (
        isinstance(rows, list) and all(map(_subscribes, cast("list[Json]", rows)))
    )


def _subscribes(row: Json) -> bool:
    if not isinstance(row, dict) or set(cast("JsonObject", row)) - {"subscriber", "handler"}:
        return False
    handler = cast("JsonObject", row).get("handler")
    named = handler is None or (isinstance(handler, str) and bool(_HANDLER.fullmatch(handler)))
    return named and is_id(cast("JsonObject", row).get("subscriber"))


#: The members beside id and type: what fits, and what is said of what does not. Null is as if absent.
_MEMBERS: Mapping[str, tuple[Callable[[Json], bool], str]] = {
    "name": (_is_text, "must be text"),
    "package": (_is_package, "must be the full name of a package, such as org.acme.App"),
    "classVersion": (_is_version, "must be a version, or versions, such as 1.2.0 or '>=1.0, <2.0'"),
    "metadata": (_is_map, "must be an object"),
    "dependencies": (
        _are_dependencies,
        "must be {onDestruction: [{subscriber, handler}]}: the id of an object, and a method or null",
    ),
    "_actions": (
        _are_actions,
        "must be an object from ids of actions to {name, enabled}: a text, and true or false",
    ),
    "destroyed": (
        lambda value: value is False,
        "is for the engine to write; to remove the object, remove it from where it is",
    ),
}
