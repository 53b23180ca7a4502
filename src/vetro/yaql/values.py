"""Values of the language and their kinds (yaql.md section 4).

Data are immutable to programs: no operation of the language changes a value. The Python type shows
the state of a value:

- `tuple`, `FrozenDict` and `frozenset` are *final*: everything inside is final as well;
- `list`, `dict` and `set` are data from the host or newly built by an operation; their elements may
  be lazy;
- iterators (and `range`) are lazy sequences, exhausted after one pass.

`finalize` makes a final value of any other, in time proportional to the parts that are not final: a
value that grew by one element costs only that element. Every operation takes all three states.
"""

from __future__ import annotations

import datetime
import re
import types
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    ValuesView,
)
from itertools import islice
from typing import Any, NoReturn, Protocol, TypeAlias

from .errors import (
    CollectionTooLargeException,
    DepthLimitExceeded,
    NoMatchingFunctionException,
    NoSuchKey,
)
from .kinds import (
    BOOLEAN,
    CONTEXT,
    DATETIME,
    FLOAT,
    FUNCTION,
    HOST,
    INTEGER,
    KIND_NAMES,
    LAZY,
    LIST,
    MAPPING,
    NULL,
    REGEX,
    SET,
    STRING,
    TIMESPAN,
    Kind,
)

Value: TypeAlias = Any
"""A value that a program computes with: one of the above, a scalar, a context, a function, a host object.

Which of them it is shows only while the program runs, where `kind_of` tells it. A union would have to be
narrowed at each step of each operation, at the expense of every call.
"""


class FrozenDict(dict[Value, Value]):
    """A mapping that is final: it never changes and everything in it is final. Hashable."""

    __slots__ = ("_hash",)
    _hash: int | None
    """Unset at first; None after the owner of the mapping has changed it."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict declares itself unhashable
        try:
            known = self._hash
        except AttributeError:
            known = None
        if known is None:
            known = self._hash = hash(frozenset(self.items()))
        return known

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("the mapping is immutable")

    __setitem__ = __delitem__ = __ior__ = _refuse  # type: ignore[assignment]
    update = setdefault = pop = popitem = clear = _refuse  # type: ignore[assignment]

    def __missing__(self, key: object) -> NoReturn:
        raise missing_key(self, key)

    def copy(self) -> FrozenDict:
        return self

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenDict, (dict(self),)


class Memorized:
    """A sequence that stores the elements it has produced, so that it can be iterated again."""

    __slots__ = ("_seen", "_source", "depth")

    def __init__(self, source: Iterable[object]) -> None:
        self.depth: int = getattr(source, "depth", 1) + 1
        """How many lazy sequences are nested in it (`sequences`)."""
        self._source = iter(source)
        self._seen: list[object] = []

    def __iter__(self) -> Iterator[Value]:
        at = 0
        seen = self._seen
        while True:
            while at < len(seen):
                yield seen[at]
                at += 1
            for value in self._source:
                seen.append(value)
                break
            else:
                return


class Context:
    """The result of `let`, `with`, `def`, `unpack` and `as`, for the right side of `->`."""

    __slots__ = ("functions", "variables")

    def __init__(
        self,
        variables: dict[str, object] | None = None,
        functions: dict[str, Callable[..., object]] | None = None,
    ) -> None:
        self.variables: dict[str, Value] = variables if variables is not None else {}
        self.functions: dict[str, Callable[..., Value]] = functions if functions is not None else {}


class _Kinds(dict[type, Kind]):
    """The kind of each Python class, computed once.

    A host that makes classes while it runs gives them a true `comes_and_goes`: kept here, such a class would
    stay for ever, with all that it refers to (a runtime of MuranoPL: 20 MB).
    """

    def __missing__(self, cls: type) -> Kind:
        if getattr(cls, "comes_and_goes", False):
            return HOST
        kind = HOST
        for base, base_kind in _BASES:
            if issubclass(cls, base):
                kind = base_kind
                break
        self[cls] = kind
        return kind


_BASES: tuple[tuple[type[object], Kind], ...] = (
    (bool, BOOLEAN),
    (int, INTEGER),
    (float, FLOAT),
    (str, STRING),
    (list, LIST),
    (tuple, LIST),
    (Mapping, MAPPING),
    (frozenset, SET),
    (set, SET),
    (datetime.datetime, DATETIME),
    (datetime.timedelta, TIMESPAN),
    (re.Pattern, REGEX),
    (range, LAZY),
    (Memorized, LAZY),
    (KeysView, LAZY),
    (ValuesView, LAZY),
    (ItemsView, LAZY),
    (Context, CONTEXT),
    (types.FunctionType, FUNCTION),
    (Iterator, LAZY),
)

kind_of: _Kinds = _Kinds()
"""`kind_of[type(value)]` is the value's kind."""
kind_of[type(None)] = NULL
for _cls in (
    *(bool, int, float, str, list, tuple, dict, FrozenDict, frozenset, set),
    *(types.FunctionType, types.GeneratorType, map, filter, range),
):
    _ = kind_of[_cls]

