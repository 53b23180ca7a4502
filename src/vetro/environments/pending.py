"""The undeployed changes of a session, and their transfer to a newer model.

A session is a copy of the model with changes. They are found by comparison with the model that it
was opened on (``base``): ``changes`` describes them for people and programs, ``carry_over`` applies
them to the model that a later deployment stored. Descriptions never contain values, which may be
secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from vetro.environments.model import Json, header, named, object_id
from vetro.environments.views import Change, Changed
from vetro.json_values import JsonObject

_MISSING: object = object()
#: Parts of a header that only the service and the engine write.
_WRITTEN = frozenset({"status", "updated", "_actions"})


def changes(base: Json, objects: Json) -> list[Change]:
    """The changes between two root objects: one entry for each application, one for the rest.

    An entry has ``change`` (``added``, ``removed``, ``changed``), ``application`` (its name, or ``None``
    for the environment itself), ``id``, ``type`` and, of what was changed, the dotted ``properties``.
    """
    before, after = _root(base), _root(objects)
    old, new = _by_id(before.get("services")), _by_id(after.get("services"))
    found: list[Change] = []
    for id_, service in new.items():
        if id_ not in old:
            found.append({"change": "added", **_subject(service)})
        elif properties := list(_differences(old[id_], service)):
            found.append({"change": "changed", **_subject(service), "properties": properties})
    for id_, service in old.items():
        if id_ not in new:
            found.append({"change": "removed", **_subject(service)})
    rest = list(_differences(_without_services(before), _without_services(after)))
    if rest:
        of_all = Changed(application=None, id=object_id(after), type=None)
        found.append({"change": "changed", **of_all, "properties": rest})
    return found


def of_session(name: str, base: JsonObject, model: JsonObject) -> list[Change]:
    """The changes of a session's model to the model that it was opened on.

    ``name``: the environment's now. A new name is no change of the session's.
    """
    objects: JsonObject | None = model.get("Objects")
    if objects is not None and objects.get("name") == name:
        base = named(base, name)
    return changes(base.get("Objects"), objects)


def described(found: Iterable[Change]) -> str:
    """Changes as text: ``added db (org.Db); changed web: port, size``."""
    words: list[str] = []
    for one in found:
        name = one["application"] or one["id"] if one["type"] else "the environment"
        text = f"{one['change']} {name}"
        if one["change"] == "added":
            text += f" ({str(one['type']).partition('/')[0]})"
        elif properties := one.get("properties"):
            text += f": {', '.join(properties)}"
        words.append(text)
    return "; ".join(words)


def carry_over(base: Json, mine: Json, current: Json) -> tuple[Json, list[str]]:
    """``current`` with the changes from ``base`` to ``mine``, and the changes that failed.

    Where both changed one value, the value of ``mine`` is taken, as the latest request. A change
    fails only when its object is not in ``current`` any more.
    """
    lost: list[str] = []
    return _merge(base, mine, current, "", lost), lost


def restored(now: Json, then: Json) -> Json:
    """``then``, an earlier value, with what its objects have been given since and did not have then.

    Programs write properties of objects that stay, such as addresses.
    """
    if isinstance(now, dict) and isinstance(then, dict):
        ours, earlier = cast("dict[str, Json]", now), cast("dict[str, Json]", then)
        if object_id(ours) != object_id(earlier):
            return earlier
        mine, its = _class(ours), _class(earlier)
        if mine == its or (mine and its and not its[1] and mine[0] == its[0]):
            # The same class, however its header says so; its version was that of the packages in use.
            earlier = {key: one for key, one in earlier.items() if key != "?"}
        return {**ours, **{key: restored(ours.get(key), one) for key, one in earlier.items()}}
    if isinstance(now, list) and isinstance(then, list):
        known = _by_id([one for one in cast("list[Json]", now) if header(one) is not None])
        return [restored(known.get(str(object_id(one))), one) for one in cast("list[Json]", then)]
    return then


def _class(node: Json) -> tuple[str, str] | None:
    """The class of an object and its version (catalog-api.md §5.3)."""
    block = header(node)
    if block is None:
        return None
    name, _, version = str(block.get("type")).partition("@")[0].partition("/")
    return name, version or str(block.get("classVersion") or "")


def _root(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def _by_id(services: Json) -> dict[str, Json]:
    items = cast("list[Json]", services) if isinstance(services, list) else []
    return {str(object_id(one)): one for one in items}


def _without_services(root: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in root.items() if key != "services"}


def _subject(service: Json) -> Changed:
    block = header(service) or {}
    name = block.get("name") or _root(service).get("name")
    return {
        "application": name if isinstance(name, str) else None,
        "id": object_id(service),
        "type": block.get("type") or _root(service).get("type"),
    }


def _differences(old: Json, new: Json, path: str = "") -> Iterable[str]:
    """The dotted paths at which two values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Json]", old), cast("dict[str, Json]", new)
        if not path or object_id(before) == object_id(after):
            for key in [*before, *(key for key in after if key not in before)]:
                if key in _WRITTEN and (path == "?" or path.endswith(".?")):
                    continue
                below = f"{path}.{key}" if path else key
                yield from _differences(before.get(key, _MISSING), after.get(key, _MISSING), below)
            return
    if not _same(old, new):
        yield path


