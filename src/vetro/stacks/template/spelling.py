"""The two spellings of templates: HOT (`resources`, `get_resource`) and CFN (`Resources`, `Ref`).

Both may appear in one template, because fragments of different authors are merged
(core-library.md §9). Everything after this module sees one form: snake-case section keys. The
functions keep their names; `vetro.stacks.template.functions` understands both sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json

SECTIONS = {
    "Resources": "resources",
    "Outputs": "outputs",
    "Parameters": "parameters",
    "Mappings": "mappings",
    "Description": "description",
    "ParameterGroups": "parameter_groups",
    "Conditions": "conditions",
}
RESOURCE_KEYS = {
    "Type": "type",
    "Properties": "properties",
    "DependsOn": "depends_on",
    "Metadata": "metadata",
    "DeletionPolicy": "deletion_policy",
    "UpdatePolicy": "update_policy",
    "Condition": "condition",
}
OUTPUT_KEYS = {"Value": "value", "Description": "description", "Condition": "condition"}
PARAMETER_KEYS = {
    "Type": "type",
    "Default": "default",
    "Description": "description",
    "NoEcho": "hidden",
    "AllowedValues": "AllowedValues",
}


def is_cfn(template: Mapping[str, Json]) -> bool:
    """True for a template written in the CFN spelling as a whole."""
    return any(
        key in template for key in ("AWSTemplateFormatVersion", "HeatTemplateFormatVersion")
    ) or ("Resources" in template and "heat_template_version" not in template)


def normalise(template: Mapping[str, Json]) -> dict[str, Json]:
    """The template with HOT section and entry keys, nulls dropped.

    Both spellings of one section are put together; the same entry in both is merged, HOT
    keys winning. Raises `TemplateError` for a section that is not a map.
    """
    plain = without_nulls(template)
    result = _rename(plain, SECTIONS, "template")
    for section, keys in (
        ("resources", RESOURCE_KEYS),
        ("outputs", OUTPUT_KEYS),
        ("parameters", PARAMETER_KEYS),
    ):
        entries = result.get(section, {})
        if not isinstance(entries, dict):
            raise TemplateError(f"The section {section!r} is not a map")
        renamed: dict[str, Json] = {}
        for name, entry in _items(entries):
            if not isinstance(entry, dict):
                raise TemplateError(f"The entry {name!r} of {section!r} is not a map")
            renamed[name] = _rename(_map(entry), keys, f"{section}.{name}")
        result[section] = renamed
    return result


def without_nulls(value: Json) -> Json:
    """A deep copy without null map values and null list items (core-library.md §9).

    A map or a list that was not empty before but only held nulls stays, empty; a function whose
    only argument is null (`{Ref: null}`) counts as null itself.
    """
    # Most values are texts: nothing is called for them.
    if isinstance(value, dict):
        map_ = _map(value)
        kept = {
            str(key): one if isinstance(one, str) else without_nulls(one)
            for key, one in map_.items()
        }
        if None in kept.values():
            kept = {key: one for key, one in kept.items() if one is not None}
        if not kept and len(map_) == 1 and next(iter(map_)) in ("Ref", "get_resource"):
            return None
        return kept
    if isinstance(value, list | tuple):
        items = [without_nulls(item) for item in _list(value)]
        return [item for item in items if item is not None]
    return without_nulls(dict(_map(value))) if isinstance(value, Mapping) else value


def _rename(entry: dict[str, Json], keys: Mapping[str, str], where: str) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for key, value in entry.items():
        known = keys.get(key, key)
        if known in result:
            result[known] = _merge(result[known], value, key == known, f"{where}.{known}")
        else:
            result[known] = value
    return result


def _merge(old: Any, new: Any, new_wins: bool, where: str) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        result = dict(_items(old))
        for key, value in _items(new):
            result[key] = _merge(result[key], value, new_wins, where) if key in result else value
        return result
    winner: Any = _any(new) if new_wins else _any(old)
    return winner


def _any(value: Any) -> Any:
    return value


def _map(value: Any) -> dict[str, Json]:
    return value


def _list(value: Any) -> list[Json]:
    return value


def _items(value: Any) -> list[tuple[str, Json]]:
    return [(str(key), item) for key, item in value.items()]
