"""YAML as events, for a reader that builds a tree of its own and keeps its own limits (class files)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import yaml
import yaml.cyaml
from yaml.constructor import SafeConstructor
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from yaml.resolver import Resolver

from vetro.documents.errors import DocumentError

TAG = "tag:yaml.org,2002:"
YAML_ERRORS = (yaml.YAMLError, UnicodeEncodeError)
"""What reading events raises; `not_yaml` makes a DocumentError of it."""
RESOLVERS = cast("dict[str, list[tuple[str, re.Pattern[str]]]]", Resolver.yaml_implicit_resolvers)
"""First character of a plain scalar to tags and the patterns of their texts."""
WORDS_WITH_MEANING = frozenset(
    form
    for word in ("yes", "no", "true", "false", "on", "off", "null", "y", "n")
    for form in (word, word.title(), word.upper())
)
"""The identifiers that may be other than text; those of one letter are text to PyYAML."""
Parser: Any = cast("Any", yaml.cyaml).CParser
"""Makes events of a text: what a loader of PyYAML is besides is not made for each text."""
_CONSTRUCTOR = SafeConstructor()


def open_events(text: str) -> tuple[Callable[[], object], Callable[[], None]]:
    """A function that returns the next event (None at the end), and one that frees the parser.

    Both raise `YAML_ERRORS`.
    """
    parser = Parser(text)
    return parser.get_event, parser.dispose


def scalar_value(kind: str, text: str) -> object:
    """The value of a scalar of type bool, int, float or timestamp.

    Raises whatever a conversion raises for a text that does not fit: ArithmeticError,
    AttributeError, LookupError, TypeError, ValueError.
    """
    if kind == "bool":
        return _CONSTRUCTOR.bool_values[text.lower()]
    node = yaml.ScalarNode(TAG + kind, text)
    if kind == "int":
        return _CONSTRUCTOR.construct_yaml_int(node)
    if kind == "float":
        return _CONSTRUCTOR.construct_yaml_float(node)
    return cast("Any", _CONSTRUCTOR).construct_yaml_timestamp(node)


def not_yaml(error: Exception) -> DocumentError:
    """An error of PyYAML as a DocumentError."""
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return DocumentError(f"not YAML: {problem}")
    return DocumentError(f"not YAML: {problem}", mark.line + 1, mark.column + 1)


__all__ = [
    "RESOLVERS",
    "TAG",
    "WORDS_WITH_MEANING",
    "YAML_ERRORS",
    "AliasEvent",
    "DocumentEndEvent",
    "MappingEndEvent",
    "MappingStartEvent",
    "ScalarEvent",
    "SequenceEndEvent",
    "SequenceStartEvent",
    "not_yaml",
    "open_events",
    "scalar_value",
]
