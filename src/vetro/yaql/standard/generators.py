"""Generators (yaql.md section 6). Each counts what it produces: see `Limits.collection_items`."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from vetro.yaql.comparing import hashable
from vetro.yaql.errors import CollectionTooLargeException
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import ITERABLE
from vetro.yaql.registry import CURRENT, LEGACY, Registry
from vetro.yaql.signatures import Boolean, Integer, Lambda, Number
from vetro.yaql.values import Value, collect, kind_of

registry = Registry()


def metered(rt: Evaluation, source: Iterable[object]) -> Iterator[Value]:
    """`source`, charged per element and limited to the allowed size of a collection."""
    left = rt.max_items
    charge = rt.charge
    for item in source:
        left -= 1
        if left < 0:
            raise CollectionTooLargeException(
                f"a generator made more than {rt.max_items} elements",
                hint="take fewer with limit(n)",
            )
        charge(1)
        yield item


def _range(rt: Evaluation, start: int, stop: int, step: int) -> Value:
    if step == 0:
        raise ValueError("the step of range cannot be 0")
    found = range(start, stop, step)
    if not found:
        return iter(())
    size = (found[-1] - found[0]) // step + 1
    if size > rt.max_items:
        return metered(rt, found)
    rt.charge(size)
    return found


@registry.function("range", flavours=CURRENT)
def range_to(rt: Evaluation, stop: Integer) -> object:
    return _range(rt, 0, stop, 1)


@registry.function("range", flavours=LEGACY)
def range_list(rt: Evaluation, start: Integer, stop: Integer, step: Integer = 1) -> list[int]:
    return collect(_range(rt, start, stop, step), rt)


@registry.function("range", flavours=CURRENT)
def range_between(rt: Evaluation, start: Integer, stop: Integer, step: Integer = 1) -> object:
    return _range(rt, start, stop, step)


@registry.function("range", flavours=LEGACY)
def range_from(rt: Evaluation, start: Integer, stop: None = None) -> Iterator[int]:
    return metered(rt, _counting(start, 1))


@registry.function()
def sequence(rt: Evaluation, start: Number = 0, step: Number = 1) -> Iterator[Value]:
    return metered(rt, _counting(start, step))


def _counting(value: Value, step: Value) -> Iterator[Value]:
    while True:
        yield value
        value += step


@registry.function()
def generate(
    rt: Evaluation,
    initial: object,
    predicate: Lambda,
    producer: Lambda,
    selector: Lambda | None = None,
    decycle: Boolean = False,
) -> Iterator[object]:
    return metered(rt, _generated(rt, initial, predicate, producer, selector, decycle))


def _generated(
    rt: Evaluation,
    value: object,
    predicate: Callable[[object], object],
    producer: Callable[[object], object],
    selector: Callable[[object], object] | None,
    decycle: bool,
) -> Iterator[object]:
    seen: set[object] = set()
    while predicate(value):
        if type(value) is int:
            rt.check_bits(value.bit_length())
        if decycle:
            key = hashable(value, rt)
            if key in seen:
                return
            seen.add(key)
        yield value if selector is None else selector(value)
        value = producer(value)


@registry.function()
def generate_many(
    rt: Evaluation,
    initial: object,
    producer: Lambda,
    selector: Lambda | None = None,
    decycle: Boolean = False,
    depth_first: Boolean = False,
) -> Iterator[object]:
    return metered(rt, _generated_many(rt, initial, producer, selector, decycle, depth_first))


def _generated_many(
    rt: Evaluation,
    initial: object,
    producer: Callable[[Value], Value],
    selector: Callable[[Value], Value] | None,
    decycle: bool,
    depth_first: bool,
) -> Iterator[object]:
    seen: set[object] = set()
    queue: deque[object] = deque([initial])
    while queue:
        value = queue.popleft()
        if decycle:
            key = hashable(value, rt)
            if key in seen:
                continue
            seen.add(key)
        yield value if selector is None else selector(value)
        children = producer(value)
        if not kind_of[type(children)] & ITERABLE:
            raise TypeError("the producer of generateMany must return a sequence")
        made = list(metered(rt, children))
        rt.check_items(len(queue) + len(made))
        if depth_first:
            queue.extendleft(reversed(made))
        else:
            queue.extend(made)
