"""Parts of templates taken out, with what then points at nothing, and merged in (core-library.md §4.4.1)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from vetro.engine.system.template_spelling import respell, section
from vetro.json_values import Json


def without(
    template: dict[str, Json], resources: Collection[str], outputs: Collection[str]
) -> dict[str, Json]:
    """A template without some resources and outputs, in either spelling."""
    result = dict(template)
    for sections, names in (
        (("resources", "Resources"), resources),
        (("outputs", "Outputs"), outputs),
    ):
        for key in sections:
            body = result.get(key)
            if isinstance(body, dict):
                entries = dict(cast("dict[str, Json]", body))
                for name in names:
                    entries.pop(name, None)
                result[key] = entries
    return result


def without_orphans(template: dict[str, Json], before: dict[str, Json]) -> dict[str, Json]:
    """A template without outputs of resources that were taken out of it.

    Packages of the first release remove a machine and leave its outputs. What never was there is a
    mistake, and stays for the back end to complain of.
    """
    gone = section(before, "resources").keys() - section(template, "resources").keys()
    outputs = section(template, "outputs")
    orphans = [name for name, body in outputs.items() if gone and gone & named_in(body)]
    return without(template, [], orphans) if orphans else template


def without_unmade(template: dict[str, Json], unmade: Collection[str]) -> dict[str, Json]:
    """A template without what a failed operation has not made, as far as nothing that exists needs it.

    The application that wants such a resource asks for it again at its next deployment. Meanwhile others
    can push what they have changed, and do not fail for a mistake that is mended already.
    """
    bodies = section(template, "resources")
    dropped = {name for name in unmade if name in bodies}
    reached = [name for name in bodies if name not in dropped]
    if not dropped or not reached:
        return template
    while reached:
        needed = named_in(bodies[reached.pop()]) & dropped
        dropped -= needed
        reached += needed
    outputs = section(template, "outputs")
    return without(template, dropped, [key for key in outputs if dropped & named_in(outputs[key])])


def with_needed(template: dict[str, Json], leaving: Mapping[str, Json]) -> dict[str, Json]:
    """A template with those of the resources ``leaving`` that it still refers to."""
    bodies = section(template, "resources")
    names = leaving.keys() - bodies.keys()
    needed: dict[str, Json] = {}
    looked_at = list(bodies.values()) if names else []
    while looked_at:
        for name in sorted(named_in(looked_at.pop()) & (names - needed.keys())):
            needed[name] = leaving[name]
            looked_at.append(leaving[name])
    if not needed:
        return template
    fragment = respell({"resources": needed}, template)
    key = "resources" if "resources" in fragment else "Resources"
    return {**template, key: {**bodies, **section(fragment, "resources")}}


def named_in(value: Json) -> set[str]:
    """The resources that a value refers to."""
    if isinstance(value, list):
        return {name for item in cast("list[Json]", value) for name in named_in(item)}
    if not isinstance(value, dict):
        return set()
    found: set[str] = set()
    for key, item in cast("dict[str, Json]", value).items():
        if key in ("get_resource", "Ref") and isinstance(item, str):
            found.add(item)
        elif key in ("get_attr", "Fn::GetAtt") and isinstance(item, list) and item:
            found.add(str(cast("list[Json]", item)[0]))
        elif key in ("depends_on", "DependsOn"):
            found |= {
                str(name) for name in cast("list[Json]", item if isinstance(item, list) else [item])
            }
        else:
            found |= named_in(item)
    return found


def merge(old: Json, new: Json, path: str = "") -> Json:
    """``new`` over ``old``: maps join, lists gain what they lack, other values are replaced.

    The arguments are not changed. Errors: ``TypeError`` naming the path when the types do not fit.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        result = dict(cast("dict[str, Json]", old))
        for key, value in cast("dict[str, Json]", new).items():
            result[key] = merge(result[key], value, f"{path}/{key}") if key in result else value
        return result
    if isinstance(old, list) and isinstance(new, list):
        if old == new:
            # Keep even its own duplicates: merging the same fragment again changes nothing.
            return cast("Json", old)
        joined: list[Json] = []
        for item in [*cast("list[Json]", old), *cast("list[Json]", new)]:
            if item not in joined:
                joined.append(item)
        return joined
    if old is None:
        # A value may be added where there was null; upstream silently ignores it.
        return new
    if new is None and isinstance(old, str):
        return old
    if _kind(old) != _kind(new):
        raise TypeError(f"cannot merge {_kind(new)} into {_kind(old)} at {path or '/'}")
    return new


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__
