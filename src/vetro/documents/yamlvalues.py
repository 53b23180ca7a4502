"""YAML as plain values and as nodes with places: safe tags only, dates stay text."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, ScalarNode, SequenceNode

from vetro.documents.errors import DocumentError
from vetro.documents.limits import USUAL, DocumentLimits
from vetro.documents.texts import text_of
from vetro.documents.yamlevents import TAG, Parser, not_yaml
from vetro.documents.yamlnodes import MAP, SEQ, STR, TAGS, at_event, beyond, nodes_of

Constructor = Callable[[Any, Any], Any]
"""Makes a value: from the loader and the node."""


def safe_loader(constructors: Mapping[str, Constructor] | None = None) -> Any:
    """A loader class with safe tags, for `read_yaml`; `constructors` by tag replace its own.

    Unquoted timestamps stay text. A text that does not fit its tag (``!!int x``, a number with
    thousands of digits) raises ``ConstructorError`` with its place, whatever PyYAML's own
    constructor raises.
    """
    base: object = yaml.CSafeLoader
    found: object = type("SafeValues", (base,), {})
    found.yaml_implicit_resolvers = TAGS
    for name in ("int", "float", "bool", "timestamp", "binary"):
        tag = TAG + name
        found.add_constructor(tag, _guarded(name, base.yaml_constructors[tag]))
    for tag, construct in (constructors or {}).items():
        found.add_constructor(tag, construct)
    return found


def _guarded(name: str, construct: Callable[[object, object], object]) -> Callable[[Any, Any], Any]:
    def guarded(loader: object, node: Any) -> Any:
        try:
            return construct(loader, node)
        except yaml.YAMLError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"{str(node.value)[:60]!r} is not of type {name}", node.start_mark
            ) from error

    return guarded


_Loader = safe_loader()
_CONSTRUCTOR = SafeConstructor()
_SCALARS = {
    TAG + name: _Loader.yaml_constructors[TAG + name] for name in ("null", "bool", "int", "float")
}


def read_yaml(
    content: bytes | str, limits: DocumentLimits | None = None, loader: object = _Loader
) -> Any:
    """The value of a text's only document; ``None`` for an empty text.

    ``loader``: from ``safe_loader``. Errors: ``DocumentError``, ``DocumentTooLarge``.
    """
    return read_yaml_and_node(content, limits, loader)[0]


def read_yaml_and_node(
    content: bytes | str, limits: DocumentLimits | None = None, loader: Any = _Loader
) -> tuple[Any, yaml.Node | None]:
    """The value of a text's only document, and its root node, which knows places."""
    limits = limits or USUAL
    text = text_of(content, limits)
    nodes = nodes_of(text, limits, [])
    if not nodes:
        return None, None
    try:
        if nodes[1:]:
            _refuse_second(text, loader)
        return _value_of(nodes[0], loader), nodes[0]
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except (ArithmeticError, TypeError, ValueError) as error:  # an unhashable key or set member
        raise DocumentError(f"not YAML: {error}") from error


def _refuse_second(text: str, loader: Any) -> None:
    """Raise PyYAML's error for a text with several documents."""
    reader = loader(text)
    try:
        reader.get_single_node()
    finally:
        reader.dispose()


def compose_yaml(
    content: bytes | str,
    limits: DocumentLimits | None = None,
    maps: list[MappingNode] | None = None,
) -> list[yaml.Node]:
    """The root nodes of all documents that are not empty. Errors: as `read_yaml`.

    ``maps`` takes all maps in them, in the order in which they begin.
    """
    limits = limits or USUAL
    return nodes_of(text_of(content, limits), limits, [] if maps is None else maps)


def yaml_value(node: yaml.Node) -> Any:
    """The value of a node of ``compose_yaml``; merges (``<<``) in it are resolved, also in the node.

    Errors: ``DocumentError``.
    """
    try:
        return _value_of(node, _Loader)
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except (ArithmeticError, TypeError, ValueError) as error:  # an unhashable key or set member
        raise DocumentError(f"not YAML: {error}") from error


