"""Upgrades that changed nothing on a machine: said, because the version alone would say otherwise.

A package that installs once, by a mark of its own, runs nothing for another version (`vetro check`: W212).
What a deployment sent to machines is known; whether the versions differ in scripts is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, cast

from vetro.engine.services import queue_name
from vetro.environments import Machine, machines
from vetro.json_values import Json, JsonObject

OWNER = "vetro.upgrades"
"""Whose the rows in a model's ``Attributes`` are that say which version has run last: no class's."""


class SilentUpgrade(NamedTuple):
    """A component whose version changed while nothing was run on its machines."""

    component: str
    was: str
    warning: str


def silent_upgrades(
    before: JsonObject, after: JsonObject, called: Collection[str]
) -> Iterator[SilentUpgrade]:
    """Each component that has another version now, none of whose machines ran a plan.

    ``before``: the model that was deployed, whose ``ObjectsCopy`` is of the deployment before. ``called``:
    the mailboxes that plans were sent to. A machine that was made, or made anew, has run what made it.
    """
    earlier = {_id(one): _version(one) for one in _components(before.get("ObjectsCopy"))}
    earlier |= {row[0]: row[3] for row in _rows(before) if row[1] == OWNER and row[0] in earlier}
    had = {one.id: one for one in machines(before.get("ObjectsCopy"))}
    objects: Json = after.get("Objects")
    has = {one.id: one for one in machines(objects)}
    for component in _components(objects):
        old, new = earlier.get(_id(component)), _version(component)
        if old is None or new is None or old == new:
            continue
        used = [has[id_] for id_ in _texts(component) if id_ in has]
        queues = {queue_name(_id(objects), one.id) for one in used}
        if used and queues.isdisjoint(called) and all(_is_same(one, had) for one in used):
            names = ", ".join(sorted({one.name for one in used}))
            yield SilentUpgrade(
                _id(component),
                old,
                f"{component.get('name') or used[0].component} has version {new} instead of"
                f" {old}, but nothing was run on its machines ({names}). If the versions differ in"
                " their scripts, the package installs only once: vetro check names where (W212)",
            )


def keep_unsaid(model: JsonObject, found: Iterable[SilentUpgrade]) -> None:
    """Note in a model what a deployment that failed does not say yet, instead of what was noted before.

    Its program may not have come to the scripts. The next one would find no other version any more.
    """
    rows = [row for row in _rows(model) if row[1] != OWNER]
    rows += [[one.component, OWNER, "from", one.was] for one in found]
    model["Attributes"] = rows


def _rows(model: JsonObject) -> list[list[Json]]:
    return cast("list[list[Json]]", model.get("Attributes") or [])


def _is_same(machine: Machine, had: dict[str, Machine]) -> bool:
    """Whether a machine was there before, with the disk that it has now."""
    old = had.get(machine.id)
    return old is not None and old.node.get("incarnation") == machine.node.get("incarnation")


def _components(objects: Json) -> list[JsonObject]:
    root = cast("JsonObject", objects) if isinstance(objects, dict) else {}
    return [one for one in cast("list[Json]", root.get("applications") or []) if _header(one)]


def _header(node: Json) -> JsonObject:
    found = cast("JsonObject", node).get("?") if isinstance(node, dict) else None
    return cast("JsonObject", found or {})


def _id(node: JsonObject) -> str:
    return str(_header(node).get("id"))


def _version(node: JsonObject) -> str | None:
    """The version in the type of an object: ``a.Class/1.0.0@a.package``."""
    version = str(_header(node).get("type")).partition("/")[2].partition("@")[0]
    return version or _header(node).get("classVersion")


def _texts(value: Json) -> Iterator[str]:
    """Every text in a model: the ids of what is inside are among them, and of what it refers to."""
    pending: list[Json] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            pending += cast("list[Json]", one)
        elif isinstance(one, dict):
            pending += cast("JsonObject", one).values()
