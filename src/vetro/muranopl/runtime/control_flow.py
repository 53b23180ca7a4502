"""Functions that generated methods call for `For`, `Repeat`, `Match` and `Parallel`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from vetro.muranopl.values.containers import Value, preview
from vetro.yaql.values import FINAL_TYPES, finalize

if TYPE_CHECKING:
    from .run import Run


# -- loops ---------------------------------------------------------------------------------------


def paid_elements(run: Run, value: Value) -> Iterable[object]:
    """The elements for `For`, charged in advance. TypeError for a value without elements."""
    if value.__class__ is not tuple:
        value = iterable_value(value)
    run.fuel -= len(value)
    if run.fuel < 0:
        run.refuel()
    return value


def paid_turns(run: Run, count: Value) -> Iterable[object]:
    """The turns of `Repeat`, charged in advance; large numbers in parts."""
    if count.__class__ is int and 0 <= count <= _PART:
        run.fuel -= count
        if run.fuel < 0:
            run.refuel()
        return range(count)
    turns = repeat_count(count)
    if turns <= _PART:
        run.charge(turns)
        return range(turns)
    return _in_parts(run, turns)


def _in_parts(run: Run, turns: int) -> Iterable[int]:
    for first in range(0, turns, _PART):
        part = range(first, min(first + _PART, turns))
        run.charge(len(part))
        yield from part


_PART = 1000


def iterable_value(value: object) -> Collection[object]:
    """The elements for `For`. TypeError for a value without elements."""
    if isinstance(value, (tuple, Mapping, frozenset)):
        return cast("Collection[object]", value)
    raise TypeError(f"For cannot iterate over {preview(value)}: it is not a list, map or set")


def repeat_count(value: object) -> int:
    """The number of turns of `Repeat`. TypeError for a value that is not a number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return max(int(value), 0)
    raise TypeError(f"Repeat takes a number, not {preview(value)}")


def match_key(value: object) -> tuple[bool, object]:
    """A key of `Match`: equal numbers match; booleans are not numbers."""
    return value.__class__ is bool, value


# -- parallel branches ---------------------------------------------------------------------------


def run_parallel(run: Run, branches: Sequence[Callable[[], object]], limit: object) -> object:
    """Run branches; the first failure in list order is raised after all have ended.

    A branch returns None or the signal of its `Return`, `Break` or `Continue`; the first signal in
    list order is the result.
    """
    width: int | None = None
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"Limit of Parallel must be a positive integer, not {preview(limit)}")
        width = limit
    for signal in _results(run, branches, width):
        if signal is not None:
            return signal
    return None


def parallel_map(
    run: Run, function: Callable[[object], object], items: Sequence[object]
) -> tuple[Value, ...]:
    """Call a function for each item, each call in a green thread; results in order.

    The first error in this order is raised after all threads have ended.
    """

    def run_one(item: object) -> object:
        value = function(item)
        return value if value.__class__ in FINAL_TYPES else finalize(value, run)

    if not items:
        return ()
    limit = run.session.limits.parallel_branches
    return tuple(_results(run, [partial(run_one, item) for item in items], limit))


def _results(run: Run, branches: Sequence[Callable[[], object]], width: int | None) -> list[object]:
    threads = run.threads.join_all(branches, width)
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    return [thread.finished for thread in threads]
