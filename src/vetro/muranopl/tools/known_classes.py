"""The class of a value where a contract or `new` determines it (section 28)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vetro.muranopl.classes.types import Method, MuranoType
from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS
from vetro.muranopl.runtime import inline_caches
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.values.errors import MuranoError
from vetro.yaql import ast


def named_class(scope: MuranoType, node: ast.Node) -> MuranoType | None:
    """The class that `:Name`, `Name` or `'Name'` means in a class's code; None when unknown."""
    if isinstance(node, ast.TypeLiteral):
        text = f"{node.prefix or ''}:{node.name}"
    elif isinstance(node, ast.Keyword):
        text = node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    else:
        return None
    try:
        return inline_caches.named_type(scope, text)()
    except (MuranoError, KeyError, ValueError):
        return None  # reported for the class's name


def class_of_contract(scope: MuranoType, contract: Node) -> MuranoType | None:
    """The class of values that pass a contract with one `class(X)`."""
    if not isinstance(contract, Scalar) or not contract.is_expression:
        return None
    found: list[ast.MethodCall] = []
    node: ast.Node = contract.expression
    while isinstance(node, ast.MethodCall) and node.name in CONTRACT_FUNCTIONS:
        if node.name in ("class", "template"):
            found.append(node)
        node = node.target
    if not isinstance(node, ast.Variable) or node.name or len(found) != 1:
        return None
    (named,) = found
    if named.name != "class" or not named.arguments:
        return None
    return named_class(scope, named.arguments[0])


def class_of_property(type_: MuranoType, name: str, *, static: bool = False) -> MuranoType | None:
    """The class of a property's values, if it has one declaration whose contract names it."""
    if type_.package.legacy:
        return None
    declared = type_.property_declarations(name)
    if len(declared) != 1 or declared[0].native is not None:
        return None
    (item,) = declared
    if item.is_static != static:
        return None
    return class_of_contract(item.declaring_type, item.contract)


def classes_of_arguments(method: Method, body: Iterable[st.Statement]) -> Mapping[str, MuranoType]:
    """Arguments whose contract names a class and that the body never reassigns."""
    if method.declaring_type.package.legacy:
        return {}
    known: dict[str, MuranoType] = {}
    for item in method.arguments or []:
        found = class_of_contract(method.declaring_type, item.contract)
        if found is not None and item.usage == "Standard":
            known[item.name] = found
    for statement in body:
        if isinstance(statement, st.For):
            known.pop(statement.variable, None)
        elif isinstance(statement, st.Try):
            for handler in statement.handlers:
                known.pop(handler.variable or "", None)
        elif isinstance(statement, st.Assign) and statement.target.is_expression:
            for node in ast.walk(statement.target.expression):
                if isinstance(node, ast.Variable):
                    known.pop(node.name, None)
    return known
