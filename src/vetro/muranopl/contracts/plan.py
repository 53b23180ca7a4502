"""Compile written contracts (muranopl.md section 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from vetro.muranopl.syntax.versions import VersionSpec, version_spec
from vetro.muranopl.syntax.yamltree import Mapping, Node, Scalar, Sequence
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import DslContractSyntaxError
from vetro.muranopl.values.records import record
from vetro.yaql import ast

from .chains import (
    AsBool,
    AsInt,
    AsString,
    AsTemplate,
    Chain,
    Check,
    Computed,
    NotNull,
    OfClass,
    Owned,
    Step,
)
from .tree import Anything, Constant, Contract, ListOf, MapOf, Setting, check_list_shape

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType

CONTRACT_FUNCTIONS = frozenset(
    ("int", "string", "bool", "notNull", "check", "class", "template", "owned", "notOwned")
)
Evaluate = Callable[[Value, Value, Value], Value]


class ContractScope(Protocol):
    """The services that a contract needs from its class."""

    type: MuranoType
    lenient_lists: bool

    def function(self, node: ast.Expression, scalar: Scalar) -> Evaluate:
        """An expression over `$` = value as a function `(this, run, value)`."""
        ...

    def computed(
        self, node: ast.Expression, scalar: Scalar
    ) -> Callable[[Value, Value, Value, Setting], Value]:
        """An expression in which the contract functions are methods."""
        ...


def build_contract(node: Node, scope: ContractScope) -> Contract:
    """The contract that a node describes. Raises DslContractSyntaxError."""
    if isinstance(node, Scalar):
        if node.is_expression:
            return _leaf(node, scope)
        return Constant(node.value)
    if isinstance(node, Sequence):
        return _list(node, scope)
    return _map(node, scope)


def _list(node: Sequence, scope: ContractScope) -> Contract:
    items = list(node.items)
    numbers: list[int] = []
    while items:
        last = items[-1]
        if not isinstance(last, Scalar) or last.is_expression or type(last.value) is not int:
            break
        numbers.insert(0, last.value)
        items.pop()
    minimum, maximum = check_list_shape(numbers, node.position)
    return ListOf(
        [build_contract(item, scope) for item in items], minimum, maximum, scope.lenient_lists
    )


def _map(node: Mapping, scope: ContractScope) -> Contract:
    fixed: dict[object, Contract] = {}
    other: tuple[Contract, Contract] | None = None
    for key, value in node.pairs:
        assert isinstance(key, Scalar)
        if key.is_expression:
            if other is not None:
                raise DslContractSyntaxError(
                    "a map contract can have at most one key that is an expression",
                    position=key.position,
                )
            other = (_leaf(key, scope), build_contract(value, scope))
        else:
            fixed[key.value] = build_contract(value, scope)
    return MapOf(fixed, other, not node.pairs)


def _leaf(scalar: Scalar, scope: ContractScope) -> Contract:
    calls: list[ast.MethodCall] = []
    node: ast.Expression = scalar.expression
    while isinstance(node, ast.MethodCall) and node.name in CONTRACT_FUNCTIONS and not node.safe:
        calls.insert(0, node)
        node = node.target
    if not isinstance(node, ast.Variable) or node.name != "":
        return Computed(scope.computed(scalar.expression, scalar), str(scalar.value))
    if not calls:
        return Anything()
    return Chain([make_step(call, scalar, scope) for call in calls], str(scalar.value))


@record
class _Arguments:
    """The arguments of one contract function."""

    call: ast.MethodCall
    scalar: Scalar

    def positional(self, names: tuple[str, ...], required: int) -> list[ast.Expression | None]:
        found: dict[str, ast.Expression] = {}
        for index, argument in enumerate(self.call.arguments):
            if isinstance(argument, ast.Pair):
                key = argument.key.name if isinstance(argument.key, ast.Keyword) else None
                if key not in names or key in found:
                    self.fail(f"takes no argument {key}")
                assert key is not None
                found[key] = argument.value
            elif isinstance(argument, ast.Expression):
                if index >= len(names):
                    self.fail(f"takes at most {len(names)} arguments")
                found[names[index]] = argument
        if any(name not in found for name in names[:required]):
            self.fail(f"needs {', '.join(names[:required])}")
        return [found.get(name) for name in names]

    def fail(self, what: str) -> None:
        raise DslContractSyntaxError(
            f"{self.call.name}() {what}", position=self.scalar.position_of(self.call.start)
        )


def make_step(call: ast.MethodCall, scalar: Scalar, scope: ContractScope) -> Step:
    """One function of a chain."""
    arguments = _Arguments(call, scalar)
    if call.name in _PLAIN_STEPS:
        arguments.positional((), 0)
        return _PLAIN_STEPS[call.name]()
    if call.name == "check":
        predicate, message = arguments.positional(("predicate", "msg"), 1)
        assert predicate is not None
        return Check(
            scope.function(predicate, scalar),
            None if message is None else scope.function(message, scalar),
            str(scalar.value)[predicate.start : predicate.end],
            predicate,
            _is_closed(predicate),
        )
    if call.name == "class":
        name, default, spec = arguments.positional(("type", "defaultType", "versionSpec"), 1)
        types = _types(name, default, spec, scalar, scope)
        return OfClass(*types, package=scope.type.package)
    name, default, spec, excluded = arguments.positional(
        ("type", "defaultType", "versionSpec", "excludeProperties"), 1
    )
    resolve, spec_value, has_default = _types(name, default, spec, scalar, scope)
    paths: tuple[str, ...] = ()
    if excluded is not None:
        paths = tuple(_texts(excluded, arguments))
    return AsTemplate(resolve, spec_value, has_default, paths)


def _is_closed(node: ast.Node) -> bool:
    """True for a predicate that consists of constants, operators and the value itself."""
    return all(
        isinstance(item, (ast.Constant, ast.Keyword, ast.Unary, ast.Binary, ast.ListLiteral))
        or (isinstance(item, ast.Variable) and item.name == "")
        or (isinstance(item, ast.Call) and item.name in ("list", "len"))
        for item in ast.walk(node)
    )


_PLAIN_STEPS: dict[str, Callable[[], Step]] = {
    "int": AsInt,
    "string": AsString,
    "bool": AsBool,
    "notNull": NotNull,
    "owned": lambda: Owned(True),
    "notOwned": lambda: Owned(False),
}


def _texts(node: ast.Expression, arguments: _Arguments) -> list[str]:
    items: tuple[ast.Argument, ...] = (node,)
    if isinstance(node, ast.ListLiteral):
        items = node.items
    elif isinstance(node, ast.Call) and node.name == "list":
        items = node.arguments
    found: list[str] = []
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            found.append(item.value)
        elif isinstance(item, ast.Keyword):
            found.append(item.name)
        elif isinstance(item, ast.Property):
            found.append(arguments.scalar.value[item.start : item.end])
        else:
            arguments.fail("takes excludeProperties only as a list of constant paths")
    return found


Resolve = Callable[[Setting], "tuple[MuranoType, MuranoType | None]"]


def _types(
    name: ast.Expression | None,
    default: ast.Expression | None,
    spec: ast.Expression | None,
    scalar: Scalar,
    scope: ContractScope,
) -> tuple[Resolve, VersionSpec | None, bool]:
    assert name is not None
    spec_value: VersionSpec | None = None
    if spec is not None and not (isinstance(spec, ast.Constant) and spec.value is None):
        if isinstance(spec, ast.Constant):
            try:
                spec_value = version_spec(spec.value)
            except ValueError as error:
                raise DslContractSyntaxError(
                    str(error),
                    names=(*DslContractSyntaxError("").names, "ValueError"),
                    position=scalar.position_of(spec.start),
                ) from error
        else:
            raise DslContractSyntaxError(
                "versionSpec must be a constant", position=scalar.position_of(spec.start)
            )
    if isinstance(default, ast.Constant) and default.value is None:
        default = None
    wanted = _type_reference(name, scalar, scope)
    other = None if default is None else _type_reference(default, scalar, scope)
    known: list[tuple[MuranoType, MuranoType | None]] = []

    def resolve(setting: Setting) -> tuple[MuranoType, MuranoType | None]:
        if known:
            return known[0]
        found = wanted(setting), None if other is None else other(setting)
        if wanted.is_static and (other is None or other.is_static):
            known.append(found)
        return found

    return resolve, spec_value, other is not None


@record
class _TypeReference:
    find: Callable[[Setting], MuranoType]
    is_static: bool

    def __call__(self, setting: Setting) -> MuranoType:
        return self.find(setting)


def _type_reference(node: ast.Expression, scalar: Scalar, scope: ContractScope) -> _TypeReference:
    """How an argument names a class: a literal, a word, text, or an expression."""
    type_ = scope.type
    if isinstance(node, ast.TypeLiteral):
        prefix, name = node.prefix or "=", node.name
        return _TypeReference(
            lambda _: type_.find_type(type_.namespaces.resolve_prefixed(prefix, name)), True
        )
    text: str | None = None
    if isinstance(node, ast.Keyword):
        text = node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    if text is not None:
        written = text
        return _TypeReference(lambda _: type_.find_type(type_.namespaces.resolve(written)), True)
    evaluate = scope.function(node, scalar)

    def computed(setting: Setting) -> MuranoType:
        return setting.run.as_type(evaluate(setting.this, setting.run, None), type_)

    return _TypeReference(computed, False)
