"""Operators on values of any type: the slow path of generated code (yaql.md section 5).

Generated code handles the frequent case (both operands plain integers, for example) in place. These
functions handle all other cases: they check the kinds of the operands, keep sizes within the
limits, and finally use the library, where a host may have registered a meaning for its own types.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

from vetro.yaql.values import Value

from .comparing import equal, hashable
from .errors import (
    ArgumentValueException,
    LimitException,
    NoFunctionRegisteredException,
    NoMatchingFunctionException,
    YaqlException,
    described_function,
)
from .evaluation import Evaluation
from .inline_caches import function_site
from .kinds import (
    BOOLEAN,
    DATETIME,
    HOST,
    INTEGER,
    ITERABLE,
    LIST,
    MAPPING,
    NULL,
    NUMBER,
    REGEX,
    SET,
    STRING,
    TIMESPAN,
)
from .library import Library
from .regex import compile_pattern, essence, is_found, safe_length
from .sequences import linked
from .values import MAPPING_TYPES, FrozenDict, describe, finalize, kind_of, missing_key, preview

Operator = Callable[[Evaluation, Value, Value], Value]
_OTHER_NAMES = {"=": "*equal", "!=": "*not_equal"}


def registered_name(library: Library, symbol: str) -> str:
    """The name under which a host registers a meaning of the infix operator."""
    other = _OTHER_NAMES.get(symbol)
    if other is not None and library.is_overridden(other, False):
        return other
    return f"#operator_{symbol}"


def _registered(rt: Evaluation, name: str, *operands: object) -> object:
    """Apply the operator's meaning that a host registered, or raise the error for a missing one."""
    if rt.library.has(name, False):
        site = function_site(rt.library, name, ("",) * len(operands), 0)
        return finalize(site(rt, *operands), rt)
    kinds = ", ".join(map(describe, operands))
    raise NoMatchingFunctionException(
        f"No {described_function(name)} matches supplied arguments: {kinds}",
        hint=_operand_hint(name, [kind_of[type(operand)] for operand in operands]),
    )


def _operand_hint(name: str, kinds: list[int]) -> str | None:
    if STRING in kinds and any(kind & (NUMBER | BOOLEAN | NULL) for kind in kinds):
        if name == "#operator_+":
            return "values are not converted to text automatically: write str(…)"
        if name.startswith("#operator_"):
            return "text and numbers cannot be combined: convert one with int(…) or str(…)"
    if BOOLEAN in kinds:
        return "booleans are not numbers: write int(…)"
    if MAPPING in kinds and name == "#operator_in":
        return "use containsKey(…) or keys()"
    return None


def is_iterable(rt: Evaluation, kind: int) -> bool:
    """Whether values of a kind count as iterable; mappings do in the legacy flavour."""
    return bool(kind & ITERABLE) or (kind == MAPPING and rt.library.is_legacy)


def add(rt: Evaluation, left: Value, right: Value) -> Value:
    """`+`"""
    if type(left) is type(right) is str:
        rt.check_string(len(left) + len(right))
        return left + right
    if type(left) is type(right) is tuple:
        rt.check_items(len(left) + len(right))
        return left + right
    left_kind, right_kind = kind_of[type(left)], kind_of[type(right)]
    if left_kind & NUMBER and right_kind & NUMBER:
        return left + right
    if left_kind == STRING and right_kind == STRING:
        rt.check_string(len(left) + len(right))
        return left + right
    if left_kind == MAPPING and right_kind == MAPPING:
        rt.check_items(len(left) + len(right))
        if type(left) is FrozenDict and type(right) is FrozenDict:
            merged = FrozenDict(left)
            dict.update(merged, right)
            return merged
        return {**left, **right}
    if is_iterable(rt, left_kind) and is_iterable(rt, right_kind):
        if left_kind == LIST and right_kind == LIST:
            rt.check_items(len(left) + len(right))
            joined = [*left, *right]
            return tuple(joined) if type(left) is tuple and type(right) is tuple else joined
        if left_kind == SET and right_kind == SET:
            return [*left, *right]
        return linked(rt, chain(left, right), left, right)
    if (left_kind == TIMESPAN and right_kind & (TIMESPAN | DATETIME)) or (
        left_kind == DATETIME and right_kind == TIMESPAN
    ):
        return left + right
    return _registered(rt, "#operator_+", left, right)


