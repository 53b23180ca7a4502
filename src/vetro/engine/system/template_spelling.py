"""Two spellings of templates in one environment (core-library.md §9).

Packages of the first release write CloudFormation keys (``Resources``, ``Ref``), later ones HOT
keys (``resources``, ``get_resource``). A fragment is converted to the spelling of the template that
it is merged into, so that it updates the same resources and lists do not get the same item twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from vetro.json_values import Json

SECTIONS = {
    "Resources": "resources",
    "Outputs": "outputs",
    "Parameters": "parameters",
    "Mappings": "mappings",
    "Description": "description",
}
RESOURCE_KEYS = {
    "Type": "type",
    "Properties": "properties",
    "DependsOn": "depends_on",
    "Metadata": "metadata",
    "DeletionPolicy": "deletion_policy",
    "UpdatePolicy": "update_policy",
}
OUTPUT_KEYS = {"Value": "value", "Description": "description"}
PARAMETER_KEYS = {"Type": "type", "Default": "default", "Description": "description"}
FUNCTIONS = {"Ref": "get_resource", "Fn::GetAtt": "get_attr"}


def is_cfn(template: Mapping[str, Json]) -> bool:
    """Whether a template is in CloudFormation's spelling: by its version, else its sections."""
    if "heat_template_version" in template:
        return False
    if "AWSTemplateFormatVersion" in template or "HeatTemplateFormatVersion" in template:
        return True
    return any(key in template for key in ("Resources", "Outputs", "Parameters")) and not any(
        key in template for key in ("resources", "outputs", "parameters")
    )


def section(template: Mapping[str, Json], name: str) -> dict[str, Json]:
    """A section (HOT name) in either spelling; empty when there is none."""
    for key in (name, name.capitalize()):
        body = template.get(key)
        if isinstance(body, dict):
            return cast("dict[str, Json]", body)
    return {}


def respell(fragment: Mapping[str, Json], like: Mapping[str, Json]) -> dict[str, Json]:
    """``fragment`` in the spelling of the template ``like``; unchanged when that is empty."""
    cfn = is_cfn(like) if any(key in like for key in _MARKS) else is_cfn(fragment)
    parameters = {*section(like, "parameters"), *section(fragment, "parameters")}
    spelling = _Spelling(cfn, frozenset(parameters))
    return spelling.template(fragment)


_MARKS = (
    *SECTIONS,
    *SECTIONS.values(),
    "heat_template_version",
    "AWSTemplateFormatVersion",
    "HeatTemplateFormatVersion",
)


class _Spelling:
    """One of the two spellings, and the names that are parameters, not resources."""

    def __init__(self, cfn: bool, parameters: frozenset[str]) -> None:
        self.cfn = cfn
        self.parameters = parameters

    def template(self, fragment: Mapping[str, Json]) -> dict[str, Json]:
        renamed = self._rename(fragment, SECTIONS)
        for name, keys in (
            ("resources", RESOURCE_KEYS),
            ("outputs", OUTPUT_KEYS),
            ("parameters", PARAMETER_KEYS),
        ):
            key = name.capitalize() if self.cfn else name
            body = renamed.get(key)
            if isinstance(body, dict):
                entries = cast("dict[str, Json]", body)
                renamed[key] = {entry: self._entry(value, keys) for entry, value in entries.items()}
        return renamed

    def _entry(self, value: Json, keys: Mapping[str, str]) -> Json:
        if not isinstance(value, dict):
            return value
        renamed = self._rename(cast("dict[str, Json]", value), keys)
        return {key: self._functions(item) for key, item in renamed.items()}

    def _rename(self, body: Mapping[str, Json], keys: Mapping[str, str]) -> dict[str, Json]:
        wanted = {hot: cfn for cfn, hot in keys.items()} if self.cfn else keys
        result: dict[str, Json] = {}
        for key, value in body.items():
            name = wanted.get(key, key)
            old = result.get(name)
            if isinstance(old, dict) and isinstance(value, dict):
                # The fragment had this section in both spellings.
                joined = {**cast("dict[str, Json]", old), **cast("dict[str, Json]", value)}
                result[name] = joined
            else:
                result[name] = value
        return result

    def _functions(self, value: Json) -> Json:
        if isinstance(value, list):
            return [self._functions(item) for item in cast("list[Json]", value)]
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, Json]", value)
        if len(given) == 1:
            ((name, argument),) = given.items()
            respelled = self._function(name, argument)
            if respelled is not None:
                return respelled
        return {key: self._functions(item) for key, item in given.items()}

    def _function(self, name: str, argument: Json) -> dict[str, Json] | None:
        if not self.cfn and name == "Ref":
            is_resource = (
                isinstance(argument, str)
                and argument not in self.parameters
                and not argument.startswith("AWS::")
            )
            return {"get_resource": argument} if is_resource else None
        if self.cfn and name == "get_resource":
            return {"Ref": argument}
        if isinstance(argument, list):
            steps = cast("list[Json]", argument)
            if not self.cfn and name == "Fn::GetAtt":
                return {"get_attr": steps}
            # A path of more steps cannot be written in the other spelling; back ends know both.
            if self.cfn and name == "get_attr" and len(steps) == 2:
                return {"Fn::GetAtt": steps}
        return None
