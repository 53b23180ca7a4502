"""What Heat is asked for: the bodies of creations and updates, and what a stack was asked for with before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from vetro.stacks.errors import TemplateError
from vetro.stacks.heat.client import place_of
from vetro.stacks.heat.first_start import files_keeping, keeping
from vetro.stacks.heat.ownership import MARK
from vetro.stacks.heat.written_out import Wanted
from vetro.stacks.model import Json, Stack, WorkOptions, resources_of
from vetro.stacks.template.dependencies import order
from vetro.stacks.template.spelling import without_nulls


def body_of(template: Mapping[str, Json], options: WorkOptions) -> dict[str, Json]:
    """The body of a creation or an update. Errors: `TemplateError`."""
    resources = resources_of(template)
    for name, one in resources.items():
        if not isinstance(one, dict) or not ("type" in one or "Type" in one):
            raise TemplateError("it has no type", resource=name)
    # Heat of some releases answers a circle with 500.
    order({name: _named(one) for name, one in resources.items()})
    body: dict[str, Json] = {
        "template": keeping(without_nulls(dict(template))),
        "parameters": dict(options.get("parameters") or {}),
        "files": files_keeping(options.get("files") or {}),
        "disable_rollback": not options.get("rollback"),
    }
    if environment := options.get("environment"):
        body["environment"] = environment
    body["tags"] = ",".join([*options.get("tags", ()), MARK])
    if (timeout := options.get("timeout")) is not None:
        body["timeout_mins"] = max(1, math.ceil(timeout / 60))
    return body


def _named(value: Json) -> set[str]:
    """The resources that a resource needs."""
    if isinstance(value, list):
        return {name for one in cast("list[Json]", value) for name in _named(one)}
    found: set[str] = set()
    for key, one in cast("dict[str, Json]", value).items() if isinstance(value, dict) else ():
        names: list[Json] = cast("list[Json]", one) if isinstance(one, list) else [one]
        if key in ("depends_on", "DependsOn"):
            found |= {str(name) for name in names}
        elif key in ("get_resource", "Ref", "get_attr", "Fn::GetAtt") and names:
            found.add(str(names[0]))
        else:
            found |= _named(one)
    return found


def is_same(stack: Stack, body: Mapping[str, Json]) -> bool:
    """Whether a stack has been asked for in the same words before."""
    return (
        stack.template == body["template"]
        and stack.parameters == body["parameters"]
        and stack.files == body["files"]
        and stack.environment is None
        and "environment" not in body
        and ",".join([*stack.tags, MARK]) == body["tags"]
    )


def kept(found: Stack) -> Wanted:
    """The template that Heat has kept."""
    return Wanted(found.template, found.parameters, found.files, found.environment)


def wanted_of(body: Mapping[str, Json]) -> Wanted:
    """The template of a request."""
    return Wanted(body["template"], body["parameters"], body["files"], body.get("environment"))


def place_of_stack(found: Stack) -> str:
    """The address of a stack below ``/stacks``."""
    return place_of({"stack_name": found.name, "id": found.id})