def subtract(rt: Evaluation, left: Value, right: Value) -> object:
    """`-`"""
    left_kind, right_kind = kind_of[type(left)], kind_of[type(right)]
    if left_kind & NUMBER and right_kind & NUMBER:
        return left - right
    if left_kind == SET and right_kind == SET:
        return frozenset(hashable(left, rt)) - hashable(right, rt)
    if (left_kind == DATETIME and right_kind & (DATETIME | TIMESPAN)) or (
        left_kind == TIMESPAN and right_kind == TIMESPAN
    ):
        return left - right
    return _registered(rt, "#operator_-", left, right)


def multiply(rt: Evaluation, left: Value, right: Value) -> object:
    """`*`"""
    left_kind, right_kind = kind_of[type(left)], kind_of[type(right)]
    if left_kind & NUMBER and right_kind & NUMBER:
        if left_kind == INTEGER and right_kind == INTEGER:
            rt.check_bits(left.bit_length() + right.bit_length())
        return left * right
    if right_kind & (STRING | LIST) and left_kind == INTEGER:
        left, right, left_kind, right_kind = right, left, right_kind, left_kind
    if right_kind == INTEGER:
        if left_kind == STRING:
            rt.check_string(len(left) * max(right, 0))
            return left * right
        if left_kind == LIST:
            rt.check_items(len(left) * max(right, 0))
            return left * right
    if left_kind == TIMESPAN and right_kind & NUMBER:
        return left * right
    if right_kind == TIMESPAN and left_kind & NUMBER:
        return right * left
    return _registered(rt, "#operator_*", left, right)


def divide(rt: Evaluation, left: Value, right: Value) -> object:
    """`/`: of two integers the floor of the quotient."""
    left_kind, right_kind = kind_of[type(left)], kind_of[type(right)]
    if left_kind == INTEGER and right_kind == INTEGER:
        return left // right
    if left_kind & NUMBER and right_kind & NUMBER:
        return left / right
    if left_kind == TIMESPAN and right_kind & (NUMBER | TIMESPAN):
        return left / right
    return _registered(rt, "#operator_/", left, right)


def modulo(rt: Evaluation, left: Value, right: Value) -> object:
    """`mod`, with the sign of the divisor."""
    if kind_of[type(left)] & NUMBER and kind_of[type(right)] & NUMBER:
        return left % right
    return _registered(rt, "#operator_mod", left, right)


def negate(rt: Evaluation, value: Value) -> object:
    """Prefix `-`."""
    if kind_of[type(value)] & (NUMBER | TIMESPAN):
        return -value
    return _registered(rt, "#unary_operator_-", value)


def plus(rt: Evaluation, value: object) -> object:
    """Prefix `+`."""
    if kind_of[type(value)] & (NUMBER | TIMESPAN):
        return value
    return _registered(rt, "#unary_operator_+", value)


def _ordering(symbol: str, compare: Callable[[Value, Value], bool]) -> Operator:
    name = f"#operator_{symbol}"
    at_nulls = compare(0, 0)
    null_first, null_second = compare(0, 1), compare(1, 0)

    def order(rt: Evaluation, left: object, right: object) -> Value:
        left_kind, right_kind = kind_of[type(left)], kind_of[type(right)]
        if (left_kind & NUMBER and right_kind & NUMBER) or (
            left_kind == right_kind and left_kind & (STRING | SET | DATETIME | TIMESPAN)
        ):
            return compare(left, right)
        if left_kind == NULL and right_kind != HOST:
            return at_nulls if right_kind == NULL else null_first
        if right_kind == NULL and left_kind != HOST:
            return null_second
        return _registered(rt, name, left, right)

    order.__name__ = compare.__name__
    return order


