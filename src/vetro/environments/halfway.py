"""What an environment and a session hold when a deployment was refused after it had begun (decision 0813).

What was wished was not done, so it waits in the session as before. What was made must not be forgotten:
when it is not wished any more, the next deployment removes it. So ``ObjectsCopy`` is what was deployed
before, with the objects that were made since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from vetro.environments.flat import is_workflow
from vetro.environments.model import (
    Json,
    components,
    from_engine,
    header,
    ids_below,
    object_id,
    walk,
)
from vetro.json_values import JsonObject

_MADE = "?made"
"""In an object of ``ObjectsCopy``: the objects that were made in it."""
_Objects = dict[str, JsonObject]


def halfway(
    before: JsonObject, wished: JsonObject, after: JsonObject
) -> tuple[JsonObject, JsonObject]:
    """The models to store of the environment and of the session, after a deployment that was stopped.

    ``before``: the environment's model; ``wished``: the session's; ``after``: the model after the run.
    """
    objects: JsonObject = from_engine(after.get("Objects")) or {}
    known: JsonObject = before.get("Objects") or {}
    if is_workflow(after):
        kept = {**objects, "services": known.get("services", [])}
        return {**after, "Objects": kept}, {**after, "Objects": objects}
    given, ran = _by_id(wished.get("Objects")), _by_id(objects)
    made = ran.keys() - _by_id(known).keys()
    deployed: Json = before.get("ObjectsCopy")
    if deployed is not None:
        copied = _with_written(deployed, given, ran, set())
        new = _made(after.get("Objects"), ids_below(deployed))
        deployed = _placed(copied, new, {str(object_id(one)) for one in components(objects)})
        after = {**after, "ObjectsCopy": deployed, "Attributes": _attributes(before, after)}
    environment = {**after, "Objects": _with_written(known, given, ran, made)}
    return environment, {**after, "Objects": objects}


def _by_id(objects: Json) -> _Objects:
    return {str(object_id(one)): one for one in walk(objects)}


def _with_written(before: Json, given: _Objects, ran: _Objects, made: set[str]) -> Json:
    """A value of before with what the program has written in it since.

    A user's change is undone. So is what the program wrote about objects that it has made.
    """
    if isinstance(before, list):
        return [_with_written(one, given, ran, made) for one in cast("list[Json]", before)]
    if not isinstance(before, dict):
        return before
    node = cast("JsonObject", before)
    found = {key: _with_written(one, given, ran, made) for key, one in node.items()}
    id_ = str(object_id(node)) if header(node) is not None else ""
    if id_ in given and id_ in ran:
        wish, now = given[id_], ran[id_]
        for key, value in now.items():
            if key == "?" or value == wish.get(key) or _objects_in(value, node.get(key)):
                continue
            if node.get(key) == wish.get(key) and not made & {*_texts(value)}:
                found[key] = value
    return found


def _objects_in(*values: Json) -> bool:
    """Whether there are objects in values: each of them is judged by itself."""
    return any(True for value in values for _ in walk(value))


def _texts(value: Json) -> Iterator[str]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*cast("JsonObject", one), *cast("JsonObject", one).values()]
        elif isinstance(one, list):
            waiting += cast("list[Json]", one)


def _made(after: Json, known: set[str]) -> dict[str, list[Json]]:
    """The outermost objects that are not known, by the ids of the known ones that they are in."""
    found: dict[str, list[Json]] = {}
    waiting: list[tuple[Json, str]] = [(after, "")]
    while waiting:
        value, owner = waiting.pop()
        if isinstance(value, list):
            waiting += [(one, owner) for one in reversed(cast("list[Json]", value))]
        elif isinstance(value, dict):
            node = cast("JsonObject", value)
            if header(node) is not None:
                id_ = str(object_id(node))
                if id_ not in known:
                    found.setdefault(owner, []).append(_without(node, known))
                    continue
                owner = id_
            waiting += [(one, owner) for one in reversed([*node.values()])]
    return found


def _without(value: Json, known: set[str]) -> Json:
    """An object without the known ones in it: their ids are in their place."""
    if isinstance(value, list):
        return [_without(one, known) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    node = cast("JsonObject", value)
    if header(node) is not None and object_id(node) in known:
        return object_id(node)
    return {key: _without(one, known) for key, one in node.items()}


def _placed(value: Json, made: dict[str, list[Json]], applications: set[str]) -> Json:
    """A value with what was made in its objects: applications among the others, all else beside them."""
    if isinstance(value, list):
        return [_placed(one, made, applications) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    node = {key: _placed(one, made, applications) for key, one in cast("JsonObject", value).items()}
    for one in made.get(str(object_id(node)), []) if header(node) is not None else ():
        place = "applications" if object_id(one) in applications else _MADE
        node[place] = [*node.get(place, []), one]
    return node


def _attributes(before: JsonObject, after: JsonObject) -> list[list[Json]]:
    """The rows after the run, and those of objects that it had taken out."""
    rows = cast("list[list[Json]]", after.get("Attributes") or [])
    known = ids_below(after.get("Objects"))
    former = cast("list[list[Json]]", before.get("Attributes") or [])
    return [*rows, *(row for row in former if row[0] not in known)]
