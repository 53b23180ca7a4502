"""What a user may have changed in a model since it was last deployed (muranopl.md section 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.threads.effects import Json
from vetro.muranopl.values.errors import MuranoError, NoWriteAccessError

FindType = Callable[[str, "str | None", "str | None"], MuranoType]
"""The class that a model names, by name, version and package; raises MuranoError."""


def settle_edits(
    find_type: FindType, model: Mapping[str, Json], warnings: list[str]
) -> dict[str, Json]:
    """The model with `Out` values as the program left them.

    Objects are compared by id and class with `ObjectsCopy`; new objects and first deployments are
    not checked. A changed or removed `Out` value is restored, with a warning that names it; a
    changed `Const` value raises NoWriteAccessError.
    """
    saved = dict(_objects(model.get("ObjectsCopy")))
    if not saved:
        return dict(model)
    settled = _copied(model.get("Objects"))
    for object_id, current in list(_objects(settled)):
        before = saved.get(object_id)
        if before is None or _class_name(before) != _class_name(current):
            continue
        type_ = type_of_item(find_type, current)
        if type_ is None:
            continue
        for name in type_.property_names():
            usages = {item.usage for item in type_.property_declarations(name)}
            if not usages & {"Out", "Const"} or name not in before:
                continue
            if _same(before[name], current.get(name), name in current):
                continue
            if "Const" in usages:
                raise NoWriteAccessError(
                    f"{type_.name}.{name} of {object_id} cannot be changed after it was deployed",
                    hint="Const properties can be set only once",
                )
            current[name] = before[name]
            warnings.append(
                f"{type_.name}.{name} of {object_id} is set by the application; "
                "the change was undone"
            )
    return {**model, "Objects": settled}


def _objects(tree: Json) -> list[tuple[str, dict[str, object]]]:
    """Every object of a model with its id."""
    found: list[tuple[str, dict[str, object]]] = []
    stack: list[object] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            table = cast("dict[str, object]", item)
            header = table.get("?")
            if isinstance(header, Mapping) and "id" in header:
                found.append((str(cast("Mapping[str, object]", header)["id"]), table))
            stack.extend(value for key, value in table.items() if key != "?")
        elif isinstance(item, list):
            stack.extend(cast("list[object]", item))
    return found


def _copied(tree: Json) -> Json:
    if isinstance(tree, Mapping):
        return {key: _copied(value) for key, value in cast("Mapping[str, Json]", tree).items()}
    if isinstance(tree, (list, tuple)):
        return [_copied(item) for item in cast("Sequence[Json]", tree)]
    return tree


def _class_name(item: Mapping[str, object]) -> str:
    header = cast("Mapping[str, object]", item["?"])
    return str(header.get("type")).partition("/")[0].partition("@")[0]


def type_of_item(find_type: FindType, item: Mapping[str, object]) -> MuranoType | None:
    """The class that an object's header names; ``None`` when it is not found."""
    header = cast("Mapping[str, Any]", item["?"])
    text = str(header.get("type"))
    rest, _, package = text.partition("@")
    name, _, version = rest.partition("/")
    try:
        return find_type(
            name, version or header.get("classVersion"), package or header.get("package")
        )
    except MuranoError:
        return None  # loading will report the error with its place


def _same(before: Json, current: Json, present: bool) -> bool:
    """True when equal; an object and a reference to it count as equal."""
    if not present:
        return before is None
    return _shape(before) == _shape(current)


def _shape(value: Json) -> object:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        header = table.get("?")
        if isinstance(header, Mapping):
            return str(cast("Mapping[str, object]", header).get("id"))
        return {key: _shape(item) for key, item in table.items()}
    if isinstance(value, (list, tuple)):
        return [_shape(item) for item in cast("Sequence[object]", value)]
    return value