def _value_of(node: yaml.Node, loader: Any) -> Any:
    """What a node means to a loader. Raises what its constructors raise."""
    if loader is _Loader:
        # Whatever is not plain, or wrong, is made or refused below.
        with contextlib.suppress(Exception):
            return _plain(node, {})
    reader = loader("")
    try:
        return reader.construct_document(node)
    finally:
        reader.dispose()


def _plain(node: Any, made: dict[int, Any]) -> Any:
    """The value of a node of plain texts, numbers, lists and maps; raises an error for any other.

    PyYAML's constructor takes three times as long: for each node it looks for its kind of constructor,
    which makes a generator of each collection, lest one contains itself. None does here.
    ``made``: the values of collections by the ids of their nodes: an alias is the same object.
    """
    tag, kind = node.tag, node.__class__
    if kind is ScalarNode:
        return node.value if tag == STR else _SCALARS[tag](_CONSTRUCTOR, node)
    if id(node) in made:
        return made[id(node)]
    value: Any
    if kind is MappingNode and tag == MAP:
        value = {}
        for key, one in node.value:
            # A collection is no key, and a merge is more than one.
            if key.__class__ is not ScalarNode:
                raise TypeError
            name = key.value if key.tag == STR else _SCALARS[key.tag](_CONSTRUCTOR, key)
            value[name] = _plain(one, made)
    elif kind is SequenceNode and tag == SEQ:
        value = [_plain(one, made) for one in node.value]
    else:
        raise KeyError(tag)
    made[id(node)] = value
    return value


def write_yaml(value: object, *, ordered: bool = False) -> str:
    """A plain value as YAML; ``ordered``: keys keep their order, and letters of all scripts stay."""
    if ordered:
        return str(cast("Any", yaml).safe_dump(value, sort_keys=False, allow_unicode=True))
    return str(cast("Any", yaml).safe_dump(value))


def write_yaml_node(node: yaml.Node) -> str:
    """A composed document as YAML: tags stay, and no value is built on the way."""
    return str(cast("Any", yaml).serialize(node, allow_unicode=True))


def measure_yaml(text: str, limits: DocumentLimits | None = None) -> int:
    """Refuse a text that is not YAML or exceeds the limits, before any value is built; returns the
    number of documents.

    An alias must name a value that is complete before it: a value must not contain itself.
    Errors: ``DocumentError``, ``DocumentTooLarge``.
    """
    limits = limits or USUAL
    try:
        parser = Parser(text)
    except (yaml.YAMLError, ValueError) as error:
        raise not_yaml(error) from error
    try:
        return _measure(parser.get_event, limits)
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    finally:
        parser.dispose()


def _measure(next_event: Any, limits: DocumentLimits) -> int:
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = []
    total = aliases = documents = 0
    while (event := next_event()) is not None:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif kind is yaml.AliasEvent:
            aliases += 1
            if limits.aliases is not None and aliases > limits.aliases:
                raise beyond(f"more than {limits.aliases} aliases", event)
            if any(anchor == event.anchor for anchor, _ in stack):
                raise at_event(
                    DocumentError, f"*{event.anchor} is inside the node that it refers to", event
                )
            if event.anchor not in sizes:
                raise at_event(
                    DocumentError, f"*{event.anchor} refers to no anchor above it", event
                )
            total += sizes[event.anchor]
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if len(stack) >= limits.depth:
                raise beyond(f"nested deeper than {limits.depth}", event)
            total += 1
            stack.append((event.anchor, total))
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            anchor, before = stack.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        elif kind is yaml.DocumentStartEvent:
            documents += 1
            sizes.clear()
        if total > limits.nodes:
            raise beyond(f"more than {limits.nodes} nodes", event)
    return documents
