"""JSONPath expressions as closures over a model (§4).

A query gives pairs of cursor and value, in document order. Filters are closures ``value -> bool`` or
``value -> value``; what is missing is ``None`` at any depth, and comparison never raises.
"""

# Casts in these loops cost more than what they do: values of isinstance stay of unknown content.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import cast

from vetro.workflows.paths import Cursor, Step, base_of, follow
from vetro.workflows.query_syntax import (
    All,
    Arithmetic,
    Attribute,
    Comparison,
    Computed,
    Filter,
    Index,
    Literal,
    Logic,
    Name,
    Node,
    Not,
    Query,
    Selector,
    Slice,
    Union,
    parse_query,
    quoted,
)
from vetro.workflows.values import Json, equal

Match = tuple[Cursor, Json]
Test = Callable[[Json], Json]
Select = Callable[[Cursor, Json], Iterable[Match]]


class CompiledQuery:
    """An expression, ready to be used on any model."""

    def __init__(self, query: Query) -> None:
        self.text = query.text
        self.up = query.up
        self._steps = [(_selector(one.selector), one.deep) for one in query.segments]
        first = query.segments[0] if query.segments else None
        # In a rule `$` is a list with the object in it, and `$.` and `$['name']` mean that object.
        self._wrapped = first is not None and not (first.dotted or isinstance(first.selector, Name))

    def match(self, root: Json, cursor: Cursor) -> list[Match]:
        """For `rule`: ``$`` is a list whose only item is the object at the cursor."""
        base = base_of(cursor, self.up)
        value = follow(root, base)
        if not self._wrapped:
            return self._select([(base, value)], self._steps)
        # The wrapping list adds a step of its own, which the cursors of the matches do not have.
        select = self._steps[0][0]
        first: list[Match] = [(base, value)] if any(select((), [value])) else []
        return self._select(first, self._steps[1:])

    def select(self, root: Json, cursor: Cursor) -> list[Match]:
        """For `select-all` and `select-single`: ``$`` is the addressed object."""
        base = base_of(cursor, self.up)
        return self._select([(base, follow(root, base))], self._steps)

    def _select(self, matches: list[Match], steps: list[tuple[Select, bool]]) -> list[Match]:
        for select, deep in steps:
            if deep:
                matches = [node for place, value in matches for node in _descend(place, value)]
            matches = [match for place, value in matches for match in select(place, value)]
        return matches


def compile_query(text: str, optional: bool = False) -> CompiledQuery:
    """An expression from its text; those of short ones are kept. Raises: WorkflowSyntaxError."""
    compiled = _short_query if len(text) <= 1000 else _short_query.__wrapped__
    return compiled(text, optional)


@lru_cache(maxsize=4096)
def _short_query(text: str, optional: bool) -> CompiledQuery:
    return CompiledQuery(parse_query(text, optional))


def _descend(place: Cursor, value: Json) -> Iterator[Match]:
    """Self, then the children depth-first; iterative, for models of any depth."""
    pending: list[Match] = [(place, value)]
    while pending:
        place, value = pending.pop()
        yield place, value
        children = list(_all(place, value))
        pending.extend(reversed(children))


def _all(place: Cursor, value: Json) -> Iterable[Match]:
    if isinstance(value, dict):
        known = cast("dict[Step, Json]", value)
        return [((*place, key), item) for key, item in known.items()]
    if isinstance(value, list):
        items = cast("list[Json]", value)
        return [((*place, index), item) for index, item in enumerate(items)]
    return ()


def _selector(selector: Selector) -> Select:
    if isinstance(selector, Name):
        return _name(selector.name)
    if isinstance(selector, Index):
        return _index(selector.index)
    if isinstance(selector, Slice):
        return _slice(slice(selector.start, selector.stop, selector.step))
    if isinstance(selector, All):
        return _all
    if isinstance(selector, Union):
        return _union([_selector(item) for item in selector.items])
    if isinstance(selector, Filter):
        return _filter(_value(selector.condition))
    return _computed(selector)


