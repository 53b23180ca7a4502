"""Infer the kinds of variables before a method runs.

Arithmetic on values of known kind needs no type tests. Only plain cases are followed: constants,
arithmetic, `str`, elements of `range`, and arguments whose contract makes them a scalar. The kind of
a variable is known if every assignment gives it the same kind, and if it is never read while it is
still null: within the block that holds all its mentions, the first one is an assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import blocks_of, expressions_of, flatten, values_of
from vetro.muranopl.syntax.targets import Target, parse_target
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.yaql import ast
from vetro.yaql.kinds import ANY, BOOLEAN, FLOAT, INTEGER, NULL, STRING, Kind

if TYPE_CHECKING:
    from vetro.yaql.library import Library

_UNKNOWN: Kind = ANY
_WHOLE = frozenset(("+", "-", "*", "/", "mod"))
_BOOLEAN_OPERATORS = frozenset(("<", "<=", ">", ">=", "=", "!=", "in", "=~", "!~", "is"))
_MAY_BE_KNOWN = (ast.Constant, ast.Keyword, ast.Variable, ast.Unary, ast.Binary)
_LITERALS: dict[type[object], Kind] = {
    type(None): NULL,
    bool: BOOLEAN,
    int: INTEGER,
    float: FLOAT,
    str: STRING,
}


def infer_kinds(
    body: Sequence[st.Statement],
    flat: Sequence[st.Statement],
    arguments: Mapping[str, Kind],
    library: Library,
) -> dict[str, Kind]:
    """Kinds of the variables of a body; variables missing from the result have unknown kinds.

    `flat` is the body with all nested statements. `arguments` gives the kinds that are known from
    the arguments' contracts; an argument that is reassigned is treated as any other variable.
    """
    assigned: dict[str, list[Node | Kind | None]] = {}
    for statement in flat:
        if isinstance(statement, st.Assign):
            target = parse_target_quietly(statement.target)
            if target is not None and target.variable is not None and not target.is_this:
                plain = not target.path and target.operation == "set"
                assigned.setdefault(target.variable, []).append(statement.value if plain else None)
        elif isinstance(statement, st.For):
            kind = _element_kind(statement.collection, library)
            assigned.setdefault(statement.variable, []).append(kind)
        elif isinstance(statement, st.Try):
            for handler in statement.handlers:
                if handler.variable is not None:
                    assigned.setdefault(handler.variable, []).append(None)
    kinds: dict[str, Kind] = {
        name: kind for name, kind in arguments.items() if name not in assigned
    }
    candidates = {
        name: values
        for name, values in assigned.items()
        if not any(value is None or _is_unknown(value) for value in values)
    }
    if not candidates:
        return kinds
    early = _initialised_early(body, {*candidates})
    candidates = {
        name: values for name, values in candidates.items() if name in early or name in arguments
    }
    # Fixed point: begin with no kinds and let assignments add kinds until none is added.
    found: dict[str, Kind] = {name: arguments.get(name, 0) for name in candidates}
    changed = True
    while changed:
        changed = False
        known = {**kinds, **found}
        for name, values in candidates.items():
            total = found[name]
            for value in values:
                total |= _kind(cast("Node | Kind", value), known)
            if total != found[name]:
                found[name] = total
                changed = True
    kinds.update({name: kind for name, kind in found.items() if kind and kind != _UNKNOWN})
    return kinds


def parse_target_quietly(scalar: Scalar) -> Target | None:
    """The target, or None when it is invalid (compiling its statement reports the error)."""
    from vetro.muranopl.values.errors import InvalidLhsTargetError

    try:
        return parse_target(scalar)
    except InvalidLhsTargetError:
        return None


def _element_kind(collection: Node, library: Library) -> Kind | None:
    """The kind of every element that a loop goes over; None when it is unknown."""
    if isinstance(collection, Scalar) and collection.is_expression:
        call = collection.expression
        if isinstance(call, ast.Call) and call.name == "range":
            return None if library.is_overridden("range", False) else INTEGER
    return None


def _is_unknown(node: Node | Kind) -> bool:
    """True when the kind of a value cannot be inferred, whatever the kinds of its variables."""
    if isinstance(node, int):
        return False
    if not isinstance(node, Scalar):
        return True
    if not node.is_expression:
        return node.value.__class__ not in _LITERALS
    expression: ast.Node = node.expression
    if isinstance(expression, ast.Call):
        return expression.name != "str"
    return not isinstance(expression, _MAY_BE_KNOWN)


def _kind(node: Node | Kind, known: Mapping[str, Kind]) -> Kind:
    if isinstance(node, int):
        return node
    if not isinstance(node, Scalar):
        return _UNKNOWN
    if not node.is_expression:
        return _LITERALS.get(node.value.__class__, _UNKNOWN)
    return _expression(node.expression, known)


def _expression(node: ast.Node, known: Mapping[str, Kind]) -> Kind:
    if isinstance(node, ast.Constant):
        return _LITERALS[type(node.value)]
    if isinstance(node, ast.Keyword):
        return STRING
    if isinstance(node, ast.Variable):
        return known.get(node.name, _UNKNOWN)
    if isinstance(node, ast.Unary):
        if node.operator == "not":
            return BOOLEAN
        inner = _expression(node.operand, known)
        return inner if not inner & ~INTEGER else _UNKNOWN
    if isinstance(node, ast.Binary):
        if node.operator in _WHOLE:
            left, right = _expression(node.left, known), _expression(node.right, known)
            if not (left | right) & ~INTEGER:
                return INTEGER if left and right else 0
            if node.operator == "+" and STRING in (left, right):
                return STRING if not (left | right) & ~STRING else _UNKNOWN
            return _UNKNOWN
        if node.operator in _BOOLEAN_OPERATORS:
            return BOOLEAN
    if isinstance(node, ast.Call) and node.name == "str" and len(node.arguments) == 1:
        return STRING
    return _UNKNOWN


def _initialised_early(body: Sequence[st.Statement], names: set[str]) -> set[str]:
    """Those of the names that are assigned before anything else in the block mentions them.

    A variable that only one statement mentions is looked for in the blocks within that statement.
    """
    if not names:
        return names
    early: set[str] = set()
    places: dict[str, list[st.Statement]] = {}
    for statement in body:
        if isinstance(statement, st.Assign):
            target = parse_target_quietly(statement.target)
            if target is not None and target.variable in names and target.variable not in places:
                plain = not target.path and target.operation == "set"
                if plain and target.variable not in _mentions(statement.value):
                    early.add(target.variable)
        for name in _mentions_of(statement) & names:
            places.setdefault(name, []).append(statement)
    inside: dict[int, tuple[st.Statement, set[str]]] = {}
    for name, statements in places.items():
        if name in early:
            continue
        if all(_is_loop_of(item, name) for item in statements):
            early.add(name)
        elif len(statements) == 1 and name not in _mentions_outside_blocks(statements[0]):
            inside.setdefault(id(statements[0]), (statements[0], set()))[1].add(name)
    for statement, left in inside.values():
        blocks = [block for block in blocks_of(statement) if block]
        mentioned = [_mentions_of_block(block) & left for block in blocks]
        for block, found in zip(blocks, mentioned, strict=True):
            others = set[str]().union(*(item for item in mentioned if item is not found))
            early |= _initialised_early(block, found - others)
    return early


def _is_loop_of(statement: st.Statement, name: str) -> bool:
    """True for a loop that assigns the variable before anything in it mentions the variable."""
    return (
        isinstance(statement, st.For)
        and statement.variable == name
        and name not in _mentions(statement.collection)
    )


def _mentions_of_block(block: Sequence[st.Statement]) -> set[str]:
    return set[str]().union(*(_mentions_of(item) for item in block))


def _mentions_of(statement: st.Statement) -> set[str]:
    found: set[str] = set()
    for item in flatten([statement]):
        found |= _mentions_outside_blocks(item)
    return found


def _mentions_outside_blocks(item: st.Statement) -> set[str]:
    found: set[str] = set()
    for slot in values_of(item):
        found |= _mentions(slot)
    if isinstance(item, st.For):
        found.add(item.variable)
    elif isinstance(item, st.Try):
        found.update(h.variable for h in item.handlers if h.variable is not None)
    return found


def _mentions(node: Node) -> set[str]:
    return {
        part.name
        for expression in expressions_of(node)
        for part in ast.walk(expression)
        if isinstance(part, ast.Variable)
    }
