"""What may be written to a model: the one check of every way into it (catalog-api.md §5.3, decision 0810).

The tree of services, patches, templates, new environments, forms and upgrades all end here. An object
has a header, ``?``, with an id that is its own and the class that it was made as; what else the header has
is as engines read it (``headers``). What was wrong before a change does not stop it: so it can be mended.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from vetro.environments.headers import class_of, header_problems, values_problem
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
from vetro.environments.model_forms import root_problems
from vetro.http import BadRequest, NotFound
from vetro.json_values import JsonObject

HEADER = "?"
_Place = tuple["_Place", str] | None
_At = tuple[JsonObject, _Place]


@dataclass(frozen=True)
class Before:
    """A model before a change.

    ``deployed``: the classes of deployed objects by id. ``actions``: what engines wrote of arguments.
    ``wrong``: problems, and ids that had another class already.
    """

    deployed: Mapping[str, str] = field(default_factory=dict[str, str])
    actions: Mapping[str, Mapping[str, Json]] = field(default_factory=dict[str, Mapping[str, Json]])
    wrong: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, objects: Json, deployed: Json = None) -> Before:
        """Of the objects of a model, which a change may go on to change in place.

        ``deployed``: the objects of the last run (``ObjectsCopy``).
        """
        maps = list(_maps(objects))
        classes = {id_: name for id_, name, _ in _named(_maps(deployed))}
        actions = {str(object_id(node)): said for node, _ in maps if (said := _arguments(node))}
        problems = [(id_, found) for id_, _, found in _problems(objects, maps)]
        moved = [(id_, name) for id_, name, _ in _named(maps) if classes.get(id_, name) != name]
        return cls(classes, actions, frozenset([*problems, *moved]))


_NOTHING = Before()


def check_objects(value: Json, where: str) -> None:
    """Complete and check objects that are on their way into a model, at ``where``. Errors: 400."""
    _complete(value, _NOTHING)
    for _, place, found in _problems(value, _maps(value)):
        raise BadRequest(f"{where}/{place}{found}")


def check_headers(value: Json, where: str) -> None:
    """Check the headers in what a program is called with. They may leave out id and type. Errors: 400."""
    for node, place in _headed(_maps(value)):
        found = values_problem(node[HEADER])
        if found:
            raise BadRequest(f"{where}/{_path(place)}{found}")


def check_model(objects: JsonObject, before: Before = _NOTHING) -> None:
    """Complete and check what a model would be after a change. Errors: 400 that names path and remedy.

    Objects that have no id get one. What is computed is taken out: ``?/status``, and arguments of actions
    that no engine wrote.
    """
    services = objects.get("services", [])
    if not isinstance(services, list):
        raise BadRequest("services must be a list of applications")
    for number, service in enumerate(cast("list[Json]", services)):
        if not isinstance(service, dict) or HEADER not in service:
            raise BadRequest(
                f"services/{number} must be an application: an object with a '?' block that names its type"
            )
    _complete(objects, before)
    maps = list(_maps(objects))
    for id_, place, found in _problems(objects, maps):
        if (id_, found) not in before.wrong:
            raise BadRequest(f"{place}{found}")
    _check_unique_ids(maps)
    for id_, name, place in _named(maps):
        was = before.deployed.get(id_, name)
        if was != name and (id_, name) not in before.wrong:
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


def _other_class(where: str, was: str, name: str) -> str:
    return (
        f"{where}/type: the object is a {was} and cannot become a {name}; remove it, and add one of that"
        " class with an id of its own"
    )


def _check_unique_ids(maps: Iterable[_At]) -> None:
    seen: set[str] = set()
    for node, _ in _headed(maps):
        id_ = str(object_id(node))
        if id_ in seen:
            raise BadRequest(
                f"Two objects of the environment have the id {id_}; give one of them an id of its own"
            )
        seen.add(id_)


def _complete(value: Json, before: Before) -> None:
    for node in walk(value):
        block = node[HEADER]
        if block.get("id") is None:
            block["id"] = new_id()
        block.pop("status", None)
        known = before.actions.get(str(block["id"]), {})
        # By these calls are checked, with the patterns in them.
        for name, arguments in _arguments(node).items():
            if known.get(name) != arguments:
                del block["_actions"][name]["arguments"]


def _arguments(node: JsonObject) -> dict[str, Json]:
    """What is said of the arguments of an object's actions, by the action's id."""
    actions = (header(node) or {}).get("_actions")
    if not isinstance(actions, dict):
        return {}
    return {
        name: one["arguments"]
        for name, one in cast("JsonObject", actions).items()
        if isinstance(one, dict) and "arguments" in cast("JsonObject", one)
    }


def _problems(objects: Json, maps: Iterable[_At]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with objects: the id of each, the path of its header, and words that follow that."""
    if isinstance(objects, dict) and HEADER in objects:
        if "applications" in objects:
            found = ": the environment's applications are written to services; leave this out"
            yield "", "applications", found
        for found in root_problems(cast("JsonObject", objects)):
            yield "", "", found
    for node, place in _headed(maps):
        for found in header_problems(node[HEADER]):
            yield str(object_id(node)), _path(place), found


def _named(maps: Iterable[_At]) -> Iterator[tuple[str, str, _Place]]:
    """The id, the class and the place of each object of a model, but for its root.

    The class of the environment can be replaced (§5.4). Objects without a header name their class by a key
    with a colon (muranopl.md §13); engines write none, so that of a deployed one is another class.
    """
    for node, place in maps:
        block = header(node)
        if block is not None:
            if place is not None:
                yield str(block.get("id")), class_of(block), (place, HEADER)
        elif HEADER not in node and isinstance(node.get("id"), str):
            keys = [key for key in node if ":" in key]
            if len(keys) == 1:
                yield node["id"], keys[0], (place, keys[0])


def _headed(maps: Iterable[_At]) -> Iterator[_At]:
    """Those that have a ``?``, of whatever kind, and the place of that."""
    return ((node, (place, HEADER)) for node, place in maps if HEADER in node)


def _maps(value: Json) -> Iterator[_At]:
    """Every map, outermost first, and its place; headers are not looked into."""
    pending: list[tuple[Json, _Place]] = [(value, None)]
    while pending:
        current, place = pending.pop()
        below: Iterable[tuple[object, Json]]
        if isinstance(current, dict):
            node = cast("JsonObject", current)
            yield node, place
            below = reversed(node.items())
        elif isinstance(current, list):
            below = reversed([*enumerate(cast("list[Json]", current))])
        else:
            continue
        for key, one in below:
            # Most are neither: the loop is the time that this takes.
            if (one.__class__ is dict or one.__class__ is list) and key != HEADER:
                pending.append((one, (place, str(key))))


def _path(place: _Place) -> str:
    parts: list[str] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return "/".join(reversed(parts))
