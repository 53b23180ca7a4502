"""YAML as plain values: safe tags only, dates stay text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import yaml

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.limits import DocumentLimits
from vetro.documents.texts import text_of

_TAG = "tag:yaml.org,2002:"


def safe_loader(base: Any) -> Any:
    """A loader class with safe tags, made from one of PyYAML's safe loaders.

    Unquoted timestamps stay text. A text that does not fit its tag (``!!int x``, a number with
    thousands of digits) raises ``ConstructorError`` with its place, whatever PyYAML's own
    constructor raises.
    """
    found = type("SafeValues", (base,), {})
    found.yaml_implicit_resolvers = {
        first: [pair for pair in resolvers if pair[0] != _TAG + "timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    for name in ("int", "float", "bool", "timestamp", "binary"):
        tag = _TAG + name
        found.add_constructor(tag, _guarded(name, base.yaml_constructors[tag]))
    return found


def _guarded(name: str, construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def guarded(loader: Any, node: Any) -> Any:
        try:
            return construct(loader, node)
        except yaml.YAMLError:
            raise
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"{str(node.value)[:60]!r} is not of type {name}", node.start_mark
            ) from error

    return guarded


_Loader = safe_loader(yaml.CSafeLoader)


def read_yaml(content: bytes | str, limits: DocumentLimits | None = None) -> Any:
    """The value of a text's only document; ``None`` for an empty text.

    Errors: ``DocumentError``, ``DocumentTooLarge``.
    """
    limits = limits or DocumentLimits()
    text = text_of(content, limits)
    measure_yaml(text, limits)
    try:
        return cast("Any", yaml).load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error
    except (TypeError, ValueError) as error:  # an unhashable key or set member
        raise DocumentError(f"not YAML: {error}") from error


def write_yaml(value: object) -> str:
    """A plain value as YAML."""
    return str(cast("Any", yaml).safe_dump(value))


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
        raise _not_yaml(error) from error
    try:
        return _measure(loader, limits)
    except yaml.YAMLError as error:
        raise _not_yaml(error) from error
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
                raise _at(DocumentError, f"*{event.anchor} stands inside what it names", event)
            if event.anchor not in sizes:
                raise _at(DocumentError, f"*{event.anchor} names nothing above it", event)
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


def _beyond(message: str, event: Any) -> DocumentError:
    return _at(DocumentTooLarge, message, event)


def _at(kind: type[DocumentError], message: str, event: Any) -> DocumentError:
    mark = event.start_mark
    return kind(message, mark.line + 1, mark.column + 1)


def _not_yaml(error: Exception) -> DocumentError:
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return DocumentError(f"not YAML: {problem}")
    return DocumentError(f"not YAML: {problem}", mark.line + 1, mark.column + 1)
