"""Structures in class code: lists and maps with expressions in their keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .values import Map, make_map
from .yamltree import Node, Scalar
from .yamltree import Sequence as SequenceNode

if TYPE_CHECKING:
    from .methodcode import ExpressionWriter


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
                stack.extend((key, value))
    return True


def constant_value(node: Node) -> Any:
    """The frozen value of a structure without expressions."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, SequenceNode):
        return tuple([constant_value(item) for item in node.items])
    return make_map({key_value(key): constant_value(value) for key, value in node.pairs})


def key_value(node: Node) -> Any:
    assert isinstance(node, Scalar)
    return node.value


def structure_source(node: Node, writer: ExpressionWriter) -> str:
    """Source of the frozen value of a structure; parts without expressions are made once."""
    if isinstance(node, Scalar):
        if node.is_expression:
            return writer.value(node)
        value = node.value
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        return writer.constant(value)
    if is_constant(node):
        if isinstance(node, SequenceNode) and not node.items:
            return "()"
        return writer.constant(constant_value(node))
    if isinstance(node, SequenceNode):
        inner = ", ".join(structure_source(item, writer) for item in node.items)
        return f"({inner},)"
    pairs = ", ".join(
        f"{structure_source(key, writer)}: {structure_source(value, writer)}"
        for key, value in node.pairs
    )
    return f"{writer.constant(Map)}({{{pairs}}})"
