"""Columns of a fleet: one value per server, never modified in place.

A change creates a new column (a copy of 5,000 codes takes 2 µs), so a holder of an old one, such as
an explanation that is rendered later, still reads the values of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vetro.compute.allocation.capacity import LIMIT

Mask = NDArray[np.bool_]
Indices = NDArray[np.int64]
Floats = NDArray[np.float64]
Verdict = Callable[[Any], str | None]

#: The number of judgements that a column caches before it clears the cache.
MEMORY = 512
#: Positions occupy the low bits of a sort key.
POSITION_BITS = 20
assert LIMIT << POSITION_BITS < 2**62


@dataclass(frozen=True)
class Judgement:
    """A filter's answer for a whole column: who stays, and the reasons for the others."""

    mask: Mask
    codes: NDArray[np.int32]
    texts: Sequence[str | None]

    def text_of(self, index: int) -> str | None:
        """The reason for one server."""
        return self.texts[int(self.codes[index])]


class Values:
    """The distinct values of a column, numbered; values are only ever added."""

    def __init__(self) -> None:
        self.items: list[Hashable] = []
        self.codes: dict[Hashable, int] = {}

    def code(self, value: Hashable) -> int:
        """The number of ``value``."""
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = len(self.items)
            self.items.append(value)
        return code


class Column:
    """A facet of every server, as numbers of distinct values."""

    __slots__ = ("_judged", "codes", "values")

    def __init__(self, codes: NDArray[np.int32], values: Values) -> None:
        self.codes = codes
        self.values = values
        self._judged: dict[Hashable, Judgement] = {}

    @classmethod
    def of(cls, items: Sequence[Hashable]) -> Column:
        """A column of these values."""
        values = Values()
        code = values.code
        return cls(np.fromiter((code(item) for item in items), np.int32, len(items)), values)

    def patched(self, where: Indices, items: Sequence[Hashable]) -> Column:
        """The column with other values at some places; the same column when they are equal."""
        code = self.values.code
        codes = np.fromiter((code(item) for item in items), np.int32, len(items))
        if np.array_equal(self.codes[where], codes):
            return self
        if len(self.values.items) > 2 * len(self.codes) + 1024:
            # Values come and go: renumber those in use instead of keeping all former ones.
            fresh: list[Hashable] = [self.values.items[one] for one in self.codes.tolist()]
            for at, item in zip(where.tolist(), items, strict=True):
                fresh[at] = item
            return Column.of(fresh)
        changed = self.codes.copy()
        changed[where] = codes
        return Column(changed, self.values)

    def judge(self, key: Hashable, verdict: Verdict) -> Judgement:
        """Apply ``verdict`` to each distinct value and spread the answers over the servers.

        ``verdict`` returns None to keep, a reason to drop, empty text to drop without a reason; it
        must depend on the value and on ``key`` only.
        """
        known = self._judged.get(key)
        if known is None:
            texts = [verdict(item) for item in self.values.items]
            keep = np.fromiter((text is None for text in texts), np.bool_, len(texts))
            known = Judgement(keep[self.codes], self.codes, texts)
            if len(self._judged) >= MEMORY:
                self._judged.clear()
            self._judged[key] = known
        return known


def sorted_positions(values: NDArray[np.int64], *, descending: bool) -> Indices:
    """The positions of ``values`` in order; equal ones keep their order.

    The position is stored in the low bits of the key: sorting 64-bit integers by value is several
    times faster than a stable argsort.
    """
    keys = (-values if descending else values) << POSITION_BITS
    keys |= np.arange(len(values), dtype=np.int64)
    keys.sort()
    keys &= (1 << POSITION_BITS) - 1
    return keys
