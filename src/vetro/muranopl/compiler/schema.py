"""JSON schemas of classes and of methods that build models (muranopl.md section 19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from vetro.muranopl.classes.types import Argument, Method, MuranoType, Property
from vetro.muranopl.contracts.chains import (
    AsBool,
    AsInt,
    AsString,
    AsTemplate,
    Chain,
    Check,
    NotNull,
    OfClass,
    Owned,
)
from vetro.muranopl.contracts.plan import build_contract
from vetro.muranopl.contracts.tree import Anything, Constant, Contract, ListOf, MapOf
from vetro.muranopl.runtime.inline_caches import named_type
from vetro.muranopl.runtime.metadata import constant_values, items_of
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax.blocks import constant_value, is_constant
from vetro.muranopl.threads.effects import Json
from vetro.muranopl.values.containers import thaw
from vetro.muranopl.values.errors import DslSyntaxError, MuranoError
from vetro.yaql import ast

from .classscope import ClassScope

DRAFT = "http://json-schema.org/draft-04/schema#"
_META = "io.murano.metadata."


def class_schemas(type_: MuranoType, methods: str | Sequence[str] | None) -> dict[str, Json]:
    """Schemas by model builder; key "" is the class itself. Unknown names are left out."""
    builders = _builders(type_)
    names = (
        ["", *builders] if methods is None else [methods] if isinstance(methods, str) else methods
    )
    result: dict[str, Json] = {}
    for name in names:
        if name == "":
            result[name] = _class_schema(type_)
        elif name in builders:
            try:
                result[name] = _method_schema(type_, builders[name])
            except DslSyntaxError:
                # A faulty builder is left out; the error is raised when builders are named.
                if methods is not None:
                    raise
    return result


def _builders(type_: MuranoType) -> dict[str, Method]:
    found: dict[str, Method] = {}
    for name in type_.method_names():
        for method in type_.method_declarations(name)[:1]:
            values = constant_values(method, _META + "ModelBuilder")
            exposed = method.is_static and method.is_action
            if exposed and values is not None and values.get("enabled", True):
                found[name] = method
    return found


def _class_schema(type_: MuranoType) -> dict[str, Json]:
    properties: dict[str, Json] = {}
    sections = _Sections(type_)
    for name in type_.property_names():
        declaration = type_.property_declarations(name)[0]
        if declaration.usage not in ("In", "InOut"):
            continue
        schema = _contract_of(declaration)
        _add_default(schema, declaration)
        _add_hints(schema, declaration, sections)
        properties[name] = schema
    return _document(type_, properties, sections)


def _method_schema(type_: MuranoType, method: Method) -> dict[str, Json]:
    sections = _Sections(type_, method)
    properties: dict[str, Json] = {}
    for argument in method.arguments or []:
        schema = _contract_of(argument)
        _add_default(schema, argument)
        _add_hints(schema, argument, sections)
        properties[argument.name] = schema
    return _document(method, properties, sections)


def _document(
    subject: MuranoType | Method, properties: dict[str, Json], sections: _Sections
) -> dict[str, Json]:
    schema: dict[str, Json] = {
        "$schema": DRAFT,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "formSections": sections.as_json(),
    }
    _add_texts(schema, subject)
    return schema


def argument_schemas(method: Method) -> dict[str, Json] | None:
    """Schemas of a method's arguments, with their defaults; `None` when any names may be given.

    Used for data written beside every object: no code of the class runs, and facts that would need
    it are left out.
    """
    if method.error is not None:
        return None  # not all arguments could be read: a call reports the error
    result: dict[str, Json] = {}
    for argument in method.arguments or []:
        if argument.usage != "Standard":
            return None
        try:
            schema = _contract_of(argument, evaluate=False)
        except MuranoError:
            schema = {}
        if argument.default is not None:
            schema["default"] = None
            _add_default(schema, argument)
        result[argument.name] = schema
    return result


# -- contracts -----------------------------------------------------------------------------------


def _contract_of(subject: Property | Argument, *, evaluate: bool = True) -> dict[str, Json]:
    owner = (
        subject.declaring_type if isinstance(subject, Property) else subject.method.declaring_type
    )
    scope = ClassScope(owner, CodeUnit.create(owner, f"schema of {owner.full_name}"))
    scope.static = True
    contract = build_contract(subject.contract, scope)
    return contract_schema(contract, owner, evaluate=evaluate)


def contract_schema(
    contract: Contract, owner: MuranoType, *, evaluate: bool = True
) -> dict[str, Json]:
    """The schema of a contract written in a class; ``evaluate``: static methods may be called."""
    if isinstance(contract, Anything):
        return {}
    if isinstance(contract, Constant):
        return {"enum": [contract.value]}
    if isinstance(contract, MapOf):
        properties = {
            str(key): contract_schema(value, owner, evaluate=evaluate)
            for key, value in contract.fixed.items()
        }
        schema: dict[str, Json] = {"type": "object", "properties": properties}
        if contract.other is not None:
            schema["additionalProperties"] = contract_schema(
                contract.other[1], owner, evaluate=evaluate
            )
        else:
            schema["additionalProperties"] = bool(contract.open)
        return schema
    if isinstance(contract, ListOf):
        schema = {"type": "array"}
        items = [contract_schema(item, owner, evaluate=evaluate) for item in contract.items]
        if len(items) == 1:
            schema["items"] = items[0]
        elif items:
            schema["items"] = items
            schema["additionalItems"] = items[-1]
        if contract.minimum:
            schema["minItems"] = contract.minimum
        if contract.maximum is not None:
            schema["maxItems"] = contract.maximum
        return schema
    if isinstance(contract, Chain):
        return _chain_schema(contract, owner, evaluate)
    return {}


_SCALARS = {AsInt: "integer", AsString: "string", AsBool: "boolean"}


def _chain_schema(chain: Chain, owner: MuranoType, evaluate: bool) -> dict[str, Json]:
    schema: dict[str, Json] = {}
    type_name: str | None = None
    required = False
    for step in chain.steps:
        if isinstance(step, (AsInt, AsString, AsBool)):
            type_name = _SCALARS[type(step)]
        elif isinstance(step, NotNull):
            required = True
        elif isinstance(step, (OfClass, AsTemplate)):
            type_name = "muranoObject"
            schema["muranoType"] = step.resolve(_setting(owner))[0].name
            if isinstance(step, AsTemplate):
                schema["owned"] = True
                schema["excludedProperties"] = list(step.excluded)
        elif isinstance(step, Owned):
            schema["owned"] = step.wanted
        elif isinstance(step, Check) and step.ast is not None:
            _merge_check(schema, step.ast, owner if evaluate else None)
    if type_name is not None:
        schema["type"] = type_name if required else [type_name, "null"]
    return schema


def _setting(owner: MuranoType) -> Any:
    from vetro.muranopl.contracts.tree import Setting

    return Setting(owner, None)  # type: ignore[arg-type]  # static names need no run


_BOUNDS = {
    ">": ("minimum", "exclusiveMinimum", True),
    ">=": ("minimum", "exclusiveMinimum", False),
    "<": ("maximum", "exclusiveMaximum", True),
    "<=": ("maximum", "exclusiveMaximum", False),
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def _merge_check(schema: dict[str, Json], node: ast.Expression, owner: MuranoType | None) -> None:
    """Add a predicate's conditions to the schema; predicates of other forms are ignored."""
    if isinstance(node, ast.Binary):
        if node.operator == "and":
            _merge_check(schema, node.left, owner)
            _merge_check(schema, node.right, owner)
            return
        operator, subject, other = node.operator, node.left, node.right
        if operator in _BOUNDS and _is_value(other):
            operator, subject, other = _MIRRORED[operator], other, subject
        if operator in _BOUNDS and _is_value(subject):
            number = _number(other)
            if number is not None:
                _tighten(schema, number, *_BOUNDS[operator])
            return
        if operator == "in" and _is_value(subject):
            values = _constants(other)
            if values is None and owner is not None:
                values = _static_values(other, owner)
            if values is not None:
                known = schema.get("enum")
                schema["enum"] = values if known is None else [v for v in known if v in values]
            return
    pattern: ast.Node | None = None
    if isinstance(node, ast.MethodCall) and _is_value(node.target) and len(node.arguments) == 1:
        pattern = node.arguments[0]
    elif isinstance(node, ast.Call) and len(node.arguments) == 2 and _is_value(node.arguments[0]):
        pattern = node.arguments[1]  # the function of formats 1.0 and 1.1
    if (
        isinstance(node, (ast.Call, ast.MethodCall))
        and node.name == "matches"
        and isinstance(pattern, ast.Constant)
    ):
        schema["pattern"] = pattern.value


