"""YAML as plain values and as nodes with places: safe tags only, dates stay text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import yaml

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.limits import DocumentLimits
from vetro.documents.texts import text_of
from vetro.documents.yamlevents import TAG, not_yaml

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
    found.yaml_implicit_resolvers = {
        first: [pair for pair in resolvers if pair[0] != TAG + "timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
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
    limits = limits or DocumentLimits()
    text = text_of(content, limits)
    measure_yaml(text, limits)
    try:
        reader: Any = loader(text)
        try:
            node: yaml.Node | None = reader.get_single_node()
            return None if node is None else reader.construct_document(node), node
        finally:
            reader.dispose()
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except (ArithmeticError, TypeError, ValueError) as error:  # an unhashable key or set member
        raise DocumentError(f"not YAML: {error}") from error


def compose_yaml(content: bytes | str, limits: DocumentLimits | None = None) -> list[yaml.Node]:
    """The root nodes of all documents that are not empty. Errors: as `read_yaml`."""
    limits = limits or DocumentLimits()
    text = text_of(content, limits)
    measure_yaml(text, limits)
    try:
        nodes = cast("Iterable[yaml.Node | None]", cast("Any", yaml).compose_all(text, _Loader))
        return [node for node in nodes if node is not None]
    except yaml.YAMLError as error:
        raise not_yaml(error) from error


def yaml_value(node: yaml.Node) -> Any:
    """The value of a node of ``compose_yaml``; merges (``<<``) in it are resolved, also in the node.

    Errors: ``DocumentError``.
    """
    reader = _Loader("")
    try:
        return reader.construct_document(node)
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except (ArithmeticError, TypeError, ValueError) as error:  # an unhashable key or set member
        raise DocumentError(f"not YAML: {error}") from error
    finally:
        reader.dispose()


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
    limits = limits or DocumentLimits()
    try:
        loader: Any = cast("Any", yaml).CSafeLoader(text)
    except (yaml.YAMLError, ValueError) as error:
        raise not_yaml(error) from error
    try:
        return _measure(loader, limits)
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    finally:
        loader.dispose()


def _measure(loader: Any, limits: DocumentLimits) -> int:
    sizes: dict[str, int] = {}
    stack: list[tuple[str | None, int]] = []
    total = aliases = documents = 0
    while (event := loader.get_event()) is not None:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif kind is yaml.AliasEvent:
            aliases += 1
            if limits.aliases is not None and aliases > limits.aliases:
                raise _beyond(f"more than {limits.aliases} aliases", event)
            if any(anchor == event.anchor for anchor, _ in stack):
                raise _at(
                    DocumentError, f"*{event.anchor} is inside the node that it refers to", event
                )
            if event.anchor not in sizes:
                raise _at(DocumentError, f"*{event.anchor} refers to no anchor above it", event)
            total += sizes[event.anchor]
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if len(stack) >= limits.depth:
                raise _beyond(f"nested deeper than {limits.depth}", event)
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
            raise _beyond(f"more than {limits.nodes} nodes", event)
    return documents


def _beyond(message: str, event: object) -> DocumentError:
    return _at(DocumentTooLarge, message, event)


def _at(kind: type[DocumentError], message: str, event: Any) -> DocumentError:
    mark = event.start_mark
    return kind(message, mark.line + 1, mark.column + 1)