less = _ordering("<", operator.lt)
less_or_equal = _ordering("<=", operator.le)
greater = _ordering(">", operator.gt)
greater_or_equal = _ordering(">=", operator.ge)


def equals(rt: Evaluation, left: object, right: object) -> object:
    """`=`"""
    return equal(left, right, rt)


def not_equals(rt: Evaluation, left: object, right: object) -> object:
    """`!=`"""
    return not equal(left, right, rt)


def contains(rt: Evaluation, left: Value, right: Value) -> object:
    """`in`"""
    right_kind = kind_of[type(right)]
    if right_kind == STRING and kind_of[type(left)] == STRING:
        return left in right
    if is_iterable(rt, right_kind):
        return has_member(rt, right, left)
    return _registered(rt, "#operator_in", left, right)


def has_member(rt: Evaluation, collection: Iterable[object], value: object) -> bool:
    """Whether a collection holds a value equal to `value`."""
    wanted = hashable(value, rt)
    if isinstance(collection, (tuple, frozenset, FrozenDict)):
        rt.charge(len(cast("Sequence[object]", collection)))
        return wanted in collection
    return any(hashable(item, rt) == wanted for item in collection)


def _matching(symbol: str, expected: bool) -> Operator:
    name = f"#operator_{symbol}"

    def match(rt: Evaluation, left: Value, right: Value) -> Value:
        right_kind = kind_of[type(right)]
        if kind_of[type(left)] == STRING and right_kind & (STRING | REGEX):
            pattern = compile_pattern(right) if right_kind == STRING else right
            return is_found(rt, pattern, left) is expected
        return _registered(rt, name, left, right)

    return match


matches = _matching("=~", True)
matches_not = _matching("!~", False)


def pattern_site(text: str) -> Callable[[Evaluation], Value]:
    """`regex('pattern')` for one pattern; a malformed one fails when it is called."""
    try:
        compiled = compile_pattern(text)
    except ArgumentValueException:
        return lambda _rt: compile_pattern(text)
    safe_length(compiled)
    return lambda _rt: compiled


def match_site(symbol: str, pattern_text: str) -> Callable[[Evaluation, Value], Value]:
    """`left =~ 'pattern'` for one pattern."""
    general = matches if symbol == "=~" else matches_not
    expected = symbol == "=~"
    try:
        pattern = essence(compile_pattern(pattern_text))
    except ArgumentValueException:
        return lambda rt, left: general(rt, left, pattern_text)
    find = pattern.search
    # Longer texts are charged by their length.
    longest = min(safe_length(pattern), 255)

    def match(rt: Evaluation, left: Value) -> Value:
        if type(left) is str and len(left) <= longest:
            rt.fuel -= 1
            return (find(left) is not None) is expected
        return general(rt, left, pattern_text)

    return match


def checked_integer(rt: Evaluation, value: int) -> int:
    """`value`, unless it has grown beyond the limit."""
    rt.check_bits(value.bit_length())
    return value


def checked_string(rt: Evaluation, value: str) -> str:
    """`value`, unless it has grown beyond the limit."""
    rt.check_string(len(value))
    return value


def index(rt: Evaluation, target: Value, key: Any) -> Value:
    """`target[key]` of the current flavour."""
    kind = kind_of[type(target)]
    if kind == LIST:
        if kind_of[type(key)] == INTEGER:
            try:
                return target[key]
            except IndexError:
                raise IndexError(
                    f"index {key} is outside of a list of {len(target)} elements"
                ) from None
    elif kind == MAPPING:
        key = hashable(key, rt)
        if key not in target:
            raise missing_key(target, key)
        return target[key]
    return _registered(rt, "#indexer", target, key)


def index_or_default(rt: Evaluation, target: Value, key: Any, default: Value) -> object:
    """`target[key, default]` of a mapping."""
    if kind_of[type(target)] == MAPPING:
        return target.get(hashable(key, rt), default)
    return _registered(rt, "#indexer", target, key, default)