def _name(name: str) -> Select:
    def select(place: Cursor, value: Json) -> Iterable[Match]:
        if isinstance(value, dict) and name in value:
            return (((*place, name), cast("dict[str, Json]", value)[name]),)
        return ()

    return select


def _index(index: int) -> Select:
    def select(place: Cursor, value: Json) -> Iterable[Match]:
        if not isinstance(value, list):
            return ()
        items = cast("list[Json]", value)
        real = index + len(items) if index < 0 else index
        return (((*place, real), items[real]),) if 0 <= real < len(items) else ()

    return select


def _slice(wanted: slice) -> Select:
    def select(place: Cursor, value: Json) -> Iterable[Match]:
        if not isinstance(value, list):
            return ()
        items = cast("list[Json]", value)
        return [((*place, index), items[index]) for index in range(*wanted.indices(len(items)))]

    return select


def _union(selects: list[Select]) -> Select:
    def select(place: Cursor, value: Json) -> Iterable[Match]:
        return [match for one in selects for match in one(place, value)]

    return select


def _filter(condition: Test) -> Select:
    def select(place: Cursor, value: Json) -> Iterable[Match]:
        if isinstance(value, list):
            items = cast("list[Json]", value)
            return [((*place, index), item) for index, item in enumerate(items) if condition(item)]
        if isinstance(value, dict):
            known = cast("dict[Step, Json]", value)
            return [((*place, key), item) for key, item in known.items() if condition(item)]
        return ()

    return select


def _computed(selector: Computed) -> Select:
    expression = _value(selector.expression)

    def select(place: Cursor, value: Json) -> Iterable[Match]:
        key = expression(value)
        if isinstance(key, str):
            return _name(key)(place, value)
        if isinstance(key, float) and key.is_integer():
            key = int(key)
        if isinstance(key, int) and not isinstance(key, bool):
            return _index(key)(place, value)
        return ()

    return select


# conditions


def _value(node: Node) -> Test:
    if isinstance(node, Literal):
        value = node.value
        return lambda _: value
    if isinstance(node, Attribute):
        return _attribute(node.steps)
    if isinstance(node, Not):
        operand = _value(node.operand)
        return lambda value: not operand(value)
    if isinstance(node, Logic):
        return _logic(node)
    if isinstance(node, Comparison):
        return _comparison(node)
    return _arithmetic(node)


def _attribute(steps: tuple[str | int, ...]) -> Test:
    """What stands below a value; ``length`` is a size where no such key is."""
    if not steps:
        return lambda value: value
    if "length" not in steps and all(isinstance(step, str) for step in steps):
        # Conditions look at maps nearly always, one or two levels deep.
        if len(steps) == 1:
            (only,) = steps
            return lambda value: value.get(only) if isinstance(value, dict) else None
        *before, last = steps

        def get_in_maps(value: Json) -> Json:
            for step in before:
                if not isinstance(value, dict):
                    return None
                value = value.get(step)
            return value.get(last) if isinstance(value, dict) else None

        if len(before) > 1:
            return get_in_maps
        first = before[0]

        def get_below(value: Json) -> Json:
            if isinstance(value, dict):
                inner = value.get(first)
                if isinstance(inner, dict):
                    return inner.get(last)
            return None

        return get_below

    def get(value: Json) -> Json:
        for step in steps:
            if isinstance(value, dict):
                found = value.get(step)
                value = len(value) if step == "length" and step not in value else found
            elif step == "length" and isinstance(value, (list, str)):
                value = len(value)
            elif isinstance(value, list) and isinstance(step, int):
                value = value[step] if -len(value) <= step < len(value) else None
            else:
                return None
        return value

    return get


def _logic(node: Logic) -> Test:
    operands = [_value(one) for one in node.operands]
    if node.operator == "and" and len(operands) == 2:
        first, second = operands
        return lambda value: first(value) and second(value)
    stop_at = node.operator == "or"

    def decide(value: Json) -> Json:
        result: Json = None
        for operand in operands:
            result = operand(value)
            if bool(result) is stop_at:
                break
        return result

    return decide