FINAL_TYPES: set[type] = {
    type(None),
    bool,
    int,
    float,
    str,
    tuple,
    FrozenDict,
    frozenset,
    datetime.datetime,
    datetime.date,
    datetime.timedelta,
    bytes,
}
"""Classes whose instances are final. A host adds its own object classes with `declare_final`."""

SCALAR_TYPES = frozenset([type(None), bool, int, float, str])
NUMBER_TYPES = frozenset([int, float])
MAPPING_TYPES = frozenset([dict, FrozenDict])
LIST_TYPES = frozenset([tuple, list])
SIZED_TYPES = frozenset([str, tuple, list, dict, FrozenDict, frozenset, set])


class Budget(Protocol):
    """What conversions ask of an `evaluation.Evaluation`."""

    final_types: set[type]
    max_items: int

    def charge(self, steps: int) -> None:
        """Charge for work that is about to be done."""
        ...


def declare_final(cls: type) -> None:
    """Declare that instances of a host class need no conversion by `finalize`."""
    FINAL_TYPES.add(cls)


MAX_DEPTH = 200
"""Levels of a value's data."""


def finalize(value: Value, evaluation: Budget) -> Value:
    """The final form of `value`: lists and lazy sequences become tuples, mappings FrozenDicts.

    Raises `CollectionTooLargeException` for a lazy sequence that is too long,
    `DepthLimitExceeded` for data nested more than 200 deep (a cycle in host data, for example).
    """
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in FINAL_TYPES:
        return value
    if cls is list and evaluation.final_types.issuperset(map(type, value)):
        evaluation.charge(len(value))
        return tuple(value)
    return _finalize(value, evaluation, 0, None)


_Known: TypeAlias = "dict[int, tuple[Value, Value]]"
"""Converted containers with their results, by id: shared parts stay shared. It also refers to the
containers themselves, since the id of a freed object may be reused."""


def _finalize(value: Value, evaluation: Budget, depth: int, known: _Known | None) -> object:
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    final_types = evaluation.final_types
    if cls in final_types:
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    kind = kind_of[cls]
    if kind & (LIST | LAZY):
        items: Value = value if kind == LIST else collect(value, evaluation)
        evaluation.charge(len(items))
        classes = set(map(type, items))
        if final_types.issuperset(classes):
            return tuple(items)
        if known is None:
            known = {}
        elif (met := known.get(id(value))) is not None:
            return met[1]
        depth += 1
        if len(classes) == 1 and dict in classes:
            # Rows of a table: most hold plain values and need only a copy.
            evaluation.charge(sum(map(len, items)))
            is_final = final_types.issuperset
            made = [
                FrozenDict(item)
                if is_final(map(type, item.values()))
                else _finalize(item, evaluation, depth, known)
                for item in items
            ]
        else:
            made = [_finalize(item, evaluation, depth, known) for item in items]
        result = tuple(made)
        known[id(value)] = ((value, items), result)
        return result
    if kind == MAPPING:
        # Keys are hashable, and what is hashable is final.
        evaluation.charge(len(value))
        if final_types.issuperset(map(type, value.values())):
            return FrozenDict(value)
        if known is None:
            known = {}
        elif (met := known.get(id(value))) is not None:
            return met[1]
        depth += 1
        frozen = FrozenDict(
            {key: _finalize(item, evaluation, depth, known) for key, item in value.items()}
        )
        known[id(value)] = (value, frozen)
        return frozen
    if kind == SET:
        evaluation.charge(len(value))
        depth += 1
        return frozenset([_finalize(item, evaluation, depth, known) for item in value])
    if kind == CONTEXT:
        raise no_value(value)
    return value


