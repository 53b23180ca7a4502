"""Groups of resources and nested templates: written out into the one template that contains them.

`web` of the type `OS::Heat::ResourceGroup` becomes `web.0`, `web.1` …; a nested template's resource `db`
in `app` becomes `app.db`. Parameters of the nested template are replaced by what is given for them,
attributes of the group or of the nested template by what they stand for. So planning, order, changes
and removal know nothing of nesting: there is one graph.

What this asks for is known when the template is validated: the number of members, and the parameters
that conditions of a nested template use, cannot be attributes of resources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vetro.digits import is_number
from vetro.documents import DocumentError, read_yaml
from vetro.stacks.errors import InvalidProperty, TemplateError, UnresolvedReference
from vetro.stacks.model import Json
from vetro.stacks.template.functions import (
    Names,
    function_of,
    references,
    resolve,
)
from vetro.stacks.template.scopes import Scope, entries, followed, listed

GROUP = "OS::Heat::ResourceGroup"
STACK = "OS::Heat::Stack"
AWS_STACK = "AWS::CloudFormation::Stack"
NESTED_TYPES = (GROUP, STACK, AWS_STACK)
DEEPEST = 5
MOST_MEMBERS = 1_000
MOST_RESOURCES = 10_000
"""Resources, groups and nested templates of a template, written out."""
MOST_TEXT = 2**26
"""Characters that the members of groups have together, where their index is written into texts."""
_LONGEST_NAME = 255
_ENDINGS = (".yaml", ".yml", ".template", ".json")
_GROUP_PROPERTIES = frozenset(
    {"count", "index_var", "resource_def", "removal_policies", "removal_policies_mode"}
)
_STACK_PROPERTIES = frozenset({"template", "parameters", "timeout"})
_AWS_PROPERTIES = frozenset({"TemplateURL", "Parameters", "TimeoutInMinutes"})

Prepare = Callable[
    [Mapping[str, Json], dict[str, Json], frozenset[str]], tuple[dict[str, Json], dict[str, Json]]
]
"""A template, what is given for its parameters, and those whose values are not known yet; gives the
document (spelling, versions and conditions are settled) and the values of the other parameters."""


@dataclass
class _Group:
    """A group: its members in order, by index."""

    name: str
    members: dict[str, str]


@dataclass
class _Nested:
    """A nested template: its outputs, and whether they are attributes by their own names."""

    name: str
    outputs: dict[str, Json]
    resources: dict[str, str]
    outputs_at: str = ""


@dataclass
class Nesting:
    """Writes the nested parts of a document out."""

    files: Mapping[str, str]
    aliases: Mapping[str, str]
    prepare: Prepare
    parameters: Mapping[str, Json]
    made: dict[str, Json] = field(default_factory=dict[str, Json])
    parts: dict[str, _Group | _Nested] = field(default_factory=dict[str, _Group | _Nested])
    written: int = 0
    """Characters of texts that an index was written into."""

    def written_out(self, document: dict[str, Json]) -> dict[str, Json]:
        """The document without groups and nested templates. Raises `TemplateError`."""
        if not any(self._is_nested(body) for body in entries(document["resources"]).values()):
            return document
        resources = entries(document["resources"])
        for name, body in resources.items():
            self._add(name, entries(body), 0)
        try:
            resources = {name: self._body(body) for name, body in self.made.items()}
            outputs = {
                name: self._joined(body) for name, body in entries(document["outputs"]).items()
            }
        except RecursionError:
            raise TemplateError(
                "Attributes of groups or nested templates refer to each other in a circle"
            ) from None
        return {**document, "resources": resources, "outputs": outputs}

    def _body(self, body: Json) -> dict[str, Json]:
        joined = {key: self._joined(one) for key, one in entries(body).items()}
        if "depends_on" in joined:
            named = [str(one) for one in listed(joined["depends_on"])]
            joined["depends_on"] = [one for name in named for one in self._all_of(name)]
        return joined

    def _is_nested(self, body: Json) -> bool:
        kind = self._kind(entries(body))
        return kind in NESTED_TYPES or kind.endswith(_ENDINGS)

    def _kind(self, body: Mapping[str, Json]) -> str:
        given = body.get("type")
        return self.aliases.get(given, given) if isinstance(given, str) else ""

    # --- down: what a resource stands for -------------------------------------------------

    def _add(self, name: str, body: dict[str, Json], depth: int) -> None:
        if len(name) > _LONGEST_NAME:
            raise TemplateError(f"its name has more than {_LONGEST_NAME} characters", resource=name)
        if name in self.made or name in self.parts:
            raise TemplateError("a group or a nested template has this name too", resource=name)
        # Parts count as well: groups of empty groups have no resources.
        if len(self.made) + len(self.parts) >= MOST_RESOURCES:
            raise TemplateError(f"The template has more than {MOST_RESOURCES} resources")
        if not self._is_nested(body):
            self.made[name] = body
            return
        if depth >= DEEPEST:
            raise TemplateError(
                f"templates are nested more than {DEEPEST} deep; does one contain itself?",
                resource=name,
            )
        properties: Json = body.get("properties") or {}
        if not isinstance(properties, dict):
            raise TemplateError("its properties are not a map", resource=name)
        kind, given = self._kind(body), entries(properties)
        if kind == GROUP:
            self._add_group(name, body, given, depth)
        elif kind == STACK:
            _known(name, kind, given, _STACK_PROPERTIES)
            values = given.get("parameters")
            self._add_nested(name, body, given.get("template"), values, depth, "outputs")
        elif kind == AWS_STACK:
            _known(name, kind, given, _AWS_PROPERTIES)
            text = self._file(name, given.get("TemplateURL"))
            self._add_nested(name, body, text, given.get("Parameters"), depth, "Outputs")
        else:
            self._add_nested(name, body, self._file(name, kind), given, depth)

    def _add_group(
        self, name: str, body: dict[str, Json], given: dict[str, Json], depth: int
    ) -> None:
        _known(name, GROUP, given, _GROUP_PROPERTIES)
        count = self._static(name, "count", given.get("count", 1))
        if isinstance(count, bool) or not is_number(str(count)) or int(count) > MOST_MEMBERS:
            raise InvalidProperty(
                f"the property 'count' is from 0 to {MOST_MEMBERS}, not {count!r}", resource=name
            )
        wanted = given.get("resource_def")
        if not isinstance(wanted, dict) or "type" not in wanted:
            raise InvalidProperty("the property 'resource_def' needs a type", resource=name)
        policies = self._static(name, "removal_policies", given.get("removal_policies", []))
        removed = _removed(name, policies)
        marker = str(given.get("index_var", "%index%"))
        if not marker:
            raise InvalidProperty("the property 'index_var' is empty", resource=name)
        members: dict[str, str] = {}
        index = 0
        while len(members) < int(count):
            if str(index) not in removed:
                members[str(index)] = f"{name}.{index}"
            index += 1
        self.parts[name] = _Group(name, members)
        around = {key: body[key] for key in ("depends_on", "deletion_policy") if key in body}
        for number, member in members.items():
            numbered = entries(self._numbered(wanted, marker, number))
            self._add(member, {**around, **numbered}, depth + 1)

    def _numbered(self, value: Json, marker: str, number: str) -> Json:
        """A member's definition: its index stands where the marker does."""
        if isinstance(value, str) and marker in value:
            # Counted before it is written: one text may have the marker a million times.
            self.written += len(value) + value.count(marker) * len(number)
            if self.written > MOST_TEXT:
                raise TemplateError(
                    f"The members of its groups have more than {MOST_TEXT} characters of text"
                )
            return value.replace(marker, number)
        if isinstance(value, dict):
            return {k: self._numbered(one, marker, number) for k, one in entries(value).items()}
        if isinstance(value, list):
            return [self._numbered(one, marker, number) for one in listed(value)]
        return value

    def _add_nested(
        self,
        name: str,
        body: dict[str, Json],
        template: Json,
        given: Json,
        depth: int,
        outputs_at: str = "",
    ) -> None:
        template = self._static(name, "template", template)
        if isinstance(template, str):
            try:
                template = read_yaml(template)
            except DocumentError as error:
                raise TemplateError(
                    f"its template cannot be read: {error}", resource=name
                ) from error
        if not isinstance(template, dict):
            raise TemplateError("its template is not a map", resource=name)
        values = entries(given or {})
        known = {
            key: self._value(value) for key, value in values.items() if not self._is_late(value)
        }
        late = frozenset(values) - frozenset(known)
        try:
            document, bound = self.prepare(entries(template), known, late)
        except TemplateError as error:
            raise type(error)(f"its template: {error}", resource=name) from error
        inner = entries(document["resources"])
        names = {one: f"{name}.{one}" for one in inner}
        scope = Scope(
            names,
            {**bound, **{key: values[key] for key in late}},
            body,
            document.get("mappings") or {},
        )
        outputs = {
            one: scope.moved(entries(entry).get("value"))
            for one, entry in entries(document["outputs"]).items()
        }
        self.parts[name] = _Nested(name, outputs, names, outputs_at)
        outer = listed(body.get("depends_on"))
        for one, entry in inner.items():
            moved = entries(scope.moved({**entries(entry), "depends_on": None}))
            own = [
                names.get(str(other), str(other))
                for other in listed(entries(entry).get("depends_on"))
            ]
            moved["depends_on"] = [*outer, *own]
            if "deletion_policy" in body:
                moved.setdefault("deletion_policy", body["deletion_policy"])
            self._add(names[one], moved, depth + 1)

    def _file(self, name: str, file: Json) -> str:
        if not isinstance(file, str) or file not in self.files:
            raise UnresolvedReference(f"there is no file {file!r} with the template", resource=name)
        return self.files[file]

    def _static(self, name: str, key: str, value: Json) -> Json:
        if self._is_late(value):
            raise InvalidProperty(
                f"the property {key!r} must be known when the template is validated: it cannot"
                " depend on a resource",
                resource=name,
            )
        return self._value(value)

    def _value(self, value: Json) -> Json:
        """A value that depends on no resource."""
        names = Names(frozenset(), frozenset(self.parameters), frozenset(self.files))
        tuple(references(value, names))
        return resolve(value, _Static(self.parameters, self.files))

    def _is_late(self, value: Json) -> bool:
        """Whether a value depends on a resource, or on the stack that is being made."""
        call = function_of(value)
        if call is not None:
            name, argument = call
            if name in ("get_resource", "get_attr", "Fn::GetAtt"):
                return True
            if name in ("Ref", "get_param") and isinstance(argument, str):
                return argument not in self.parameters
        if isinstance(value, dict):
            return any(self._is_late(one) for one in entries(value).values())
        return isinstance(value, list) and any(self._is_late(one) for one in listed(value))

    # --- up: what is said of groups and nested templates ---------------------------------

    def _joined(self, value: Json) -> Json:
        """A value in which groups and nested templates are replaced by what they stand for."""
        call = function_of(value)
        if call is not None:
            name, argument = call
            if name in ("get_resource", "Ref") and argument in self.parts:
                return self._joined(self._reference(str(argument)))
            if name in ("get_attr", "Fn::GetAtt"):
                steps: list[Json] = (
                    argument.split(".", 1) if isinstance(argument, str) else listed(argument)
                )
                if steps and steps[0] in self.parts:
                    return self._joined(self._attribute(str(steps[0]), steps[1:]))
        if isinstance(value, dict):
            return {key: self._joined(one) for key, one in entries(value).items()}
        if isinstance(value, list):
            return [self._joined(one) for one in listed(value)]
        return value

    def _all_of(self, name: str) -> list[str]:
        part = self.parts.get(name)
        if part is None:
            return [name]
        inside = part.members if isinstance(part, _Group) else part.resources
        return [one for member in inside.values() for one in self._all_of(member)]

    def _reference(self, name: str) -> Json:
        part = self.parts[name]
        if isinstance(part, _Nested) and "OS::stack_id" in part.outputs:
            return part.outputs["OS::stack_id"]
        return {"list_join": ["-", [{"get_param": "OS::stack_name"}, name]]}

    def _attribute(self, name: str, path: list[Json]) -> Json:
        part = self.parts[name]
        if not path or not isinstance(path[0], str):
            path = ["show", *path]
        first, rest = str(path[0]), path[1:]
        inside = part.members if isinstance(part, _Group) else part.resources
        if first.startswith("resource."):
            return self._of_resource(name, inside, first.removeprefix("resource."), rest)
        if isinstance(part, _Group):
            return self._of_group(part, first, rest)
        if part.outputs_at and first != part.outputs_at:
            prefix = f"{part.outputs_at}."
            if not first.startswith(prefix):
                if first == "stack_name":
                    return self._reference(name)
                raise UnresolvedReference(
                    f"a nested stack has no attribute {first!r}; it has: {part.outputs_at}",
                    resource=name,
                )
            first = first.removeprefix(prefix)
        elif part.outputs_at:
            if not rest:
                return dict(part.outputs)
            first, rest = str(rest[0]), rest[1:]
        elif first == "show":
            return dict(part.outputs)
        if first not in part.outputs:
            known = ", ".join(sorted(part.outputs)) or "none"
            raise UnresolvedReference(
                f"the nested template has no output {first!r}; it has: {known}", resource=name
            )
        return followed(part.outputs[first], rest)

    def _of_resource(
        self, name: str, inside: Mapping[str, str], address: str, rest: list[Json]
    ) -> Json:
        """`resource.NAME` or `resource.NAME.ATTRIBUTE`."""
        index, _, attribute = address.partition(".")
        if index not in inside:
            raise UnresolvedReference(
                f"there is no resource {index!r} in it; there are: {', '.join(inside) or 'none'}",
                resource=name,
            )
        if not attribute and not rest:
            return {"get_resource": inside[index]}
        return {"get_attr": [inside[index], *([attribute] if attribute else []), *rest]}

    def _of_group(self, part: _Group, first: str, rest: list[Json]) -> Json:
        if first == "refs":
            return followed([{"get_resource": one} for one in part.members.values()], rest)
        if first == "refs_map":
            known: dict[str, Json] = {i: {"get_resource": one} for i, one in part.members.items()}
            return followed(known, rest)
        if first == "attributes":
            if not rest:
                raise UnresolvedReference(
                    "'attributes' of a group needs the name of an attribute", resource=part.name
                )
            return {i: {"get_attr": [one, *rest]} for i, one in part.members.items()}
        return [{"get_attr": [one, first, *rest]} for one in part.members.values()]