_ORDERS: dict[str, Callable[[Json, Json], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _comparison(node: Comparison) -> Test:
    left, right = _value(node.left), _value(node.right)
    constant = node.right.value if isinstance(node.right, Literal) else None
    match node.operator:
        case "==":
            if isinstance(constant, str):
                return lambda value: left(value) == constant
            return lambda value: equal(left(value), right(value))
        case "!=":
            return lambda value: not equal(left(value), right(value))
        case "is":
            return lambda value: left(value) is constant
        case "is-not":
            return lambda value: left(value) is not constant
        case "in":
            return lambda value: _contains(right(value), left(value))
        case "not-in":
            return lambda value: not _contains(right(value), left(value))
        case _:
            order = _ORDERS[node.operator]
            return lambda value: _ordered(order, left(value), right(value))


def _contains(container: Json, item: Json) -> bool:
    if isinstance(container, str):
        return isinstance(item, str) and item in container
    if isinstance(container, dict):
        return isinstance(item, str) and item in container
    if isinstance(container, list):
        return any(equal(one, item) for one in cast("list[Json]", container))
    return False


def _ordered(order: Callable[[Json, Json], bool], left: Json, right: Json) -> bool:
    kind = _kind(left)
    return kind is not None and kind is _kind(right) and order(left, right)


def _kind(value: Json) -> type | None:
    """What values can be ordered with; ``None``: nothing."""
    if isinstance(value, (bool, str)):
        return type(value)
    return int if isinstance(value, (int, float)) else None


def _arithmetic(node: Arithmetic) -> Test:
    left, right = _value(node.left), _value(node.right)
    sign = node.operator

    def compute(value: Json) -> Json:
        one, other = left(value), right(value)
        if _kind(one) is not int or _kind(other) is not int:
            return None
        if sign == "+":
            return one + other
        if sign == "-":
            return one - other
        if sign == "*":
            return one * other
        if not other:
            return None
        return one // other if sign == "/" else one % other

    return compute


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_NAME = re.compile(r"[\w-]+")
_CONSTANTS = {"True", "False", "None"}


def join_query(pieces: list[tuple[bool, str]]) -> str:
    """The expression that a `parameter` puts together (§4, "Beyond upstream"), of texts that stand in the
    file (``True``) and of values (``False``).

    What comes from the model is data: inside a quoted literal it is escaped, in a condition it becomes a
    literal, between dots and brackets a name. It can neither end a literal nor add to the expression.
    """
    result: list[str] = []
    quote = ""
    begun = False
    depth = 0
    escaped = False
    for written, text in pieces:
        if not written:
            if quote:
                # A backslash before a value stands for itself: it must not reach into the value.
                result.append(("\\" if escaped else "") + quoted(text)[1:-1])
                escaped = False
            elif not begun:
                # Before `$`: the author builds the beginning of a path of parts.
                result.append(text)
                begun = "$" in text
            else:
                _embed(result, text, in_condition=depth > 0)
            continue
        for sign in text:
            if quote:
                if escaped or sign == "\\":
                    escaped = not escaped
                elif sign == quote:
                    quote = ""
            elif sign in "'\"":
                quote = sign
            elif sign == "(":
                depth += 1
            elif sign == ")":
                depth -= 1
            elif sign == "$":
                begun = True
        result.append(text)
    return "".join(result)


def _embed(result: list[str], text: str, *, in_condition: bool) -> None:
    before = "".join(result).rstrip()
    if before.endswith("."):
        if _NAME.fullmatch(text):
            result.append(text)
        else:
            # `.name` with odd characters is `['name']`.
            result[:] = [before[:-2] + ".." if before.endswith("..") else before[:-1]]
            result.append(f"[{quoted(text)}]")
    elif _NUMBER.fullmatch(text) or (in_condition and text in _CONSTANTS):
        result.append(text)
    else:
        result.append(quoted(text))
