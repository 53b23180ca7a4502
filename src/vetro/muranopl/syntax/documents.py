"""Class documents as trees with places, for editors, linters and other programs that read them."""

from __future__ import annotations

from vetro.muranopl.values.limits import YamlLimits

from .expressions import parse_expression
from .yamltree import Mapping as MappingNode
from .yamltree import Node, load_documents
from .yamltree import Scalar as ScalarNode
from .yamltree import Sequence as SequenceNode


def read_documents(
    text: str, file: str = "text", *, limits: YamlLimits | None = None
) -> list[Node]:
    """The documents of a class file, as the language reads them.

    Each is a tree of `MappingNode` (`pairs`), `SequenceNode` (`items`) and `ScalarNode` (`value`;
    `expression` is the syntax tree of a YAQL expression, else None), each with its `position`. Raises
    DslSyntaxError with a position.
    """
    return load_documents(text, file, parse_expression=parse_expression, limits=limits)


__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "read_documents"]
