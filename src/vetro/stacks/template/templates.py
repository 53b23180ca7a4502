"""Templates as typed definitions, checked as far as possible without side effects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vetro.documents import DocumentError, read_yaml
from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json
from vetro.stacks.template import balancers
from vetro.stacks.template import dependencies as graph
from vetro.stacks.template.custom_constraints import CustomConstraint, custom_constraints
from vetro.stacks.template.functions import Names, Reference, in_mapping, references, resolve
from vetro.stacks.template.later_functions import PREFIX
from vetro.stacks.template.nesting import Nesting
from vetro.stacks.template.parameters import parameter_values
from vetro.stacks.template.spelling import normalise, without_nulls
from vetro.stacks.template.versions import Conditions, functions_of, mark


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
    requires: frozenset[str] = frozenset()
    """Resources that must exist first."""

    @property
    def needs_attributes(self) -> bool:
        """Whether properties are evaluated with what the compute service reports of resources."""
        return any(one.kind == "attribute" for one in self.references)


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

    order: list[str] = field(default_factory=list[str])
    """Resource names so that each comes after what it requires."""
    constraints: tuple[CustomConstraint, ...] = ()
    """What parameters, also of nested templates, ask of the cloud."""

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
    balancer: tuple[str, str] | None = (balancers.IMAGE, balancers.FLAVOR),
) -> Template:
    """Read a template in either spelling. ``balancer``: image and flavor of load balancers; None: whoever
    makes them makes them whole.

    Raises `TemplateError` (or one of its kinds) naming the resource or output that is wrong:
    no type, a reference to something absent, a circle, a missing parameter.
    """
    given = dict(parameters or {})
    aliases: dict[str, str] = {}
    if environment:
        defaults, aliases = _environment(environment)
        given = {**defaults, **given}
    file_names = frozenset(files or {})
    constraints: list[CustomConstraint] = []

    def prepare(
        text: Mapping[str, Json], known: dict[str, Json], late: frozenset[str]
    ) -> tuple[dict[str, Json], dict[str, Json]]:
        prepared, values = _prepared(text, known, late, file_names)
        constraints.extend(custom_constraints(prepared["parameters"], values))
        return prepared, values

    document, values = prepare(template, given, frozenset())
    document = Nesting(files or {}, aliases, prepare, values).written_out(document)
    if balancer is not None:
        document = balancers.written_out(document, values, *balancer)
    declared: dict[str, dict[str, Json]] = document["parameters"]
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
    return Template(
        resources=resources,
        outputs=outputs,
        parameters=values,
        files=dict(files or {}),
        mappings=dict(names.mappings),
        order=graph.order({name: one.requires for name, one in resources.items()}),
        constraints=tuple(constraints),
    )


def _prepared(
    template: Mapping[str, Json],
    given: dict[str, Json],
    late: frozenset[str],
    files: frozenset[str],
) -> tuple[dict[str, Json], dict[str, Json]]:
    """A document with its spelling, version and conditions settled, and its parameters' values.

    Those in ``late`` have values that are not known yet.
    """
    document = normalise(template)
    version = document.get("heat_template_version")
    known = functions_of(None if version is None else str(version))
    has_calls = bool(known or document.get("conditions"))
    if has_calls:
        marked: dict[str, Json] = {key: document.get(key) or {} for key in _WITH_CALLS}
        document = {**document, **mark(marked, known)}
    declared: dict[str, dict[str, Json]] = document["parameters"]
    strange = sorted(late - set(declared))
    if strange:
        raise TemplateError(f"The template has no parameter {strange[0]!r}")
    now = {name: one for name, one in declared.items() if name not in late}
    values = parameter_values(now, given)
    return _decided(document, values, files, has_calls), values


_WITH_CALLS = ("resources", "outputs", "conditions")


def _decided(
    document: dict[str, Json],
    parameters: Mapping[str, Json],
    files: frozenset[str],
    has_calls: bool,
) -> dict[str, Json]:
    """The document without the resources and outputs whose conditions do not hold.

    With `has_calls`, functions of later versions are marked in it: `if` may be among them.
    """
    if not _is_conditional(document, has_calls):
        return document
    section: Json = document.get("conditions") or {}
    if not isinstance(section, dict):
        raise TemplateError("The section 'conditions' is not a map")
    names = Names(frozenset(), frozenset(parameters), files, document.get("mappings") or {})
    context = _ParametersOnly(parameters, document.get("mappings") or {})

    def value(condition: Json) -> Json:
        tuple(references(condition, names))
        return resolve(condition, context)

    conditions = Conditions(dict(_any(section)), value)
    conditions.check()

    def holds(kind: str, name: str, body: dict[str, Json]) -> bool:
        if "condition" not in body:
            return True
        try:
            return conditions.holds(body["condition"])
        except TemplateError as error:
            raise TemplateError(f"{kind} {name!r}: {error}") from error

    resources: dict[str, dict[str, Json]] = document["resources"]
    outputs: dict[str, dict[str, Json]] = document["outputs"]
    kept = {name: one for name, one in resources.items() if holds("Resource", name, one)}
    gone = frozenset(resources) - frozenset(kept)
    result = dict(document)
    result["resources"] = {
        name: _without_gone(without_nulls(conditions.chosen(one, gone)), gone)
        for name, one in kept.items()
    }
    result["outputs"] = {
        name: without_nulls(conditions.chosen(one, gone))
        for name, one in outputs.items()
        if holds("Output", name, one)
    }
    return result


def _is_conditional(document: Mapping[str, Json], has_calls: bool) -> bool:
    """Whether anything in the document depends on a condition: most documents do not."""
    bodies: list[dict[str, Json]] = [*document["resources"].values(), *document["outputs"].values()]
    return (
        bool(document.get("conditions"))
        or any("condition" in body for body in bodies)
        or (has_calls and any(_chooses(body) for body in bodies))
    )


def _chooses(value: Json) -> bool:
    if isinstance(value, dict):
        entries: dict[str, Json] = _any(value)
        return PREFIX + "if" in entries or any(_chooses(one) for one in entries.values())
    return isinstance(value, list) and any(_chooses(one) for one in list[Json](_any(value)))


def _without_gone(body: dict[str, Json], gone: frozenset[str]) -> dict[str, Json]:
    """A resource without dependencies on resources that are not made."""
    depends = body.get("depends_on")
    if not gone or depends is None:
        return body
    listed: list[Json] = [depends] if isinstance(depends, str) else list(_any(depends))
    return {**body, "depends_on": [one for one in listed if one not in gone]}


class _ParametersOnly:
    """What conditions are evaluated against: there are no resources yet."""

    def __init__(self, parameters: Mapping[str, Json], mappings: Mapping[str, Json]) -> None:
        self._parameters = parameters
        self._mappings = mappings

    def parameter(self, name: str) -> Json:
        if name not in self._parameters:
            raise TemplateError(f"a condition cannot use the parameter {name!r}")
        return self._parameters[name]

    def reference_id(self, resource: str) -> Json:
        raise KeyError(resource)

    def attribute(self, resource: str, name: str) -> Json:
        raise TemplateError("a condition cannot use the attribute of a resource")

    def file(self, name: str) -> str:
        raise TemplateError("a condition cannot use a file")

    def mapping(self, name: str, first: str, second: str) -> Json:
        return in_mapping(self._mappings, name, first, second)


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
    used = {one.name for one in found if one.kind in ("resource", "attribute")}
    return ResourceDefinition(
        name=name,
        type=aliases.get(kind, kind),
        properties=_any(properties),
        depends_on=tuple(depends_on),
        metadata=body.get("metadata"),
        retain=str(body.get("deletion_policy", "")).lower() == "retain",
        references=found,
        requires=frozenset(used.union(depends_on)),
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