def legacy_index(
    rt: Evaluation,
    target: Value,
    outer: object,
    each: Callable[[Value], Value],
    plain_key: Callable[[object], object] | None = None,
) -> object:
    """`target[expression]` of the legacy flavour: an element of a list, else a filter (section 8).

    `each` evaluates the expression for a `$`; `outer` is the `$` around the index. `plain_key` is
    the same if the expression is a word, a constant or a variable: for a mapping with such a key a
    look-up was probably intended, and the host decides (`Evaluation.legacy_lookup`).
    """
    kind = kind_of[type(target)]
    if kind == LIST:
        position: Value = None
        try:
            position = each(outer)
        except LimitException:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError, YaqlException):
            # The expression fails with the outer `$`: it is a filter.
            position = None
        if type(position) is int:
            try:
                return target[position]
            except IndexError:
                raise IndexError(
                    f"index {position} is outside of a list of {len(target)} elements"
                ) from None
        rt.charge(len(target))
        return filter(each, target)
    if kind == MAPPING and plain_key is not None:
        key = hashable(plain_key(outer), rt)
        if key in target and rt.legacy_lookup(key):
            return target[key]
    if kind & ITERABLE or kind == MAPPING:
        return linked(rt, filter(each, target), target)
    return _registered(rt, "#indexer", target, each(outer))


def property_of(rt: Evaluation, target: Value, name: str, position: int | None = None) -> object:
    """`target.name`; `position` is its place in the text."""
    kind = kind_of[type(target)]
    if kind == MAPPING:
        if rt.library.is_legacy:
            return target.get(name)
        if name not in target:
            raise missing_key(target, name)
        return target[name]
    if kind & ITERABLE:
        if kind & (LIST | SET):
            rt.charge(len(target))
        return linked(rt, _property_of_each(rt, target, name, position), target)
    return special_property(rt, target, name, kind)


def _property_of_each(
    rt: Evaluation, items: Iterable[Value], name: str, position: int | None
) -> Iterator[object]:
    try:
        for item in items:
            if type(item) in MAPPING_TYPES and name in item:
                yield item[name]
            else:
                yield property_of(rt, item, name)
    except YaqlException as error:
        # The expression may already have returned: set the place here.
        if error.position is None:
            error.position = position
        raise


def special_property(rt: Evaluation, target: object, name: str, kind: int) -> object:
    """Properties of dates, times and host values."""
    full = f"#property#{name}"
    if (
        kind & (DATETIME | TIMESPAN | REGEX) or rt.library.is_overridden(full, False)
    ) and rt.library.has(full, False):
        return function_site(rt.library, full, ("",), 0)(rt, target)
    if kind == HOST:
        return rt.host_property(target, name)
    raise NoFunctionRegisteredException(
        f'Unknown function "{full}": cannot read property {name} of {preview(target)}',
        hint=f"write ?.{name} where it may be null" if kind == NULL else None,
    )


def key_of(rt: Evaluation, key: object) -> object:
    """A computed key of a mapping literal."""
    return finalize(key, rt)


OPERATORS: dict[str, Operator] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "mod": modulo,
    "<": less,
    "<=": less_or_equal,
    ">": greater,
    ">=": greater_or_equal,
    "=": equals,
    "!=": not_equals,
    "in": contains,
    "=~": matches,
    "!~": matches_not,
}
UNARY: dict[str, Callable[[Evaluation, Value], Value]] = {"-": negate, "+": plus}
RESULT_KINDS: dict[str, int] = {
    "-": NUMBER | SET | DATETIME | TIMESPAN | HOST,
    "*": NUMBER | STRING | LIST | TIMESPAN | HOST,
    "/": NUMBER | TIMESPAN | HOST,
    "mod": NUMBER | HOST,
    "=": BOOLEAN,
    "!=": BOOLEAN,
    **dict.fromkeys(("<", "<=", ">", ">=", "in", "=~", "!~"), BOOLEAN | HOST),
}