def _tighten(
    schema: dict[str, Json], number: int | float, bound: str, exclusive: str, strict: bool
) -> None:
    """Add a bound unless the present one is tighter."""
    known = schema.get(bound)
    if known is not None:
        looser = number < known if bound == "minimum" else number > known
        if looser or (number == known and schema[exclusive]):
            return
    schema[bound] = number
    schema[exclusive] = strict


def _static_values(node: ast.Node, owner: MuranoType) -> list[Json] | None:
    """The list that a static method of a class returns: `$this.allowed()`, `:Cls.allowed()`."""
    if not isinstance(node, ast.MethodCall):
        return None
    values = [item.value for item in node.arguments if isinstance(item, ast.Constant)]
    if len(values) != len(node.arguments):
        return None
    type_ = owner
    target = node.target
    try:
        if isinstance(target, ast.TypeLiteral):
            type_ = named_type(owner, f"{target.prefix or ''}:{target.name}")()
        elif not (isinstance(target, ast.Variable) and target.name == "this"):
            return None
        method = type_.find_method(node.name)
        if method is None or not method.is_static:
            return None
        with owner.runtime.session() as session:
            session.stay()
            found: object = session.to_plain(session.call(type_, node.name, *values))
    except MuranoError:
        return None  # an incomplete schema is better than none
    return cast("list[Json]", found) if isinstance(found, list) else None


