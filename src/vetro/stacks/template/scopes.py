"""A nested template in its place: its names, parameters and values as the outer template writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from vetro.stacks.errors import TemplateError, UnresolvedReference
from vetro.stacks.model import Json
from vetro.stacks.template.functions import FOLLOW, PSEUDO_PARAMETERS, follow, function_of


@dataclass(frozen=True)
class Scope:
    """A nested template in its place: the names of its resources, and its parameters' values."""

    names: Mapping[str, str]
    parameters: Mapping[str, Json]
    facade: Mapping[str, Json]
    mappings: Mapping[str, Json]

    def moved(self, value: Json) -> Json:
        """A value of the nested template as the outer one has to write it."""
        call = function_of(value)
        if call is not None:
            name, argument = call
            if name == "get_input":
                return value
            if name in ("get_resource", "Ref") and argument in self.names:
                return {"get_resource": self.names[argument]}
            if name == "get_param" or (name == "Ref" and argument not in PSEUDO_PARAMETERS):
                return self._parameter(name, argument)
            if name in ("get_attr", "Fn::GetAtt"):
                steps: list[Json] = (
                    argument.split(".", 1) if isinstance(argument, str) else listed(argument)
                )
                if not steps or steps[0] not in self.names:
                    raise UnresolvedReference(
                        f"{name}: the nested template has no resource {steps[:1]}"
                    )
                rest = [self.moved(one) for one in steps[1:]]
                return {"get_attr": [self.names[str(steps[0])], *rest]}
            if name in ("resource_facade", "Fn::ResourceFacade"):
                return self._facade(argument)
            if name == "Fn::FindInMap":
                keys = [self.moved(one) for one in listed(argument)]
                found = (
                    follow(dict(self.mappings), keys)
                    if all(isinstance(one, str | int) for one in keys)
                    else None
                )
                if found is None:
                    raise TemplateError(f"Fn::FindInMap: the nested template has no {keys}")
                return found
        if isinstance(value, dict):
            return {key: self.moved(one) for key, one in entries(value).items() if one is not None}
        if isinstance(value, list):
            return [self.moved(one) for one in listed(value)]
        return value

    def _parameter(self, function: str, argument: Json) -> Json:
        name, *steps = listed(argument)
        if name in PSEUDO_PARAMETERS:
            return {function: argument}
        if name not in self.parameters:
            raise UnresolvedReference(f"{function}: the nested template has no parameter {name!r}")
        return followed(self.parameters[name], [self.moved(one) for one in steps])

    def _facade(self, argument: Json) -> Json:
        if argument in ("deletion_policy", "DeletionPolicy"):
            return self.facade.get("deletion_policy", "Delete")
        if argument in ("metadata", "Metadata"):
            return self.facade.get("metadata") or {}
        if argument in ("update_policy", "UpdatePolicy"):
            return self.facade.get("update_policy") or {}
        raise TemplateError(
            "resource_facade takes one of metadata, deletion_policy, update_policy,"
            f" not {argument!r}"
        )


def followed(value: Json, path: list[Json]) -> Json:
    """A value and the way into it: at once where that is possible."""
    if not path:
        return value
    call = function_of(value)
    if call is not None and call[0] == "get_attr" and isinstance(call[1], list):
        return {"get_attr": [*listed(call[1]), *path]}
    return {FOLLOW: [value, *path]}


def entries(value: Any) -> dict[str, Json]:
    """A map of a template."""
    return dict(value)


def listed(value: Any) -> list[Json]:
    """A list of a template; one that is left out is empty, another value is its only item."""
    if value is None:
        return []
    return list(cast("list[Json]", value)) if isinstance(value, list | tuple) else [value]
