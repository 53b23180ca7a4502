"""Templates as typed definitions, checked as far as possible without side effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vetro.documents import DocumentError, read_yaml
from vetro.stacks.errors import TemplateError
from vetro.stacks.template import dependencies as graph
from vetro.stacks.template.functions import Names, Reference, references
from vetro.stacks.template.parameters import parameter_values
from vetro.stacks.template.spelling import normalise

Json = Any

HOT_VERSIONS = frozenset({"2013-05-23"})


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """One resource as a template declares it; its properties may contain functions."""

    name: str
    type: str
    properties: dict[str, Json]
    depends_on: tuple[str, ...] = ()
    metadata: Json = None
    retain: bool = False
    """The deletion policy is `Retain`: forgotten, not removed."""
    references: tuple[Reference, ...] = ()

    @property
    def requires(self) -> frozenset[str]:
        """Resources that must exist first."""
        used = {ref.name for ref in self.references if ref.kind in ("resource", "attribute")}
        return frozenset(used.union(self.depends_on))


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """One output; `value` may contain functions."""

    name: str
    value: Json
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A template whose parameters are bound and whose references are known to exist."""

    resources: dict[str, ResourceDefinition]
    outputs: dict[str, OutputDefinition]
    parameters: dict[str, Json]
    files: dict[str, str] = field(default_factory=dict[str, str])
    mappings: dict[str, Json] = field(default_factory=dict[str, Json])

    @property
    def order(self) -> list[str]:
        """Resource names so that each comes after what it requires."""
        return graph.order(self.requires)

    @property
    def requires(self) -> dict[str, frozenset[str]]:
        """The dependency graph."""
        return {name: one.requires for name, one in self.resources.items()}


def parse(
    template: Mapping[str, Json],
    *,
    parameters: Mapping[str, Json] | None = None,
    files: Mapping[str, str] | None = None,
    environment: str | None = None,
) -> Template:
    """Read a template in either spelling.

    Raises `TemplateError` (or one of its kinds) naming the resource or output that is wrong:
    no type, a reference to something absent, a circle, a missing parameter.
    """
    given = dict(parameters or {})
    aliases: dict[str, str] = {}
    if environment:
        defaults, aliases = _environment(environment)
        given = {**defaults, **given}
    document = normalise(template)
    version = document.get("heat_template_version")
    if version is not None and str(version) not in HOT_VERSIONS:
        raise TemplateError("Currently only heat_template_version 2013-05-23 is supported.")
    declared: dict[str, dict[str, Json]] = document["parameters"]
    values = parameter_values(declared, given)
    names = Names(
        resources=frozenset(document["resources"]),
        parameters=frozenset(declared),
        files=frozenset(files or {}),
        mappings=document.get("mappings") or {},
    )
    resources = {
        name: _resource(name, body, names, aliases) for name, body in document["resources"].items()
    }
    outputs = {name: _output(name, body, names) for name, body in document["outputs"].items()}
    parsed = Template(
        resources=resources,
        outputs=outputs,
        parameters=values,
        files=dict(files or {}),
        mappings=dict(names.mappings),
    )
    graph.order(parsed.requires)
    return parsed


def _environment(text: str) -> tuple[dict[str, Json], dict[str, str]]:
    """Parameters and type aliases of a HOT environment document."""
    try:
        document: Any = read_yaml(text) or {}
    except DocumentError as error:
        raise TemplateError(f"The environment cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise TemplateError("The environment is not a map")
    sections: dict[str, Json] = dict(_any(document))
    for name in ("parameter_defaults", "parameters", "resource_registry"):
        if not isinstance(sections.get(name) or {}, dict):
            raise TemplateError(f"{name} of the environment is not a map")
    parameters: dict[str, Json] = {
        **(sections.get("parameter_defaults") or {}),
        **(sections.get("parameters") or {}),
    }
    registry: dict[str, Json] = sections.get("resource_registry") or {}
    return parameters, {
        alias: target for alias, target in registry.items() if isinstance(target, str)
    }


def _resource(
    name: str, body: dict[str, Json], names: Names, aliases: Mapping[str, str]
) -> ResourceDefinition:
    kind = body.get("type")
    if not isinstance(kind, str) or not kind:
        raise TemplateError("it has no type", resource=name)
    properties = body.get("properties", {})
    if not isinstance(properties, dict):
        raise TemplateError("its properties are not a map", resource=name)
    depends = body.get("depends_on", [])
    depends_on: list[Json] = [depends] if isinstance(depends, str) else list(_any(depends))
    for other in depends_on:
        if other not in names.resources:
            raise TemplateError(f"it depends on {other!r}, which does not exist", resource=name)
    try:
        found = tuple(references(properties, names)) + tuple(
            references(body.get("metadata"), names)
        )
    except TemplateError as error:
        raise type(error)(str(error), resource=name) from error
    return ResourceDefinition(
        name=name,
        type=aliases.get(kind, kind),
        properties=_any(properties),
        depends_on=tuple(depends_on),
        metadata=body.get("metadata"),
        retain=str(body.get("deletion_policy", "")).lower() == "retain",
        references=found,
    )


def _output(name: str, body: dict[str, Json], names: Names) -> OutputDefinition:
    if "value" not in body:
        return OutputDefinition(name, None)
    try:
        found = tuple(references(body["value"], names))
    except TemplateError as error:
        raise type(error)(f"Output {name!r}: {error}") from error
    return OutputDefinition(name, body["value"], found)


def _any(value: Any) -> Any:
    return value
