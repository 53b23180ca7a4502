"""YAML text to trees of nodes, each with its place in the source (muranopl.md section 1.1).

After this phase every document is a tree of `Mapping`, `Sequence` and `Scalar` nodes; a plain
scalar that is an expression carries its parsed form; sizes are within the limits, no mapping holds
a key twice, merges and aliases are resolved, and no object was constructed from a tag. Aliased
nodes are shared, not copied. Nothing here recurses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from vetro.documents import (
    RESOLVERS,
    TAG,
    WORDS_WITH_MEANING,
    YAML_ERRORS,
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    not_yaml,
    open_events,
    scalar_value,
)
from vetro.muranopl.values.errors import (
    DslSyntaxError,
    DuplicateKey,
    Position,
    YamlLimitExceeded,
    YamlSyntaxError,
)
from vetro.muranopl.values.limits import YamlLimits
from vetro.muranopl.values.records import record

_CERTAINLY_TEXT = re.compile(r"[\s\w\d.]*\Z")
_PLAIN_WORD = re.compile(r"[A-Za-z_$][\w.$()]*\Z")
_QUOTED_START = re.compile(
    r"""(?:^|[:\-])\s+(?P<text>(?P<quote>['"])(?:(?!(?P=quote)).|(?P=quote){2})*(?P=quote))"""
    r"""(?P<rest>\s*(?:[-+*/.<>=!\[]|(?:and|or|in|is|mod)\s)[^#]*[^#\s])"""
)
_RESERVED_START = re.compile(r"(?:^|[:\-])\s+[>!*%@`]")
_LIMITS = YamlLimits()
ParseExpression = Callable[[str], Any]
"""Text to a parsed expression; raises any exception when it is not one."""


def yaml_hint(text: str, line: int) -> str | None:
    """A hint for a common mistake in the line (from 0) where the YAML parser failed."""
    lines = text.splitlines()
    # The parser sometimes fails only in the line after the mistake.
    for number in (line, line - 1):
        if not 0 <= number < len(lines):
            continue
        found = _QUOTED_START.search(lines[number])
        if found is not None:
            quote = found["quote"]
            text = found["text"][1:-1].replace(quote * 2, f"\\{quote}")
            return (
                "an expression that begins with a quote stands in parentheses: "
                f"({quote}{text}{quote}{found['rest']})"
            )
        if _RESERVED_START.search(lines[number]):
            return "quote a value that starts with > ! * % @ or `"
    return None


@record
class Source:
    """A class file: its name and text, for turning offsets into places."""

    file: str
    text: str


@record
class Scalar:
    """A constant (`value`) or an expression (`expression` is its parsed form, `value` its text)."""

    value: Any
    source: Source
    start: int
    end: int
    line: int
    column: int
    expression: Any = None
    plain: bool = False
    target: Any = None
    """Its parsed form as the key of an assignment, cached on first use (`targets`)."""

    @property
    def is_expression(self) -> bool:
        return self.expression is not None

    @property
    def position(self) -> Position:
        return Position(self.source.file, self.line, self.column)

    def position_of(self, offset: int) -> Position:
        """The source place of a character of `value`; folding may have shifted it."""
        if not self.plain or offset <= 0:
            return self.position
        raw = self.source.text[self.start : self.end]
        line, column, seen, at = self.line, self.column, 0, 0
        while seen < offset and at < len(raw):
            if raw[at] in " \t\n" and "\n" in (run := _blank_run(raw, at)):
                breaks = run.count("\n")
                width = max(breaks - 1, 1)
                if seen + width > offset:
                    break
                at += len(run)
                line += breaks
                column = len(run) - run.rindex("\n")
                seen += width
                continue
            at += 1
            column += 1
            seen += 1
        return Position(self.source.file, line, column)


@record
class Sequence:
    """A list."""

    items: list[Node]
    source: Source
    line: int
    column: int
    flow: bool = False

    @property
    def position(self) -> Position:
        return Position(self.source.file, self.line, self.column)


@record
class Mapping:
    """A map; `pairs` keeps the order of the source."""

    pairs: list[tuple[Scalar, Node]]
    source: Source
    line: int
    column: int

    @property
    def position(self) -> Position:
        return Position(self.source.file, self.line, self.column)

    def get(self, name: str) -> Node | None:
        """The value of a constant key."""
        for key, value in self.pairs:
            if key.value == name and key.expression is None:
                return value
        return None

    def entries(self) -> Iterator[tuple[str, Scalar, Node]]:
        """Pairs with the text of the key; an expression as a key counts as its text."""
        for key, value in self.pairs:
            yield ("null" if key.value is None else str(key.value)), key, value


Node = Scalar | Sequence | Mapping
Mistakes = dict[int, tuple[Node, list[DslSyntaxError]]]
"""Errors in single nodes, by the node's `id`: the node (to keep the id valid) and its errors."""


def _blank_run(text: str, at: int) -> str:
    end = at
    while end < len(text) and text[end] in " \t\n\r":
        end += 1
    return text[at:end]


def load_documents(
    text: str,
    file: str,
    *,
    parse_expression: ParseExpression | None,
    limits: YamlLimits | None = None,
    mistakes: Mistakes | None = None,
) -> list[Node]:
    """The documents of a stream, empty ones dropped.

    Without `parse_expression` no scalar is an expression (a manifest). Raises YamlSyntaxError,
    DuplicateKey, YamlLimitExceeded, each with its position. With `mistakes`, errors in single nodes
    (a repeated key of a map, a value that does not fit its tag) are added to it instead, and the
    rest is read.
    """
    return _Builder(Source(file, text), parse_expression, limits or _LIMITS, mistakes).documents()


@record
class _Open:
    """A collection that has not ended yet."""

    mapping: bool
    children: list[Node]
    line: int
    column: int
    anchor: str | None
    size: int = 1
    flow: bool = False


@record
class _Builder:
    source: Source
    parse_expression: ParseExpression | None
    limits: YamlLimits
    mistakes: Mistakes | None = None

    def documents(self) -> list[Node]:
        text, limits = self.source.text, self.limits
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > limits.bytes:
            raise YamlLimitExceeded(
                f"the file has {size} bytes; the limit is {limits.bytes}",
                position=Position(self.source.file, 1, 1),
            )
        try:
            return self._build()
        except YAML_ERRORS as error:
            found = not_yaml(error)
            where = Position(self.source.file, found.line or 1, found.column or 1)
            hint = None if found.line is None else yaml_hint(self.source.text, found.line - 1)
            raise YamlSyntaxError(
                f"{self.source.file} is {found.message}", position=where, hint=hint
            ) from error

    def _build(self) -> list[Node]:
        next_event, close = open_events(self.source.text)
        try:
            return self._documents(next_event)
        finally:
            close()

    def _documents(self, next_event: Callable[[], Any]) -> list[Node]:
        documents: list[Node] = []
        stack: list[_Open] = []
        anchors: dict[str, tuple[Node, int]] = {}
        open_anchors: set[str] = set()
        total = aliases = 0
        limits = self.limits
        while True:
            event = next_event()
            kind = event.__class__
            node: Node
            if kind is ScalarEvent:
                node, size, anchor = self._scalar(event), 1, event.anchor
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                mark = event.start_mark
                if len(stack) >= limits.depth:
                    raise self._limit(f"nested deeper than {limits.depth}", mark)
                if event.tag is not None:
                    self._check_collection_tag(event)
                anchor = event.anchor
                if anchor:
                    open_anchors.add(anchor)
                stack.append(
                    _Open(
                        kind is MappingStartEvent,
                        [],
                        mark.line + 1,
                        mark.column + 1,
                        anchor,
                        1,
                        event.flow_style,
                    )
                )
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                done = stack.pop()
                node, size, anchor = self._close(done), done.size, done.anchor
                if anchor:
                    open_anchors.discard(anchor)
            elif kind is AliasEvent:
                # counts as all the nodes it expands to: refuses an alias bomb before it is walked
                aliases += 1
                if aliases > limits.aliases:
                    raise self._limit(f"more than {limits.aliases} aliases", event.start_mark)
                if event.anchor in open_anchors:
                    raise self._error(
                        f"alias *{event.anchor} is inside the node that it refers to",
                        event.start_mark,
                    )
                if event.anchor not in anchors:
                    raise self._error(
                        f"alias *{event.anchor} refers to no anchor above it", event.start_mark
                    )
                node, size = anchors[event.anchor]
                total += size - 1
                anchor = None
            elif kind is DocumentEndEvent:
                anchors.clear()
                continue
            elif event is None:
                return documents
            else:
                continue
            if anchor:
                anchors[anchor] = (node, size)
            total += 1
            if total > limits.nodes:
                raise self._limit(f"more than {limits.nodes} nodes", event.start_mark)
            if stack:
                holder = stack[-1]
                holder.children.append(node)
                holder.size += size
            elif not isinstance(node, Scalar) or node.value is not None:
                documents.append(node)

    def _close(self, done: _Open) -> Node:
        if not done.mapping:
            return Sequence(done.children, self.source, done.line, done.column, done.flow)
        made = Mapping([], self.source, done.line, done.column)
        self._fill(made, done.children)
        return made

    def _mistaken(self, node: Node, error: DslSyntaxError) -> None:
        """Record an error in a node, or raise it."""
        if self.mistakes is None:
            raise error
        self.mistakes.setdefault(id(node), (node, []))[1].append(error)

    def _fill(self, made: Mapping, children: list[Node]) -> None:
        """Add the pairs of a mapping, from its keys and values."""
        pairs = made.pairs
        merged: list[Mapping] = []
        seen: dict[tuple[object, object], Scalar] = {}
        for index in range(0, len(children), 2):
            key, value = children[index], children[index + 1]
            if not isinstance(key, Scalar):
                error = YamlSyntaxError("a map key must be a scalar", position=key.position)
                self._mistaken(made, error)
                continue
            if key.expression is None:
                if key.value == "<<" and key.plain:
                    merged.extend(self._merge_sources(made, value))
                    continue
                identity = (key.value.__class__, key.value)
                first = seen.setdefault(identity, key)
                if first is not key:
                    error = DuplicateKey(
                        f"the key {key.value} appears twice: "
                        f"first in line {first.line}, column {first.column}",
                        position=key.position,
                    )
                    self._mistaken(made, error)
            pairs.append((key, value))
        for mapping in merged:
            for key, value in mapping.pairs:
                identity = (key.value.__class__, key.value)
                if identity not in seen:
                    seen[identity] = key
                    pairs.append((key, value))

    def _merge_sources(self, made: Mapping, value: Node) -> list[Mapping]:
        if isinstance(value, Mapping):
            return [value]
        if isinstance(value, Sequence) and all(isinstance(i, Mapping) for i in value.items):
            return [item for item in value.items if isinstance(item, Mapping)]
        error = YamlSyntaxError("`<<` takes a map or a list of maps", position=value.position)
        self._mistaken(made, error)
        return []

    def _check_collection_tag(self, event: Any) -> None:
        if event.tag not in (None, "!", TAG + "map", TAG + "seq"):
            raise self._error(f"the tag {event.tag} is not allowed", event.start_mark)

    def _scalar(self, event: Any) -> Scalar:
        start, text = event.start_mark, event.value
        plain = event.implicit[0]
        node = Scalar(
            text,
            self.source,
            start.index,
            event.end_mark.index,
            start.line + 1,
            start.column + 1,
            None,
            plain,
        )
        tag = event.tag
        if tag is None and not plain:
            return node
        try:
            if tag is None:
                return self._plain(node, text, start)
            if tag == "!yaql":
                node.plain = event.style is None or event.style == ""
                return self._forced(node)
            if plain:
                return self._plain(node, text, start)
            if tag not in ("!", TAG + "str"):
                node.value = self._construct(tag, text, start)
        except DslSyntaxError as error:
            self._mistaken(node, error)
        return node

    def _forced(self, node: Scalar) -> Scalar:
        if self.parse_expression is None:
            raise YamlSyntaxError("!yaql is not allowed here", position=node.position)
        try:
            node.expression = self.parse_expression(node.value)
        except Exception as error:
            raise YamlSyntaxError(
                f"not an expression: {node.value!r}: {error}", position=node.position
            ) from error
        return node

    def _plain(self, node: Scalar, text: str, mark: object) -> Scalar:
        if text.isidentifier() and text not in WORDS_WITH_MEANING:
            return node
        for tag, pattern in RESOLVERS.get(text[:1], ()):
            if pattern.match(text):
                if tag == TAG + "merge" or tag == TAG + "value":
                    return node
                node.value = self._construct(tag, text, mark)
                return node
        parse = self.parse_expression
        if parse is None or _CERTAINLY_TEXT.match(text):
            return node
        try:
            node.expression = parse(text)
        except Exception:  # noqa: BLE001 - whatever the grammar refuses is text
            return node
        return node

    def _construct(self, tag: str, text: str, mark: object) -> Any:
        short = tag.removeprefix(TAG)
        if short == "null":
            return None
        if short == "str":
            return text
        try:
            if short in ("bool", "int", "float", "timestamp"):
                return scalar_value(short, text)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self._error(f"{text[:60]!r} is not of type {short}: {error}", mark) from error
        if short == "binary":
            raise self._error(
                "programs have no binary values: write the base64 text without the tag", mark
            )
        raise self._error(f"the tag {tag} is not allowed", mark)

    def _error(self, message: str, mark: Any) -> YamlSyntaxError:
        return YamlSyntaxError(
            message, position=Position(self.source.file, mark.line + 1, mark.column + 1)
        )

    def _limit(self, message: str, mark: Any) -> YamlLimitExceeded:
        return YamlLimitExceeded(
            message,
            position=Position(self.source.file, mark.line + 1, mark.column + 1),
        )


def plain_value(node: Node) -> object:
    """A node without expressions as plain Python data (manifests, metadata)."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Sequence):
        return [plain_value(item) for item in node.items]
    return {key.value: plain_value(value) for key, value in node.pairs}
