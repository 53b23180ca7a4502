"""User data on Heat: a machine reads it at its first start, so a change of it keeps the machine.

Heat replaces a server whose user data differ, unless the server says ``user_data_update_policy: IGNORE``.
Heat looks at the new template for that: so it holds for servers of earlier releases as well. A template
that gives a policy itself is left as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import cast

from vetro.documents import DocumentError, read_yaml
from vetro.stacks.model import Json

SERVER = "OS::Nova::Server"
POLICY = "user_data_update_policy"
_KEEP = "IGNORE"
_VERSIONS = ("heat_template_version", "HeatTemplateFormatVersion", "AWSTemplateFormatVersion")


def keeping(template: Mapping[str, Json]) -> dict[str, Json]:
    """A template whose servers keep their machines when their user data change; also those of groups."""

    def kept(properties: Mapping[str, Json]) -> Mapping[str, Json]:
        return properties if POLICY in properties else {**properties, POLICY: _KEEP}

    return cast("dict[str, Json]", _each(dict(template), kept))


def as_given(template: Mapping[str, Json]) -> dict[str, Json]:
    """A template of Heat's as `keeping` got it."""

    def plain(properties: Mapping[str, Json]) -> Mapping[str, Json]:
        if properties.get(POLICY) != _KEEP:
            return properties
        return {key: one for key, one in properties.items() if key != POLICY}

    return cast("dict[str, Json]", _each(dict(template), plain))


def files_keeping(files: Mapping[str, str]) -> dict[str, str]:
    """Files, the nested templates among them as `keeping` has them. Others are the same to the letter."""
    return {name: _file_keeping(text) for name, text in files.items()}


def _file_keeping(text: str) -> str:
    # Most files are scripts, which nobody reads here.
    if SERVER not in text or not any(one in text for one in _VERSIONS):
        return text
    try:
        found: Json = read_yaml(text)
    except DocumentError:
        return text
    if not isinstance(found, dict) or not any(one in found for one in _VERSIONS):
        return text
    template = cast("dict[str, Json]", found)
    kept = keeping(template)
    return text if kept == template else json.dumps(kept)


def _each(value: Json, change: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Json:
    """A value in which the properties of every definition of a server are changed."""
    if isinstance(value, list):
        return [_each(one, change) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    entries = {key: _each(one, change) for key, one in cast("dict[str, Json]", value).items()}
    for kind, key in (("type", "properties"), ("Type", "Properties")):
        properties: Json = entries.get(key)
        if entries.get(kind) == SERVER and isinstance(properties, dict):
            entries[key] = dict(change(cast("dict[str, Json]", properties)))
    return entries
