"""Stand-alone expressions: compile once, evaluate many times; results are plain Python data (yaql.md
section 3, output conversion)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from vetro.yaql.values import Value

from . import ast
from .codegen import ExpressionCodegen
from .errors import DepthLimitExceeded, MemoryQuotaExceededException, YaqlException
from .evaluation import DEFAULT_LIMITS, Evaluation, Limits
from .grammar import STANDARD, Grammar
from .kinds import CONTEXT, ITERABLE, LIST, MAPPING, SET
from .library import Library
from .parser import parse
from .slots import PRELUDE, Emitter, bind_slots, locate
from .standard import standard_library
from .values import MAPPING_TYPES, MAX_DEPTH, collect, kind_of, no_value, too_deep


def to_plain(value: object, evaluation: Evaluation) -> object:
    """`value` as plain, mutable Python data for a host (yaql.md section 3, output conversion).

    Sequences and sets become lists, mappings dicts; keys stay hashable. Host values pass as they
    are. Counts towards `Limits.memory_bytes`.
    """
    if type(value) in _PLAIN:
        return value
    return _to_plain(value, evaluation, 0)


_PLAIN = frozenset([type(None), bool, int, float, str])


def _to_plain(value: Value, evaluation: Evaluation, depth: int) -> object:
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in _PLAIN:
        if cls is str:
            evaluation.account(len(value))
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    kind = kind_of[cls]
    if kind & ITERABLE:
        items: Iterable[Value] = value if kind & (LIST | SET) else collect(value, evaluation)
        result = list(items)
        classes = set(map(type, result))
        if _PLAIN.issuperset(classes):
            evaluation.account(8 * len(result) + 56 + _characters(result, classes))
            return result
        evaluation.account(8 * len(result) + 56)
        depth += 1
        if len(classes) == 1 and not classes.isdisjoint(MAPPING_TYPES):
            return _plain_rows(result, evaluation, depth)
        return [_to_plain(item, evaluation, depth) for item in result]
    if kind == MAPPING:
        return _plain_mapping(value, evaluation, depth)
    if kind == CONTEXT:
        raise no_value(value)
    return value


def _plain_rows(
    rows: list[Mapping[Value, Value]], evaluation: Evaluation, depth: int
) -> list[dict[object, object]]:
    """Convert many mappings; most are small and hold plain values."""
    made: list[dict[Value, Value]] = []
    for row in rows:
        if len(row) <= _FEW and depth <= MAX_DEPTH:
            size = 64 * len(row) + 64
            for item in row.values():
                cls = type(item)  # pyright: ignore[reportUnknownVariableType]
                if cls is str:
                    size += len(item)
                elif cls not in _SMALL:
                    break
            else:
                evaluation.account(size)
                made.append({**row})
                continue
        made.append(_plain_mapping(row, evaluation, depth))
    return made


def _plain_mapping(
    value: Mapping[Value, Value], evaluation: Evaluation, depth: int
) -> dict[object, object]:
    # Keys are hashable, and what is hashable is final.
    values = value.values()
    classes = set(map(type, values))
    if _PLAIN.issuperset(classes):
        evaluation.account(64 * len(value) + 64 + _characters(values, classes))
        return dict(value)
    evaluation.account(64 * len(value) + 64)
    if depth > MAX_DEPTH:
        raise DepthLimitExceeded(f"data nested more than {MAX_DEPTH} levels deep")
    depth += 1
    return {
        key: item if type(item) in _SMALL else _to_plain(item, evaluation, depth)
        for key, item in value.items()
    }


_SMALL = frozenset([type(None), bool, int, float])
_FEW = 8


def _characters(values: Iterable[Value], classes: set[type]) -> int:
    """The total length of all strings among scalars."""
    if str not in classes:
        return 0
    if len(classes) == 1:
        return sum(map(len, values))
    return sum([len(item) for item in values if type(item) is str])


_FILE = "<yaql>"
MOST_KEPT = 4_000
"""The most characters of an expression that is kept compiled."""


class Expression:
    """A compiled expression. Immutable; may be shared between threads.

    It was compiled from `text`, `tree` and `library`.
    """

    __slots__ = ("_function", "_slots", "_source", "library", "text", "tree")

    def __init__(self, text: str, tree: ast.Expression, library: Library) -> None:
        self.text = text
        self.tree = tree
        self.library = library
        self._function: Callable[[Evaluation, Value], Value] = self._compile_on_first_use
        self._source = ""
        self._slots: list[Any] = []

    def _compile_on_first_use(self, rt: Evaluation, d: object) -> object:
        emitter = Emitter()
        text = ExpressionCodegen(emitter, self.library).expression(self.tree).text
        if self.library.is_overridden("#finalize", False):
            text = f"{emitter.slot('function', ('#finalize', ('',)), 0)}(rt, {text})"
        self._source = f"def expression(rt, d): return {text}"
        self._slots = emitter.slots
        namespace: dict[str, Any] = {
            "__builtins__": {},
            **PRELUDE,
            **bind_slots(emitter.slots, self.library),
        }
        exec(compile(self._source, _FILE, "exec"), namespace)  # noqa: S102 - our own text
        self._function = namespace["expression"]
        return self._function(rt, d)

    @property
    def python_source(self) -> str:
        """The generated Python text, after the first run; for inspection and tests."""
        return self._source

    def evaluate(
        self,
        data: object = None,
        variables: dict[str, object] | None = None,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Value:
        """The value for `data` as `$` and for `variables` (names without dollar), as plain data.

        `data` is never changed or copied; the result's sequences and sets are lists, its mappings
        dicts. Raises `YaqlException` and the Python exceptions that `errors` names; each has a note
        with the place in the expression.
        """
        rt = Evaluation(self.library, limits, variables)
        return self.run(rt, data)

    def run(self, rt: Evaluation, data: object = None) -> Value:
        """Like `evaluate`, in an evaluation made by the caller."""
        try:
            value = self._function(rt, data)
            if type(value) in _PLAIN:
                return value
            return to_plain(value, rt)
        except Exception as error:
            failure = _in_limits(error)
            self._explain(failure)
            if failure is error:
                raise
            raise failure from None

    def run_raw(self, rt: Evaluation, data: object = None) -> object:
        """The value in the form of the language: sequences may be lazy."""
        try:
            return self._function(rt, data)
        except Exception as error:
            failure = _in_limits(error)
            self._explain(failure)
            if failure is error:
                raise
            raise failure from None

    def _explain(self, error: Exception) -> None:
        position = error.position if isinstance(error, YaqlException) else None
        if position is None:
            position = locate(
                error.__traceback__, [self._source], None, self._slots, filename=_FILE
            )
            if position is not None and isinstance(error, YaqlException):
                error.position = position
        place = ""
        if position is not None:
            line, column = ast.line_and_column(self.text, position)
            place = f", line {line}, column {column}"
        note = f"in expression `{self.text}`{place}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _in_limits(error: Exception) -> Exception:
    """Translate an error about Python's own limits to a `LimitException`."""
    if isinstance(error, RecursionError):
        return DepthLimitExceeded("the evaluation is nested deeper than Python allows")
    if isinstance(error, MemoryError):
        return MemoryQuotaExceededException("there is not enough memory for the evaluation")
    return error


@lru_cache(maxsize=4096)
def _compile(text: str, library: Library, grammar: Grammar) -> Expression:
    return Expression(text, parse(text, grammar), library)


def compile_expression(
    text: str,
    *,
    flavour: str = "current",
    library: Library | None = None,
    grammar: Grammar = STANDARD,
) -> Expression:
    """The expression of a text; equal texts of at most `MOST_KEPT` characters give the same object.

    `flavour`: `current` or `legacy` (yaql.md section 8); ignored when a `library` is given, which
    has its own. `grammar`: the operator table. Raises `YaqlParsingException`.
    """
    compiled = _compile if len(text) <= MOST_KEPT else _compile.__wrapped__
    return compiled(text, library if library is not None else standard_library(flavour), grammar)


def evaluate(text: str, data: object = None, **variables: object) -> Value:
    """Compile and evaluate in one call: `evaluate("$.a + $b", {"a": 1}, b=2)` is 3."""
    return compile_expression(text).evaluate(data, variables or None)
