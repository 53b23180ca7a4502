"""Methods that call nothing: they need no lock and no frame of their own in the count of depth.

Green threads switch only at waits, and only calls can wait. While a method without calls runs, no
other thread runs; so no other thread could ever find its lock (muranopl.md section 22) taken. Such
a method cannot recurse either. Anything that may run code of other classes counts as a call:
writing a property (contracts), reading one of another object (static defaults, host attributes), a
computed default of an argument, naming a class (which may be loaded).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import expressions_of, is_constant, values_of
from vetro.muranopl.syntax.yamltree import Node
from vetro.yaql import ast

from .inference import parse_target_quietly

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Argument, Method, MuranoType
    from vetro.yaql.library import Library

_PURE = frozenset(
    ("str", "int", "float", "format", "concat", "list", "dict", "min", "max", "abs", "range")
)
"""Functions of the library that take and return plain values."""
_CONTRACTS = frozenset(("int", "string", "bool", "notNull", "class", "owned", "notOwned"))
"""Contract functions that evaluate no program code."""
_PLAIN = (
    ast.Constant,
    ast.Keyword,
    ast.Variable,
    ast.Unary,
    ast.ListLiteral,
    ast.MapLiteral,
    ast.Pair,
    ast.Omitted,
)
_STATEMENTS = (
    *(st.Evaluate, st.Return, st.If, st.While, st.For, st.Repeat, st.Break, st.Continue),
    *(st.Match, st.Switch, st.Block, st.Throw, st.Rethrow),
)


def is_leaf(
    type_: MuranoType, method: Method, flat: Sequence[st.Statement], library: Library
) -> bool:
    """True when no call of the method can run another method or wait.

    `flat`: every statement of its body, nested ones included.
    """
    if type_.package.legacy or method.is_static:
        return False
    if not all(_passes_quietly(item) for item in method.arguments or []):
        return False
    for item in flat:
        if isinstance(item, st.Assign):
            target = parse_target_quietly(item.target)
            if target is None or target.path or target.operation != "set" or target.is_this:
                return False
            nodes = [item.value]
        elif isinstance(item, _STATEMENTS):
            nodes = values_of(item)
        else:
            return False
        if not all(_is_quiet(node, type_, library) for node in nodes):
            return False
    return True


def _passes_quietly(argument: Argument) -> bool:
    if argument.default is not None and not is_constant(argument.default):
        return False
    return all(
        node.name in _CONTRACTS if isinstance(node, ast.MethodCall) else _is_word(node)
        for expression in expressions_of(argument.contract)
        for node in ast.walk(expression)
    )


def _is_word(node: ast.Node) -> bool:
    return isinstance(node, (ast.Variable, ast.Keyword, ast.TypeLiteral, ast.Constant))


def _is_quiet(node: Node, type_: MuranoType, library: Library) -> bool:
    return all(
        _is_quiet_node(item, type_, library)
        for expression in expressions_of(node)
        for item in ast.walk(expression)
    )


def _is_quiet_node(node: ast.Node, type_: MuranoType, library: Library) -> bool:
    if isinstance(node, ast.Property):
        target = node.target
        if not (isinstance(target, ast.Variable) and target.name in ("", "this")):
            return False
        found = type_.property_declarations(node.name)
        return len(found) == 1 and not found[0].is_static and found[0].native is None
    if isinstance(node, ast.Binary):
        host = f"#operator_{node.operator}"
        return node.operator != "is" and not library.is_overridden(host, False)
    if isinstance(node, ast.Index):
        return not library.is_overridden("#indexer", False)
    if isinstance(node, ast.Call):
        return node.name in _PURE and not library.is_overridden(node.name, False)
    return isinstance(node, _PLAIN)