def _is_value(node: ast.Node) -> bool:
    return isinstance(node, ast.Variable) and node.name == ""


def _number(node: ast.Node) -> int | float | None:
    if isinstance(node, ast.Unary) and node.operator == "-":
        inner = _number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return None if isinstance(node.value, bool) else node.value
    return None


def _constants(node: ast.Node) -> list[Json] | None:
    items: tuple[ast.Argument, ...]
    if isinstance(node, ast.Call) and node.name == "list":
        items = node.arguments
    elif isinstance(node, ast.ListLiteral):
        items = node.items
    else:
        return None
    values: list[Json] = []
    for item in items:
        if isinstance(item, ast.Constant):
            values.append(item.value)
        elif isinstance(item, ast.Keyword):
            values.append(item.name)
        else:
            return None
    return values


# -- defaults and hints --------------------------------------------------------------------------


def _add_default(schema: dict[str, Json], subject: Property | Argument) -> None:
    default = subject.default
    if default is not None and is_constant(default):
        schema["default"] = thaw(constant_value(default))


def _add_texts(schema: dict[str, Json], subject: Any) -> None:
    for key in ("Title", "Description", "HelpText"):
        values = constant_values(subject, _META + key)
        if values is not None and "text" in values:
            schema[key[0].lower() + key[1:]] = values["text"]


class _Sections:
    """`formSections` and the order of forms."""

    def __init__(self, type_: MuranoType, method: Method | None = None) -> None:
        self.weights = {item: number for number, item in enumerate(type_.ancestors)}
        self.found: dict[str, tuple[int, int | None, str | None]] = {}
        """By name: distance of the class that defines it, index, title."""
        if method is not None:
            self._read(method, 0)
        else:
            for item, weight in self.weights.items():
                self._read(item, weight)

    def _read(self, subject: MuranoType | Method, weight: int) -> None:
        for item in items_of(subject):
            if item.type.name != _META + "forms.Section":
                continue
            node = item.declaration.values
            values = dict(constant_value(node)) if node is not None and is_constant(node) else {}
            name = values.get("name")
            if name is None:
                continue
            distance = weight
            if item.scope is not None:
                distance = self.weights.get(item.scope, weight)
            index = values.get("index")
            known = self.found.get(name)
            better = known is None or (distance, _rank(index)) < (known[0], _rank(known[1]))
            if better:
                self.found[name] = (distance, index, values.get("title", name))

    def as_json(self) -> dict[str, Json]:
        ordered = sorted(
            (name for name, entry in self.found.items() if entry[1] is not None),
            key=lambda name: (-self.found[name][0], self.found[name][1]),
        )
        result: dict[str, Json] = {}
        for name, (_, index, title) in self.found.items():
            result[name] = {"title": title}
            if index is not None:
                result[name]["index"] = ordered.index(name)
        return result


def _rank(index: int | None) -> float:
    return float("inf") if index is None else index


def _add_hints(schema: dict[str, Json], subject: Property | Argument, sections: _Sections) -> None:
    _add_texts(schema, subject)
    hidden = constant_values(subject, _META + "forms.Hidden")
    if hidden is not None:
        schema["visible"] = hidden.get("visible", False)
    position = constant_values(subject, _META + "forms.Position")
    if position is not None:
        if position.get("section") is not None:
            schema["formSection"] = position["section"]
        index = position.get("index")
        if index is not None:
            declaring = (
                subject.declaring_type
                if isinstance(subject, Property)
                else subject.method.declaring_type
            )
            width = len(sections.weights)
            schema["formIndex"] = (index + 1) * width - sections.weights.get(declaring, 0)


__all__ = ["MuranoError", "argument_schemas", "class_schemas", "contract_schema"]