class _Static:
    """What values are evaluated against that depend on no resource."""

    def __init__(self, parameters: Mapping[str, Json], files: Mapping[str, str]) -> None:
        self._parameters, self._files = parameters, files

    def parameter(self, name: str) -> Json:
        if name not in self._parameters:
            raise TemplateError(
                f"the parameter {name!r} is not known when the template is validated"
            )
        return self._parameters[name]

    def reference_id(self, resource: str) -> Json:
        raise KeyError(resource)

    def attribute(self, resource: str, name: str) -> Json:
        raise TemplateError("attributes are not known when the template is validated")

    def file(self, name: str) -> str:
        return self._files[name]

    def mapping(self, name: str, first: str, second: str) -> Json:
        raise TemplateError("Fn::FindInMap cannot be used here")


def _known(name: str, kind: str, given: Mapping[str, Json], properties: frozenset[str]) -> None:
    for key in given:
        if key not in properties:
            raise InvalidProperty(
                f"{kind} has no property {key!r}; it has: {', '.join(sorted(properties))}",
                resource=name,
            )


def _removed(name: str, policies: Json) -> set[str]:
    """Indices that are given up, of `[{resource_list: [index or name of a member]}]`."""
    removed: set[str] = set()
    for policy in listed(policies):
        names = entries(policy).get("resource_list") if isinstance(policy, dict) else policy
        removed |= {str(one).removeprefix(f"{name}.") for one in listed(names)}
    return removed
