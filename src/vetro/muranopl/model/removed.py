"""References of `Out` properties to objects that are not in the model any more (section 13).

The program wrote them and a user cannot: when the user removes an object, what refers to it in `Out`
properties goes with it. An unknown id in any other property stays an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import MuranoError, NoObjectFoundError

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject

    from .loading import Made, Transaction


def refill(
    transaction: Transaction, target: MuranoObject, name: str, raw: object, made_of_maps: list[Made]
) -> None:
    """Set a property whose value holds references, when all ids are known.

    Of an `Out` property references to unknown objects are left out, with a warning: the item of a
    list, the entry of a map, and what contains them where the contract demands it. Raises
    NoObjectFoundError, MuranoError.
    """
    initialiser = target.type.assembly.initialisers[name]
    value, removed, levels = raw, list[str](), 0
    first: NoObjectFoundError | None = None
    while True:
        transaction.made_before = list(made_of_maps)
        try:
            initialiser.refill(target, transaction.run, value, transaction)
            break
        except NoObjectFoundError as error:
            if first is None:
                first = error
                error.message += f" (needed by {target.type.name}.{name} of object {target.id})"
            if not transaction.keep_ids or not _is_out(target, name):
                raise
            if error.object_id is None or error.object_id in removed:
                raise first from None
            removed.append(error.object_id)
        except MuranoError:
            if first is None:
                raise
            if value is None:
                raise first from None
            levels += 1
        value = _without(raw, removed, levels)
        value = None if isinstance(value, _Gone) else value
    for object_id in removed:
        transaction.run.session.warnings.append(
            f"{target.type.name}.{name} of {target.id} referred to {object_id}, which was removed"
        )


def _is_out(target: MuranoObject, name: str) -> bool:
    return any(item.usage == "Out" for item in target.type.property_declarations(name))


class _Gone(int):
    """In place of a value that is left out: how many of the containers around it go as well."""


def _without(value: object, removed: list[str], levels: int) -> object:
    """A value without these references, and without `levels` containers around each of them."""
    if isinstance(value, str):
        return _Gone(levels) if value in removed else value
    if isinstance(value, Mapping):
        table = cast("Mapping[Value, Value]", value)
        if "?" in table:
            return table  # an object's own properties are judged by themselves
        kept: dict[object, object] = {}
        for key, item in table.items():
            made = _without(item, removed, levels)
            if not isinstance(made, _Gone):
                kept[key] = made
            elif made > 0:
                return _Gone(made - 1)
        return kept
    if isinstance(value, (list, tuple)):
        items: list[object] = []
        for item in cast("list[Value]", value):
            made = _without(item, removed, levels)
            if not isinstance(made, _Gone):
                items.append(made)
            elif made > 0:
                return _Gone(made - 1)
        return items
    return value
