"""What rules may change in a model before it is deployed (catalog-api.md §12)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, cast

from vetro.documents import DocumentError, read_yaml
from vetro.engine.policy.facts import id_of, is_object, nodes_of

Model = dict[str, Any]


class WrongChange(Exception):
    """A change that cannot be made; the text says which."""


def change(objects: Model, text: str) -> None:
    """Make the changes of an action: YAML ``{name: {parameters}}``. Errors: ``WrongChange``."""
    try:
        read: object = read_yaml(text)
    except DocumentError as error:
        raise WrongChange(f"cannot be read: {error}") from error
    if not isinstance(read, dict) or not read:
        raise WrongChange(f"expected {{action: {{parameters}}}}, not {text:.200}")
    for name, given in cast("dict[str, object]", read).items():
        work = _WORK.get(name)
        if work is None:
            raise WrongChange(f"There is no action {name}; there are {', '.join(sorted(_WORK))}")
        if not isinstance(given, dict):
            raise WrongChange(f"The parameters of {name} must be a map")
        names = _NAMES[name]
        missing = [one for one in names if one not in given and one != "init_args"]
        unknown = [str(one) for one in cast("dict[str, object]", given) if one not in names]
        if missing or unknown:
            raise WrongChange(f"{name} takes {', '.join(names)}")
        work(objects, **cast("dict[str, object]", given))


def _find(objects: Model, id_: object) -> Model:
    for node in nodes_of(objects):
        if id_of(node) == str(id_):
            return node
    raise WrongChange(f"No such object: {id_}")


def _name(objects: Model, node: Model, name: object) -> str:
    """The property that facts call so: the engine's form has another word for the services."""
    return "applications" if node is objects and name == "services" else str(name)


def _remove_object(objects: Model, object_id: object) -> None:
    node = _find(objects, object_id)
    if node is objects:
        raise WrongChange("The environment itself cannot be removed")
    ids = {id_of(one) for one in nodes_of(node)}
    for holder, key, value in list(_places(objects)):
        if value is node or (isinstance(value, str) and value in ids):
            _clear(holder, key)
    _drop_cleared(objects)


def _set_property(objects: Model, object_id: object, prop_name: object, value: object) -> None:
    node = _find(objects, object_id)
    *way, last = str(prop_name).split(".")
    for step in way:
        inner = node.setdefault(step, {})
        if not isinstance(inner, dict):
            raise WrongChange(f"{prop_name} of {object_id}: {step} is not a map")
        node = cast("Model", inner)
    node[last] = value


def _remove_relation(objects: Model, object_id: object, prop_name: object) -> None:
    node = _find(objects, object_id)
    name = _name(objects, node, prop_name)
    if name not in node:
        raise WrongChange(f"{object_id} has no {prop_name}")
    node[name] = None


def _add_object(
    objects: Model,
    owner_id: object,
    owner_relation: object,
    type: object,  # noqa: A002 - rules call it so
    init_args: object = None,
) -> None:
    if not isinstance(init_args or {}, dict):
        raise WrongChange("init_args must be a map")
    header = {"id": uuid.uuid4().hex, "type": str(type)}
    made = {**cast("Model", init_args or {}), "?": header}
    _relate(objects, owner_id, owner_relation, made)


def _add_relation(objects: Model, source_id: object, relation: object, target_id: object) -> None:
    _relate(objects, source_id, relation, id_of(_find(objects, target_id)))


def _relate(objects: Model, source_id: object, relation: object, target: object) -> None:
    """Append to a list, else set."""
    node = _find(objects, source_id)
    name = _name(objects, node, relation)
    present = node.get(name)
    if isinstance(present, list):
        cast("list[object]", present).append(target)
    elif name == "applications":
        node[name] = [target]
    else:
        node[name] = target


_CLEARED = object()


def _places(value: object) -> Iterator[tuple[object, object, object]]:
    """Every value with what holds it and where; headers are left out."""
    waiting: list[Any] = [value]
    while waiting:
        one: object = waiting.pop()
        header = "?" if is_object(one) else None
        if isinstance(one, dict):
            pairs = list(cast("dict[object, object]", one).items())
        else:
            pairs = [*enumerate(cast("list[object]", one))]
        for key, item in pairs:
            if key == header:
                continue
            yield one, key, item
            if isinstance(item, (dict, list)):
                waiting.append(item)


def _clear(holder: Any, key: Any) -> None:
    """Take a value out: a property becomes null, an element of a list or a plain map goes."""
    holder[key] = None if is_object(holder) else _CLEARED


def _drop_cleared(value: object) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            node = cast("Model", one)
            for key in [key for key, item in node.items() if item is _CLEARED]:
                del node[key]
            waiting.extend(node.values())
        elif isinstance(one, list):
            items = cast("list[object]", one)
            items[:] = [item for item in items if item is not _CLEARED]
            waiting.extend(items)


_WORK: dict[str, Callable[..., None]] = {
    "remove-object": _remove_object,
    "set-property": _set_property,
    "remove-relation": _remove_relation,
    "add-object": _add_object,
    "add-relation": _add_relation,
}
_NAMES = {
    "remove-object": ("object_id",),
    "set-property": ("object_id", "prop_name", "value"),
    "remove-relation": ("object_id", "prop_name"),
    "add-object": ("owner_id", "owner_relation", "type", "init_args"),
    "add-relation": ("source_id", "relation", "target_id"),
}