def _merge(base: Json, mine: Json, current: Json, path: str, lost: list[str]) -> Json:
    if _same(mine, base):
        return current
    if _same(current, base) or _same(current, mine):
        return mine
    if isinstance(mine, dict) and isinstance(current, dict):
        ours, theirs = cast("dict[str, Json]", mine), cast("dict[str, Json]", current)
        if object_id(ours) == object_id(theirs):
            return _merge_maps(_root(base), ours, theirs, path, lost)
    elif isinstance(mine, list) and isinstance(current, list):
        ours_, theirs_ = cast("list[Json]", mine), cast("list[Json]", current)
        before = cast("list[Json]", base) if isinstance(base, list) else []
        if all(object_id(one) is not None for one in (*before, *ours_, *theirs_)):
            return _merge_objects(before, ours_, theirs_, path, lost)
    return cast("Json", mine)


def _merge_maps(
    base: dict[str, Json],
    mine: dict[str, Json],
    current: dict[str, Json],
    path: str,
    lost: list[str],
) -> Json:
    result: dict[str, Json] = {}
    for key in [*current, *(key for key in mine if key not in current)]:
        was, ours, theirs = (part.get(key, _MISSING) for part in (base, mine, current))
        merged: Json = _merge(was, ours, theirs, f"{path}.{key}" if path else key, lost)
        if merged is not _MISSING:
            result[key] = merged
    return result


def _merge_objects(
    base: list[Json], mine: list[Json], current: list[Json], path: str, lost: list[str]
) -> Json:
    before, ours, theirs = _by_id(base), _by_id(mine), _by_id(current)
    result: list[Json] = []
    for id_, item in theirs.items():
        if id_ in ours:
            result.append(_merge(before.get(id_, _MISSING), ours[id_], item, f"{path}.{id_}", lost))
        elif id_ not in before:
            result.append(item)
    for id_, item in ours.items():
        if id_ in theirs:
            continue
        if id_ not in before:
            result.append(item)
        elif list(_differences(before[id_], item)):
            name = _subject(item)["application"] or id_
            lost.append(f"{name} was changed, but no longer exists")
    return result


def _same(one: Json, other: Json) -> bool:
    """Equality of JSON values; unlike in Python, ``1`` does not equal ``true``."""
    if isinstance(one, dict) and isinstance(other, dict):
        ours, theirs = cast("dict[str, Json]", one), cast("dict[str, Json]", other)
        return ours.keys() == theirs.keys() and all(_same(ours[key], theirs[key]) for key in ours)
    if isinstance(one, list) and isinstance(other, list):
        mine, others = cast("list[Json]", one), cast("list[Json]", other)
        return len(mine) == len(others) and all(map(_same, mine, others))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return one is other or (one is not _MISSING and other is not _MISSING and one == other)
