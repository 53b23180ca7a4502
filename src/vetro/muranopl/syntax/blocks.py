"""Properties of a block of statements and of structures, found without compiling them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vetro.muranopl.values.containers import Value, make_map
from vetro.muranopl.values.records import field_names
from vetro.yaql import ast

from . import statements as st
from .targets import root_of
from .yamltree import Mapping, Node, Scalar
from .yamltree import Sequence as SequenceNode


def assigned_names(flat: Sequence[st.Statement]) -> set[str]:
    """Variables that the statements of a block assign; `flat` is the block with nested ones."""
    names: set[str] = set()
    for statement in flat:
        if isinstance(statement, st.Assign):
            name = root_of(statement.target)
            if name:
                names.add(name)
        elif isinstance(statement, st.For):
            names.add(statement.variable)
        elif isinstance(statement, st.Try):
            names.update(h.variable for h in statement.handlers if h.variable is not None)
    return names


def untraced_variables(body: Sequence[st.Statement], expressions: Iterable[ast.Node]) -> set[str]:
    """Variables of `Catch` that are read only for the name, message or extra of the exception.

    `expressions`: all expressions of the block.
    """
    caught = {
        handler.variable
        for item in body
        if isinstance(item, st.Try)
        for handler in item.handlers
        if handler.variable is not None
    }
    if not caught:
        return caught
    plain: set[int] = set()
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Property) and node.name in ("name", "message", "extra"):
                plain.add(id(node.target))
            elif isinstance(node, ast.Variable) and node.name in caught and id(node) not in plain:
                caught.discard(node.name)
    return caught


def loop_names(flat: Sequence[st.Statement]) -> set[str]:
    """Variables of the For loops among the statements."""
    return {item.variable for item in flat if isinstance(item, st.For)}


def flatten(body: Sequence[st.Statement]) -> list[st.Statement]:
    """Every statement of a block, nested ones included."""
    found: list[st.Statement] = []
    stack = [*reversed(body)]
    while stack:
        item = stack.pop()
        found.append(item)
        for block in blocks_of(item):
            stack.extend(reversed(block))
    return found


def blocks_of(statement: st.Statement) -> Blocks:
    """The blocks within a statement."""
    blocks = _BLOCKS.get(statement.__class__)
    return [] if blocks is None else blocks(statement)


Blocks = list[list[st.Statement]]


def _body(item: st.While | st.For | st.Repeat | st.Block) -> Blocks:
    return [item.body]


def _if(item: st.If) -> Blocks:
    return [item.then, item.otherwise]


def _cases(item: st.Match | st.Switch) -> Blocks:
    return [*(body for _, body in item.cases), item.default or []]


def _branches(item: st.Parallel) -> Blocks:
    return item.branches


def _try(item: st.Try) -> Blocks:
    return [item.body, *(handler.body for handler in item.handlers), item.otherwise, item.final]


_BLOCKS: dict[type[st.Statement], Callable[[Any], Blocks]] = {
    st.If: _if,
    st.While: _body,
    st.For: _body,
    st.Repeat: _body,
    st.Block: _body,
    st.Match: _cases,
    st.Switch: _cases,
    st.Parallel: _branches,
    st.Try: _try,
}
"""The blocks within a statement."""


def describe(statement: st.Statement) -> str:
    """A statement in one line, for stack traces."""
    match statement:
        case st.Evaluate():
            return str(statement.expression.value)
        case st.Assign():
            return f"{statement.target.value}: {_brief(statement.value)}"
        case st.Return():
            return "Return" if statement.value is None else f"Return: {_brief(statement.value)}"
        case st.If():
            return f"If: {_brief(statement.condition)}"
        case st.While():
            return f"While: {_brief(statement.condition)}"
        case st.For():
            return f"For: {statement.variable}"
        case st.Throw():
            return f"Throw: {', '.join(statement.names)}"
        case _:
            return type(statement).__name__


def _brief(node: Node) -> str:
    if isinstance(node, Scalar):
        text = "null" if node.value is None else str(node.value)
        return text if len(text) <= 200 else text[:197] + "..."
    return "{…}" if isinstance(node, Mapping) else "[…]"


def scalars(nodes: Iterable[Node]) -> list[Scalar]:
    """All scalars of structures, keys included."""
    found: list[Scalar] = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, Scalar):
            found.append(node)
        elif isinstance(node, SequenceNode):
            stack.extend(node.items)
        else:
            stack.extend(part for pair in node.pairs for part in pair)
    return found


def values_of(statement: st.Statement) -> list[Node]:
    """The nodes of a statement that are evaluated, without those of the statements within it."""
    if isinstance(statement, st.Switch):
        return [key for key, _ in statement.cases]
    values = [getattr(statement, name) for name in field_names(statement)]
    return [value for value in values if isinstance(value, (Scalar, SequenceNode, Mapping))]


def expressions_of(node: Node) -> list[ast.Node]:
    """The expressions in a structure, keys included."""
    return [scalar.expression for scalar in scalars([node]) if scalar.is_expression]


def is_constant(node: Node) -> bool:
    """True when a structure holds no expression."""
    stack: list[Node] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, Scalar):
            if item.is_expression:
                return False
        elif isinstance(item, SequenceNode):
            stack.extend(item.items)
        else:
            for key, value in item.pairs:
                if key.is_expression:
                    return False
                stack.append(value)
    return True


def constant_value(node: Node) -> Value:
    """The frozen value of a structure without expressions."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, SequenceNode):
        return tuple([constant_value(item) for item in node.items])
    return make_map({key.value: constant_value(value) for key, value in node.pairs})
