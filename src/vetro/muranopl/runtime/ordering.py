"""The order in which a batch of objects is destroyed (muranopl.md section 21)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def destruction_waves(
    batch: Sequence[T],
    owner_of: Callable[[T], T | None],
    subscribers_of: Callable[[T], Iterable[T]],
) -> list[list[T]]:
    """Waves of objects: those of one wave may be destroyed at the same time, wave after wave.

    Owned objects precede their owner and publishers their subscribers. A cycle is broken at its
    member that comes first in the batch.
    """
    members = dict.fromkeys(batch)
    waits_for: dict[T, set[T]] = {item: set() for item in members}
    for item in members:
        owner = owner_of(item)
        if owner is not None and owner in members and owner is not item:
            waits_for[owner].add(item)
        for subscriber in subscribers_of(item):
            if subscriber in members and subscriber is not item:
                waits_for[subscriber].add(item)
    waves: list[list[T]] = []
    left = members
    while left:
        wave = [item for item in left if not waits_for[item]]
        if not wave:
            wave = [_weakest(left, waits_for)]
        gone = set(wave)
        left = {item: None for item in left if item not in gone}
        for item in left:
            waits_for[item] -= gone
        waves.append(wave)
    return waves


def _weakest(left: dict[T, None], waits_for: dict[T, set[T]]) -> T:
    """The first member of some cycle, found by following what the first item waits for."""
    order = {item: index for index, item in enumerate(left)}
    item = next(iter(left))
    seen: dict[T, int] = {}
    path: list[T] = []
    while item not in seen:
        seen[item] = len(path)
        path.append(item)
        item = min(waits_for[item], key=order.__getitem__)
    return min(path[seen[item] :], key=order.__getitem__)


def notification_order(batch: Sequence[T], owner_of: Callable[[T], T | None]) -> list[T]:
    """The batch with owners before owned objects, otherwise in the given order."""
    members = dict.fromkeys(batch)
    depth: dict[T, int] = {}
    for item in members:
        chain: list[T] = []
        current: T | None = item
        while current is not None and current in members and current not in depth:
            if current in chain:
                break
            chain.append(current)
            current = owner_of(current)
        base = depth.get(current, -1) if current is not None else -1
        for offset, link in enumerate(reversed(chain)):
            depth[link] = base + 1 + offset
    return sorted(members, key=lambda item: depth[item])
