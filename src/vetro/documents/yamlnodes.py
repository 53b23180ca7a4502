"""YAML as nodes with places, in one pass: each event is measured, then made a node.

PyYAML's composer recurses in C, so a text would have to be measured before it, by a pass of its own. Here
nothing recurses, and no text is parsed twice. Texts that cannot exceed a limit whatever they say, as most
manifests, are left to that composer: it takes four fifths of the time.
"""

from __future__ import annotations

import contextlib
from typing import Any, cast

import yaml
from yaml.composer import ComposerError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.limits import DocumentLimits
from vetro.documents.yamlevents import RESOLVERS, TAG, WORDS_WITH_MEANING, Parser, not_yaml

STR, SEQ, MAP = TAG + "str", TAG + "seq", TAG + "map"


TAGS = {
    first: [pair for pair in pairs if pair[0] != TAG + "timestamp"]
    for first, pairs in RESOLVERS.items()
}
"""First character of a plain scalar to tags and the patterns of their texts: dates are text."""
_SHORT = 4096
_BEGIN = "[{:-?"
"""Each collection of a text has one of these of its own."""


def nodes_of(text: str, limits: DocumentLimits, maps: list[MappingNode]) -> list[Node]:
    """The root node of each document. ``maps`` takes all maps, in the order in which they begin.

    An alias must name a value that is complete before it: a value must not contain itself.
    Errors: ``DocumentError``, ``DocumentTooLarge``.
    """
    if (
        len(text) <= min(_SHORT, limits.nodes // 4)
        and "*" not in text
        and sum(map(text.count, _BEGIN)) <= limits.depth
    ):
        # What is wrong with a text is found out below.
        with contextlib.suppress(yaml.YAMLError, ValueError):
            return _composed_in_c(text, maps)
    try:
        parser = Parser(text)
    except (yaml.YAMLError, ValueError) as error:
        raise not_yaml(error) from error
    try:
        return _composed(parser.get_event, limits, maps)
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    finally:
        parser.dispose()


def _tag(value: str) -> str:
    """The tag of a plain scalar without one."""
    if not value.isidentifier() or value in WORDS_WITH_MEANING:
        for meant, pattern in TAGS.get(value[:1], ()):
            if pattern.match(value):
                return meant
    return STR


class _Composer(Parser):
    """What PyYAML's composer asks of its loader."""

    def resolve(self, kind: type[Node], value: str, implicit: Any) -> str:
        if kind is ScalarNode:
            return _tag(value) if implicit[0] else STR
        return MAP if kind is MappingNode else SEQ

    def descend_resolver(self, parent: object, index: object) -> None:
        """Tags do not depend on where a node is."""

    def ascend_resolver(self) -> None:
        """As above."""


def _composed_in_c(text: str, maps: list[MappingNode]) -> list[Node]:
    documents: list[Node] = []
    composer = _Composer(text)
    try:
        while composer.check_node():
            documents.append(composer.get_node())
    finally:
        composer.dispose()
    stack: list[Any] = documents[::-1]
    while stack:
        node = stack.pop()
        inside: list[Any] = []
        if node.__class__ is MappingNode:
            maps.append(node)
            inside = [one for pair in node.value for one in pair]
        elif node.__class__ is SequenceNode:
            inside = node.value
        stack += [one for one in reversed(inside) if one.__class__ is not ScalarNode]
    return documents


def _composed(next_event: Any, limits: DocumentLimits, maps: list[Any]) -> list[Node]:
    documents: list[Node] = []
    # Each collection that has begun: its node, its children, its anchor, the nodes before it.
    stack: list[tuple[Any, list[Any], str | None, int]] = []
    children: list[Any] = documents
    anchors: dict[str, tuple[Node, int]] = {}
    named: dict[str, Node] = {}  # also those of collections that have not ended
    repeated: Exception | None = None
    total = aliases = 0
    new: Any = object.__new__
    most, deepest, node = limits.nodes, limits.depth, cast("Any", None)
    while (event := next_event()) is not None:
        kind = event.__class__
        if kind is ScalarEvent:
            total += 1
            tag, value = event.tag, event.value
            if tag is None or tag == "!":
                tag = _tag(value) if event.implicit[0] else STR
            # Most nodes are scalars: calling the class takes half as long again.
            node = new(ScalarNode)
            node.tag, node.value, node.style = tag, value, event.style
            node.start_mark, node.end_mark = event.start_mark, event.end_mark
            children.append(node)
            if (anchor := event.anchor) is not None:
                repeated = repeated or _again(named, anchor, node)
                anchors[anchor] = (node, 1)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if len(stack) >= deepest:
                raise beyond(f"nested deeper than {deepest}", event)
            total += 1
            tag, anchor = event.tag, event.anchor
            is_map = kind is MappingStartEvent
            if tag is None or tag == "!":
                tag = MAP if is_map else SEQ
            make = MappingNode if is_map else SequenceNode
            node = make(tag, [], event.start_mark, None, event.flow_style)
            if is_map:
                maps.append(node)
            children.append(node)
            if anchor is not None:
                repeated = repeated or _again(named, anchor, node)
            stack.append((node, children, anchor, total))
            children = node.value if kind is SequenceStartEvent else []
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            node, holder, anchor, before = stack.pop()
            node.end_mark = event.end_mark
            if kind is MappingEndEvent:
                node.value = list(zip(children[::2], children[1::2], strict=True))
            children = holder
            if anchor is not None:
                anchors[anchor] = (node, total - before + 1)
        elif kind is AliasEvent:
            aliases += 1
            if limits.aliases is not None and aliases > limits.aliases:
                raise beyond(f"more than {limits.aliases} aliases", event)
            if any(one[2] == event.anchor for one in stack):
                raise at_event(
                    DocumentError, f"*{event.anchor} is inside the node that it refers to", event
                )
            if event.anchor not in anchors:
                raise at_event(
                    DocumentError, f"*{event.anchor} refers to no anchor above it", event
                )
            node, size = anchors[event.anchor]
            total += size
            children.append(node)
        elif kind is DocumentStartEvent or kind is DocumentEndEvent:
            anchors.clear()
            named.clear()
        if total > most:
            raise beyond(f"more than {most} nodes", event)
    if repeated is not None:
        raise repeated
    return documents


def _again(named: dict[str, Node], anchor: str, node: Any) -> Exception | None:
    """The error for an anchor that there is already; it is raised when the rest is found to be right."""
    first: Any = named.setdefault(anchor, node)
    if first is node:
        return None
    return ComposerError(
        "found duplicate anchor; first occurrence",
        first.start_mark,
        "second occurrence",
        node.start_mark,
    )


def beyond(message: str, event: object) -> DocumentError:
    """The error for an event with which a document exceeds a limit."""
    return at_event(DocumentTooLarge, message, event)


def at_event(kind: type[DocumentError], message: str, event: Any) -> DocumentError:
    """An error at the place of an event."""
    mark = event.start_mark
    return kind(message, mark.line + 1, mark.column + 1)
