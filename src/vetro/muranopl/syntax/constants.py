"""Structures without expressions, and their values."""

from __future__ import annotations

from vetro.muranopl.values.containers import Value, make_map

from .yamltree import Node, Scalar
from .yamltree import Sequence as SequenceNode


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
