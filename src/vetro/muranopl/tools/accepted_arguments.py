"""Which arguments methods and constructors take, as far as their declarations say (section 28)."""

from __future__ import annotations

import inspect

from vetro.muranopl.classes.types import Argument, Method, MuranoType
from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.yaql import ast


def constructed_with(type_: MuranoType) -> set[str]:
    """Names of the arguments of `.init` and of native constructors, which `new` passes on."""
    names: set[str] = set()
    for part in type_.ancestors:
        init = part.methods.get(".init")
        if init is not None:
            names.update(item.name for item in init.arguments or ())
        if part.native is not None and part.native.constructor is not None:
            names.update(part.native.constructor.parameters)
    return names


def refusal_of(method: Method, node: ast.MethodCall) -> str | None:
    """Why a method cannot take the arguments of a call; None when it can or may be able to."""
    named: list[str] = []
    given: list[bool] = []
    for item in node.arguments:
        if isinstance(item, ast.Pair):
            if not isinstance(item.key, ast.Keyword):
                return None
            named.append(item.key.name)
        else:
            given.append(not isinstance(item, ast.Omitted))
    if method.usage == "Extension" or method.error is not None:
        return None
    if method.native is not None:
        native = method.native
        names = list(native.parameters)
        bound = None if native.positional < 0 else native.positional
        takes_names, required = native.takes_keywords, _required_of_native(method)
    else:
        arguments = method.arguments or []
        names = [item.name for item in arguments if item.usage == "Standard"]
        bound = None if any(item.usage == "VarArgs" for item in arguments) else len(names)
        takes_names = any(item.usage == "KwArgs" for item in arguments)
        required = [item.name for item in arguments if _is_required(item)]
    if bound is not None and len(given) > bound:
        return f"takes {_counted(bound)}, not {len(given)}"
    for name in named:
        if name not in names and not takes_names:
            near = did_you_mean(name, names)
            return f"has no argument {name}{f'; {near}' if near else ''}"
        if name in names[: len(given)]:
            return f"gets the argument {name} twice"
    there = {*named, *(name for name, one in zip(names, given, strict=False) if one)}
    missing = [name for name in required if name not in there]
    if missing:
        return f"needs {', '.join(missing)}"
    return None


def _counted(number: int) -> str:
    if number == 0:
        return "no arguments"
    return "1 argument" if number == 1 else f"at most {number} arguments"


def _required_of_native(method: Method) -> list[str]:
    assert method.native is not None
    signature = inspect.signature(method.native.function).parameters
    return [
        name
        for name, python_name in method.native.parameters.items()
        if signature[python_name].default is inspect.Parameter.empty
    ]


def _is_required(argument: Argument) -> bool:
    """Whether the contract refuses null, the value of an omitted argument."""
    if argument.usage != "Standard" or argument.default is not None:
        return False
    contract: Node = argument.contract
    if not isinstance(contract, Scalar) or not contract.is_expression:
        return False
    node: ast.Node = contract.expression
    refuses = False
    while isinstance(node, ast.MethodCall) and node.name in CONTRACT_FUNCTIONS:
        if node.name in ("class", "template") and len(node.arguments) > 1:
            return False  # an object of the default class is made
        refuses = refuses or node.name == "notNull"
        node = node.target
    return refuses and isinstance(node, ast.Variable)
