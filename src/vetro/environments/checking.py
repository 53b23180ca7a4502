"""What may be written to a model: the one check of every way into it (catalog-api.md §5.3, decision 0810).

The tree of services, patches, templates, new environments, forms and upgrades all end here. An object
has a header, ``?``, with an id that is its own and the class that it was made as; what else the header has
is of the kind that engines read. What was wrong before a change does not stop it: so it can be mended.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from vetro.environments.model import (
    Json,
    delete_path,
    get_path,
    header,
    new_id,
    object_id,
    put_path,
    walk,
)
from vetro.http import BadRequest, NotFound
from vetro.json_values import JsonObject

HEADER = "?"
_TYPE = re.compile(r"[^\s/@]+(/[^/@]+)?(@[^\s/@]+)?")
_TEXT, _MAP = (str, type(None)), (dict, type(None))
#: The members of a header that engines read, beside id and type, and what each may be.
_RESERVED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "name": (_TEXT, "text"),
    "package": (_TEXT, "text"),
    "classVersion": ((str, int, float, type(None)), "text"),
    "metadata": (_MAP, "an object"),
    "dependencies": (_MAP, "an object"),
    "_actions": (_MAP, "an object"),
    "destroyed": ((bool, type(None)), "true or false"),
}
_Place = tuple["_Place", str] | None


@dataclass(frozen=True)
class Before:
    """A model before a change. ``classes``: of deployed objects in components; ``wrong``: what was."""

    classes: Mapping[str, str] = field(default_factory=dict[str, str])
    wrong: frozenset[str] = frozenset()

    @classmethod
    def of(cls, objects: Json, deployed: Json = None) -> Before:
        """Of the objects of a model, which a change may go on to change in place.

        ``deployed``: the objects of the last run (``ObjectsCopy``).
        """
        classes = {id_: name for id_, name, _ in _in_components(deployed)}
        return cls(classes, frozenset(_problems(objects)))


_NOTHING = Before()


def complete_objects(value: Json) -> None:
    """Complete written objects: give those an id that have none, drop ``?/status``, which is computed."""
    for node in walk(value):
        block = node[HEADER]
        if block.get("id") is None:
            block["id"] = new_id()
        block.pop("status", None)


def check_objects(value: Json, where: str) -> None:
    """Complete and check objects that are on their way into a model, at ``where``. Errors: 400."""
    complete_objects(value)
    for problem in _problems(value):
        raise BadRequest(f"{where}/{problem}")


def check_model(objects: JsonObject, before: Before = _NOTHING) -> None:
    """Check what a model would be after a change. Errors: 400 that names the path and what to do."""
    services = objects.get("services", [])
    if not isinstance(services, list):
        raise BadRequest("services must be a list of applications")
    for number, service in enumerate(cast("list[Json]", services)):
        if not isinstance(service, dict) or HEADER not in service:
            raise BadRequest(
                f"services/{number} must be an application: an object with a '?' block that names its type"
            )
    for problem in _problems(objects):
        if problem not in before.wrong:
            raise BadRequest(problem)
    _check_unique_ids(objects)
    for id_, name, place in _in_components(objects):
        was = before.classes.get(id_, name)
        if was != name:
            raise BadRequest(_other_class(_path(place), was, name))


@contextmanager
def header_kept(root: Json, parts: list[str]) -> Generator[None, None, None]:
    """Around a change at a path: below a ``?`` the object keeps its id and its class. Errors: 400, 404."""
    if HEADER not in parts:
        yield
        return
    at = parts.index(HEADER)
    node = get_path(root, parts[:at])
    block = header(node) or {}
    id_, name = block.get("id"), class_of(block)
    yield
    where = "/".join(parts[: at + 1])
    if not id_:
        return
    after = header(node)
    if after is None or "id" not in after or "type" not in after:
        raise BadRequest(
            f"{where}: an object must keep its '?', with id and type; to remove it, remove"
            f" {'/'.join(parts[:at])}"
        )
    if after["id"] != id_:
        raise BadRequest(
            f"{where}/id is {id_} and cannot change: others refer to it; add an object of another id instead"
        )
    # The classes of the environment and its networks can be replaced (§5.4).
    if parts[0] not in (HEADER, "defaultNetworks") and class_of(after) != name:
        raise BadRequest(_other_class(where, name, class_of(after)))


def put_value(root: Json, parts: list[str], value: Json) -> None:
    """Replace (or add to an object) the value at a path. Errors: 400, ``NotFound``.

    An object that replaces one of its class, and says no id, stays the same: others may refer to it.
    """
    block = header(value)
    if block is not None and block.get("id") is None:
        was = header(_there(root, parts))
        if was is not None and class_of(was) == class_of(block):
            block["id"] = was.get("id")
    with header_kept(root, parts):
        put_path(root, parts, value)


def delete_value(root: Json, parts: list[str]) -> None:
    """Remove a key or an element. Errors: 400, ``NotFound``."""
    with header_kept(root, parts):
        delete_path(root, parts)


def _there(root: Json, parts: list[str]) -> Json:
    try:
        return get_path(root, parts)
    except NotFound:
        return None


def class_of(block: Mapping[str, Json]) -> str:
    """The class that a header names, without its version and its package."""
    return str(block.get("type")).partition("@")[0].partition("/")[0]


def _other_class(where: str, was: str, name: str) -> str:
    return (
        f"{where}/type: the object is a {was} and cannot become a {name}; remove it, and add one of that"
        " class with an id of its own"
    )


def _check_unique_ids(objects: Json) -> None:
    seen: set[str] = set()
    for node in walk(objects):
        id_ = str(object_id(node))
        if id_ in seen:
            raise BadRequest(
                f"Two objects of the environment have the id {id_}; give one of them an id of its own"
            )
        seen.add(id_)


def _problems(objects: Json) -> Iterator[str]:
    """What is wrong with the headers of objects, each in a sentence that begins with its path."""
    if isinstance(objects, dict) and "applications" in objects and HEADER in objects:
        yield "applications: the environment's applications are written to services; leave this out"
    for node, place in _headed(objects):
        found = _problem(node[HEADER])
        if found:
            yield f"{_path(place)}{found}"


def _problem(block: Json) -> str:
    if not isinstance(block, dict):
        return " must be an object with the id and the type (the class) of its object"
    known = cast("dict[str, Json]", block)
    type_, id_ = known.get("type"), known.get("id")
    if type_ is None:
        return " has no '?/type': give it the name of its object's class"
    if not isinstance(type_, str) or not _TYPE.fullmatch(type_):
        return "/type must name a class: NAME, NAME/VERSION or NAME/VERSION@PACKAGE"
    if not isinstance(id_, str) or not id_:
        return "/id must be text, and not empty: leave it out of a new object and it gets one"
    for key, (kinds, said) in _RESERVED.items():
        if not isinstance(known.get(key), kinds):
            return f"/{key} must be {said}"
    if known.get("destroyed"):
        return "/destroyed is for the engine to write; to remove the object, remove it from where it is"
    return ""


def _in_components(objects: Json) -> Iterator[tuple[str, str, _Place]]:
    """The id, the class and the place of the header of each object in the components of a model."""
    root = cast("JsonObject", objects) if isinstance(objects, dict) else {}
    for node, place in _headed({"services": root.get("services", root.get("applications"))}):
        block = header(node)
        if block is not None:
            yield str(block.get("id")), class_of(block), place


def _headed(value: Json) -> Iterator[tuple[dict[str, Json], _Place]]:
    """Every map that has a ``?``, of whatever kind, and the place of that; headers are not looked into."""
    pending: list[tuple[Json, _Place]] = [(value, None)]
    while pending:
        current, place = pending.pop()
        below: list[tuple[str, Json]] = []
        if isinstance(current, dict):
            node = cast("dict[str, Json]", current)
            if HEADER in node:
                yield node, (place, HEADER)
            below = [(key, one) for key, one in node.items() if key != HEADER]
        elif isinstance(current, list):
            below = [(str(at), one) for at, one in enumerate(cast("list[Json]", current))]
        pending += [(one, (place, key)) for key, one in reversed(below)]


def _path(place: _Place) -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return "/".join(reversed(parts))
