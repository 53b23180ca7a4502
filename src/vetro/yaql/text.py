"""Conversion of values to text: `str`, `join`, `format` (yaql.md sections 6 and 7).

Nothing here calls a method of a host value: `Evaluation.host_text` gives its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from vetro.yaql.values import Value

from .comparing import afford
from .errors import FormatException, NoSuchKey
from .evaluation import Evaluation
from .kinds import (
    BOOLEAN,
    DATETIME,
    FLOAT,
    HOST,
    INTEGER,
    KIND_NAMES,
    LIST,
    MAPPING,
    NULL,
    SET,
    STRING,
    TIMESPAN,
)
from .values import LIST_TYPES, collect, kind_of

_MAX_DEPTH = 50
_MAX_WIDTH = 10_000
_LONGEST_KEPT = 10_000
"""Parsed templates of at most this many characters are cached."""


def to_text(rt: Evaluation, value: Value) -> str:
    """`str(value)`: null, true and false by those names, anything else in the host's spelling."""
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls is str:
        return value
    if value is None:
        return "null"
    if cls is bool:
        return "true" if value else "false"
    return host_text(rt, value)


def host_text(rt: Evaluation, value: Value) -> str:
    """The spelling of the host language: `None`, `True`, `(1, 2)`, `{'a': 1}`."""
    kind = kind_of[type(value)]
    if kind == STRING:
        return str(value)
    if kind == INTEGER:
        return _integer_text(value)
    if kind & (NULL | BOOLEAN | FLOAT | DATETIME | TIMESPAN):
        return str(value)
    afford(value, rt)
    parts: list[str] = []
    _write(rt, value, parts, 0)
    text = "".join(parts)
    rt.check_string(len(text))
    return text


