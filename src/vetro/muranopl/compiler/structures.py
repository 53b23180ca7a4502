"""Structures in class code: lists and maps with expressions in their keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.muranopl.syntax.blocks import constant_value, is_constant
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.muranopl.syntax.yamltree import Sequence as SequenceNode
from vetro.muranopl.values.containers import Map
from vetro.yaql.comparing import hashable
from vetro.yaql.values import SCALAR_TYPES

if TYPE_CHECKING:
    from .functionwriter import FunctionWriter


def structure_source(node: Node, writer: FunctionWriter) -> str:
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
        f"{_key_source(key, writer)}: {structure_source(value, writer)}"
        for key, value in node.pairs
    )
    return f"{writer.constant(Map)}({{{pairs}}})"


def _key_source(key: Node, writer: FunctionWriter) -> str:
    """Source of a key; lists and maps are charged, since hashing visits all their parts."""
    source = structure_source(key, writer)
    if is_constant(key):
        return source
    plain, pay = writer.constant(SCALAR_TYPES), writer.constant(hashable)
    return f"(key_ if (key_ := {source}).__class__ in {plain} else {pay}(key_, S))"