def no_value(context: object) -> NoMatchingFunctionException:
    """The error for a context that is used as a value."""
    return NoMatchingFunctionException(
        f"{preview(context)} is not a value: it cannot be kept, passed on or returned",
        hint="let(…), with(…), def(…) and unpack(…) stand on the left of ->",
    )


def collect(iterable: Iterable[object], evaluation: Budget) -> list[Value]:
    """Everything a lazy sequence produces, as a list; at most `Limits.collection_items`."""
    limit = evaluation.max_items
    items = list(islice(iterable, limit + 1))
    if len(items) > limit:
        raise CollectionTooLargeException(
            f"a sequence has more than {limit} elements",
            hint="take fewer with limit(n), or raise the collection limit",
        )
    return items


def too_deep() -> DepthLimitExceeded:
    """The error for data that is nested too deep."""
    return DepthLimitExceeded(f"data nested more than {MAX_DEPTH} levels deep")


def missing_key(mapping: Mapping[object, object], key: object) -> NoSuchKey:
    """The error for a key that a mapping does not have."""
    what = "the mapping has no such key" if mapping else "the mapping is empty"
    # The suggestion is not computed for programs that catch the error.
    return NoSuchKey(f"{preview(key)}: {what}", suggest=lambda: _suggest_key(mapping, key))


def _suggest_key(mapping: Mapping[object, object], key: object) -> str | None:
    words = [other for other in islice(mapping, 200) if type(other) is str]
    if type(key) is str and len(key) < 100:
        from difflib import get_close_matches

        close = get_close_matches(key, words, n=1)
        if close:
            return f"did you mean {close[0]}?"
        if key.isascii() and key.isdecimal() and int(key) in mapping:
            return f"there is a key {key}, a number: write [{key}]"
    elif str(key) in words:
        return f"there is a key '{key}', a string"
    if not mapping:
        return None
    known = ", ".join(preview(other, 30) for other in islice(mapping, 8))
    return f"it has {known}{', …' if len(mapping) > 8 else ''}"


def describe(value: object) -> str:
    """`integer 5`, `list [1, 2]`, `null`: kind and preview, for messages about types."""
    kind = kind_of[type(value)]
    if kind & (NULL | FUNCTION):
        return KIND_NAMES[kind]
    return f"{KIND_NAMES[kind]} {preview(value)}"


#: Functions that show values of host classes in messages, where the host declares this harmless;
#: for other values messages show the name of the class.
host_previews: dict[type, Callable[[object], str]] = {}


def preview(value: object, width: int = 60) -> str:
    """A short text of a value for messages; never runs host code, never consumes a sequence."""
    text = _preview(value, 0)
    return text if len(text) <= width else text[: width - 1] + "…"


def _preview(value: Value, depth: int) -> str:
    kind = kind_of[type(value)]
    if kind & (NULL | BOOLEAN):
        return {None: "null", True: "true", False: "false"}[value]
    if kind == STRING:
        return repr(str(value[:80]))
    if kind == INTEGER:
        return repr(value) if value.bit_length() < 1000 else "a number of many digits"
    if kind & (FLOAT | DATETIME | TIMESPAN):
        return str(value)
    if kind & (LIST | SET):
        if depth > 2:
            return "[…]"
        shown = [_preview(item, depth + 1) for item in islice(value, 5)]
        return f"[{', '.join(shown)}{', …' if len(value) > 5 else ''}]"
    if kind == MAPPING:
        if depth > 2:
            return "{…}"
        pairs = islice(value.items(), 5)
        shown = [f"{_preview(k, depth + 1)} => {_preview(v, depth + 1)}" for k, v in pairs]
        return f"{{{', '.join(shown)}{', …' if len(value) > 5 else ''}}}"
    if kind == HOST:
        shown = [host_previews[base] for base in type(value).__mro__ if base in host_previews]
        return shown[0](value) if shown else f"<{type(value).__name__}>"
    return f"<{KIND_NAMES[kind]}>"
