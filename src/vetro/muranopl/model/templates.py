"""`template()`: a checked model that is not yet an object (muranopl.md section 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.chains import not_compatible
from vetro.muranopl.contracts.tree import Setting, Violation
from vetro.muranopl.values.containers import Map, Value, freeze, thaw
from vetro.yaql.comparing import afford

from .loading import Transaction
from .serializing import Serializer

if TYPE_CHECKING:
    from .running import ModelRun


def template_value(
    run: ModelRun,
    value: Mapping[Value, Value] | MuranoObject,
    wanted: MuranoType,
    default: MuranoType,
    excluded: Sequence[str],
    setting: Setting,
) -> object:
    """The model of a map (loaded without constructors, to check it) or of an object.

    `excluded`: dotted paths of properties that are neither checked nor returned. Objects that the
    template does not own stay references: ids, which `new()` resolves again.
    """
    outer = setting.transaction
    # A template in a model names its class as any object of that model does: the package that
    # declares the property need not know it.
    scope = run.scope_of(setting.this) if outer is None else outer.scope
    if isinstance(value, MuranoObject):
        target = value
    else:
        pruned = _without(cast("Mapping[object, object]", thaw(afford(value, run))), excluded)
        transaction = Transaction(
            run,
            keep_ids=True,
            scope=scope,
            dry=True,
            outer=outer,
            excluded=frozenset(path for path in excluded if "." not in path),
        )
        target = transaction.make(pruned, setting.owner, default)
        transaction.resolve()
    if not target.type.is_compatible(wanted):
        raise Violation(f"Object of {not_compatible(target.type, wanted)}")
    serializer = Serializer(run, keep_references=True, form="Mixed", actions=False, within=target)
    model = cast("dict[object, object]", serializer.value(target))
    return freeze(_without(model, excluded))


def _without(model: Mapping[object, object], paths: Sequence[str]) -> dict[object, object]:
    result = dict(model)
    for path in paths:
        _drop(result, path.split("."))
    return result


def _drop(model: dict[object, object], path: Sequence[str]) -> None:
    name, rest = path[0], path[1:]
    if name not in model:
        return
    if not rest:
        del model[name]
        return
    inner = model[name]
    if isinstance(inner, Mapping):
        copied = dict(cast("Mapping[object, object]", inner))
        _drop(copied, rest)
        model[name] = Map(copied) if isinstance(inner, Map) else copied
    elif isinstance(inner, (list, tuple)):
        items: list[object] = []
        for item in cast("Sequence[object]", inner):
            if isinstance(item, Mapping):
                item = dict(cast("Mapping[object, object]", item))
                _drop(item, rest)
            items.append(item)
        model[name] = items