def _integer_text(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        raise ValueError("the integer has too many digits to be converted to text") from None


def _write(rt: Evaluation, value: Value, parts: list[str], depth: int) -> None:
    rt.charge(1)
    if len(parts) > rt.max_string:
        rt.check_string(len(parts))
    kind = kind_of[type(value)]
    if kind == HOST:
        parts.append(rt.host_text(value))
        return
    if kind == INTEGER:
        parts.append(_integer_text(value))
        return
    if kind & (NULL | BOOLEAN | FLOAT | STRING | DATETIME | TIMESPAN):
        parts.append(repr(value) if kind & STRING else str(value))
        return
    if depth > _MAX_DEPTH:
        parts.append("…")
        return
    if kind == LIST:
        parts.append("(")
        _write_items(rt, value, parts, depth)
        parts.append(",)" if len(value) == 1 else ")")
    elif kind == SET:
        parts.append("{")
        _write_items(rt, list(value), parts, depth)
        parts.append("}")
    elif kind == MAPPING:
        parts.append("{")
        for number, (key, item) in enumerate(value.items()):
            if number:
                parts.append(", ")
            _write(rt, key, parts, depth + 1)
            parts.append(": ")
            _write(rt, item, parts, depth + 1)
        parts.append("}")
    else:
        parts.append(f"<{KIND_NAMES[kind]}>")


def _write_items(rt: Evaluation, items: Sequence[Value], parts: list[str], depth: int) -> None:
    for number, item in enumerate(items):
        if number:
            parts.append(", ")
        _write(rt, item, parts, depth + 1)


def joined(rt: Evaluation, separator: str, sequence: Iterable[Value]) -> str:
    """The elements of a sequence as text, with the separator between them."""
    parts: Sequence[Value] = (
        cast("Sequence[Value]", sequence) if type(sequence) in LIST_TYPES else collect(sequence, rt)
    )
    rt.charge(len(parts))
    if not _STRINGS.issuperset(map(type, parts)):
        parts = [item if type(item) is str else to_text(rt, item) for item in parts]
    rt.check_string(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


_STRINGS = frozenset([str])
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SPECIFICATION = re.compile(
    r"(?:.?[<>=^])?[-+ ]?z?#?0?(?P<width>\d*)[_,]?(?:\.(?P<precision>\d+))?[bcdeEfFgGnosxX%]?\Z",
    re.DOTALL,
)
_NAME = re.compile(r"\w+\Z")


class Placeholder(NamedTuple):
    """A piece of plain text and the field after it: an index or a name, None at the end."""

    before: str
    field: int | str | None
    specification: str


@lru_cache(maxsize=1024)
def read_template(template: str) -> tuple[Placeholder, ...]:
    """The placeholders of a template; raises `FormatException` when it is malformed."""
    found: list[Placeholder] = []
    plain: list[str] = []
    next_index: int | None = 0
    at = 0
    for match in _PLACEHOLDER.finditer(template):
        plain.append(template[at : match.start()])
        at = match.end()
        token = match[0]
        if token in {"{{", "}}"}:
            plain.append(token[0])
            continue
        if match[1] is None:
            raise FormatException(
                f"a single {token} in a format template at character {match.start() + 1}",
                hint="write {{ or }} for a literal brace",
            )
        name, _, specification = match[1].partition(":")
        name, _, conversion = name.partition("!")
        if conversion:
            raise FormatException(f"!{conversion} in {token}: conversions are not supported")
        field: int | str = name
        if name == "":
            if next_index is None:
                raise FormatException("{} cannot follow {0}: number all placeholders or none")
            field = next_index
            next_index += 1
        elif name.isdecimal():
            if next_index:
                raise FormatException("{0} cannot follow {}: number all placeholders or none")
            next_index = None
            field = int(name[:9])
        elif _NAME.match(name) is None:
            raise FormatException(
                f"{token}: a placeholder can name a value, but not a part of one",
                hint="pass the part as an argument",
            )
        found.append(Placeholder("".join(plain), field, specification))
        plain.clear()
    plain.append(template[at:])
    found.append(Placeholder("".join(plain), None, ""))
    return tuple(found)


def format_template(
    rt: Evaluation, template: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """`format(template, …)`: placeholders `{}`, `{0}`, `{name}`, each with an optional `:spec`.

    Raises `IndexError` or `KeyError` for a placeholder without value, `FormatException` for one
    that reads a field or an item of its value, and for a malformed template.
    """
    parts: list[str] = []
    size = 0
    read = read_template if len(template) < _LONGEST_KEPT else read_template.__wrapped__
    for before, field, specification in read(template):
        parts.append(before)
        if field is None:
            break
        if isinstance(field, int):
            value = _positional(args, field)
        elif field in kwargs:
            value = kwargs[field]
        else:
            raise NoSuchKey(f"the template uses {field}, which is not given")
        if specification:
            text = _formatted(rt, value, specification)
        elif type(value) is str:
            text = value
        else:
            text = host_text(rt, value)
        size += len(text)
        rt.check_string(size)
        parts.append(text)
    return "".join(parts)


def _positional(args: Sequence[object], index: int) -> object:
    if index >= len(args):
        raise IndexError(f"the template uses value {index}, but there are only {len(args)}")
    return args[index]


@lru_cache(maxsize=512)
def check_specification(specification: str) -> None:
    """Raise `FormatException` for what is no format specification, or asks for a too long text."""
    matched = _SPECIFICATION.match(specification)
    if matched is None:
        raise FormatException(f"`{specification}` is not a format specification")
    for number in (matched["width"], matched["precision"]):
        if number and int(number[:9]) > _MAX_WIDTH:
            raise FormatException(f"a width or precision above {_MAX_WIDTH}: `{specification}`")


def _formatted(rt: Evaluation, value: Value, specification: str) -> str:
    kind = kind_of[type(value)]
    if kind == DATETIME:
        return value.strftime(specification)
    check = check_specification
    (check if len(specification) < _LONGEST_KEPT else check.__wrapped__)(specification)
    if kind & (INTEGER | FLOAT | BOOLEAN | STRING):
        try:
            return format(value, specification)
        except ValueError as error:
            raise FormatException(f"`{specification}`: {error}") from None
    return format(host_text(rt, value), specification)
