"""The first layer: a form's text becomes plain values in which expressions are marked (B1).

Establishes for the layers above: the text is one YAML map within limits; every plain scalar that is an
expression is a `Marked` with its place; the place of every map is known (`Source.place`); ``Version``
is the text that was written (``2.10`` is not 2.1).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    MappingNode,
    Node,
    ScalarNode,
    read_yaml_and_node,
    safe_loader,
)
from vetro.packages.forms.errors import FormError
from vetro.yaql import YaqlParsingException, ast, parse

LIMITS = DocumentLimits(bytes=2**20, depth=60, nodes=200_000)
"""Of a definition: bytes, nesting, and nodes with aliases counted as what they stand for."""
MAX_EXPRESSION = 20_000
"""Characters of one expression."""
_TEXT = re.compile(r"[\w\s.:]*\Z")
#: A date is a type of YAML, so no expression; it stays text.
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[Tt\s].*)?\Z")


@dataclass(frozen=True)
class Marked:
    """An expression of the definition with its place."""

    text: str
    line: int
    column: int

    @property
    def tree(self) -> ast.Expression:
        """The expression's tree. Errors: ``FormError`` with the place."""
        try:
            return parse(self.text)
        except (YaqlParsingException, RecursionError) as error:
            raise FormError(
                f"{self.text!r:.200} is not an expression: {error}", self.line, self.column
            ) from error

    @property
    def is_wording(self) -> bool:
        """Whether it is an expression by accident (`Auto-scaling`): without a variable, call or quote."""
        return not any(
            isinstance(node, (ast.Variable, ast.Call, ast.MethodCall))
            or (isinstance(node, ast.Constant) and isinstance(node.value, str))
            for node in ast.walk(self.tree)
        )


def name_of(value: object) -> str:
    """A name as it is written: a name is never an expression."""
    return value.text if isinstance(value, Marked) else str(value)


def wording(value: object) -> object:
    """A text for people, as it is written unless it is meant as an expression."""
    return value.text if isinstance(value, Marked) and value.is_wording else value


@dataclass
class Source:
    """A definition as it was read. ``version``: the text of ``Version`` (or ``Format``), if any."""

    document: dict[str, Any]
    version: str | None
    places: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    def place(self, value: object) -> tuple[int, int] | tuple[None, None]:
        """Line and column of a map or list of the document."""
        return self.places.get(id(value), (None, None))

    def wrong(self, message: str, value: object = None) -> FormError:
        """An error about a part of the document."""
        return FormError(message, *self.place(value))


def _scalar(loader: object, node: Any) -> object:
    text = cast("str", node.value)
    place = (node.start_mark.line + 1, node.start_mark.column + 1)
    if node.tag == "!yaql":
        return Marked(text, *place)
    if node.style or len(text) > MAX_EXPRESSION or _TEXT.match(text) or _DATE.match(text):
        return text
    try:
        parse(text)
    except (YaqlParsingException, RecursionError):
        return text
    return Marked(text, *place)


def _loader(places: dict[int, tuple[int, int]]) -> object:
    """A loader whose plain scalars may be expressions, and which notes the places of collections."""

    def mapping(loader: Any, node: Any) -> Any:
        value = loader.construct_mapping(node, deep=True)
        if None in value and any(
            isinstance(key.value, str) and not key.value for key, _ in node.value
        ):
            # `{?: {type: T}}`: to YAML 1.1 a question mark in braces begins a key, here an empty one.
            value = {"?" if key is None else key: one for key, one in value.items()}
        places[id(value)] = (node.start_mark.line + 1, node.start_mark.column + 1)
        return value

    def sequence(loader: Any, node: Any) -> Any:
        value = loader.construct_sequence(node, deep=True)
        places[id(value)] = (node.start_mark.line + 1, node.start_mark.column + 1)
        return value

    return safe_loader(
        {
            "tag:yaml.org,2002:str": _scalar,
            "!yaql": _scalar,
            "tag:yaml.org,2002:map": mapping,
            "tag:yaml.org,2002:seq": sequence,
        }
    )


def read_source(text: str) -> Source:
    """Read a definition. Errors: ``FormError`` with line and column."""
    places: dict[int, tuple[int, int]] = {}
    try:
        document, node = read_yaml_and_node(text, LIMITS, _loader(places))
    except DocumentTooLarge as error:
        said = f"The UI definition is too large: {error.message}"
        raise FormError(said, error.line, error.column) from error
    except DocumentError as error:
        raise FormError(error.message, error.line, error.column) from error
    if not isinstance(document, dict):
        raise FormError("A UI definition must be a map", 1, 1)
    known = cast("dict[object, object]", document)
    sections = {str(key): value for key, value in known.items()}
    places[id(sections)] = (1, 1)
    version = _text_at(node, "Version")
    return Source(sections, _text_at(node, "Format") if version is None else version, places)


def mark_maps(value: object) -> object:
    """The same with each map ``{YAQL: text}`` as an expression, as version 1 writes them (B9)."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        if len(pairs) == 1 and isinstance(pairs.get("YAQL"), (str, Marked)):
            text = pairs["YAQL"]
            return text if isinstance(text, Marked) else Marked(text, 1, 1)
        for key in pairs:
            pairs[key] = mark_maps(pairs[key])
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        items[:] = [mark_maps(one) for one in items]
    return cast("Any", value)


def _text_at(root: Node | None, name: str) -> str | None:
    """The text of a scalar in the root map, as written: a version is not a number."""
    if not isinstance(root, MappingNode):
        return None
    for key, value in cast("list[tuple[Node, Node]]", root.value):
        if isinstance(key, ScalarNode) and key.value == name and isinstance(value, ScalarNode):
            is_null = str(value.tag).endswith(":null")
            return None if is_null else str(value.value).strip() or None
    return None
