"""Find and destroy objects that are no longer needed (muranopl.md section 21)."""

from __future__ import annotations

import dis
import functools
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.inplace.growing import Grown
from vetro.muranopl.inplace.properties import settle_properties
from vetro.muranopl.values.containers import Map, Value
from vetro.muranopl.values.errors import MuranoError, RunAborted

from .throwing import message_of
from .traces import unit_of

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Method

    from .run import Run


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leak:
    """A destroyed object whose `.destroy` failed: what it stood for may be left behind."""

    object_id: str
    type_name: str
    name: str | None
    message: str


class Collector:
    """Marks the objects that the roots reach and destroys the others."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.leaks: dict[str, Leak] = {}
        """What may be left behind, by the ids of the objects: hosts keep it for their users."""

    def collect(self) -> int:
        """Destroy every published object that no root reaches; returns their number."""
        reached = self._mark(self._roots())
        doomed = [item for item in self._run.objects.values() if item not in reached]
        return self._destroy(doomed)

    def destroy_except(self, kept: Collection[str]) -> int:
        """Destroy every published object whose id is not in `kept`."""
        doomed = [item for key, item in self._run.objects.items() if key not in kept]
        return self._destroy(doomed)

    def destroy(self, doomed: Sequence[MuranoObject]) -> int:
        """Destroy given objects in the right order."""
        return self._destroy(doomed)

    def subscribe(
        self, publisher: MuranoObject, subscriber: MuranoObject, handler: str | None = None
    ) -> None:
        """Destroy `publisher` before `subscriber`; first call `subscriber.handler(publisher)`."""
        if handler is not None and subscriber.type.find_method(handler) is None:
            self._run.missing_method(subscriber, subscriber.type, handler)
        rows = publisher.subscriptions
        if rows is None:
            rows = publisher.subscriptions = []
        if (subscriber.id, handler) not in rows:
            rows.append((subscriber.id, handler))

    def unsubscribe(
        self, publisher: MuranoObject, subscriber: MuranoObject, handler: str | None = None
    ) -> None:
        """Undo `subscribe`."""
        rows = publisher.subscriptions
        if rows and (subscriber.id, handler) in rows:
            rows.remove((subscriber.id, handler))

    def is_doomed(self, target: MuranoObject) -> bool:
        """Whether an object is destroyed or in the batch that is being destroyed."""
        return target.destroyed or target in self._run.batch

    # -- marking -------------------------------------------------------------------------------

    def _roots(self) -> Iterator[object]:
        """The model, the variables of running methods, static properties.

        Also the objects under construction, which no other root reaches yet.
        """
        run = self._run
        yield run.session.root
        yield from [item for item in run.objects.values() if not item.initialised]
        yield from run.statics.values()
        frames: list[FrameType | None] = [_caller(), *run.threads.suspended_frames()]
        for frame in frames:
            while frame is not None:
                if unit_of(frame) is not None:
                    yield from live_values(frame)
                frame = frame.f_back

    def _mark(self, roots: Iterator[object]) -> set[MuranoObject]:
        reached: set[MuranoObject] = set()
        stack: list[object] = list(roots)
        seen: set[int] = set()
        while stack:
            item = stack.pop()
            if item.__class__ is tuple or item.__class__ is Map:
                if id(item) in seen:
                    continue
                seen.add(id(item))
            if isinstance(item, CastView):
                item = item.target
            if isinstance(item, MuranoObject):
                if item in reached:
                    continue
                reached.add(item)
                stack.append(item.owner)
                stack.extend(
                    value
                    for slot, value in settle_properties(item).items()
                    if slot[:2] == "p_" or slot[0] == "q"
                )
            elif isinstance(item, Grown):
                stack.append(item.root)
                stack.extend(item.lists.values())
            elif isinstance(item, (tuple, list, frozenset, set)):
                stack.extend(cast("Collection[Value]", item))
            elif isinstance(item, Mapping):
                for key, value in cast("Mapping[Value, Value]", item).items():
                    stack.append(key)
                    stack.append(value)
        return reached

    # -- destroying ----------------------------------------------------------------------------

    def _destroy(self, doomed: Sequence[MuranoObject]) -> int:
        run = self._run
        batch = [item for item in doomed if not item.destroyed]
        if not batch:
            return 0
        run.session.note_types(item.type for item in batch)
        before = run.batch
        run.batch = before | frozenset(batch)
        try:
            for item in notification_order(batch, lambda item: item.owner):
                self._notify(item)
            waves = destruction_waves(batch, lambda item: item.owner, self._subscribers)
            for wave in waves:
                busy = [item for item in wave if item.type.assembly.destruction_methods]
                tasks = [self._task(item) for item in busy]
                if len(tasks) == 1:
                    tasks[0]()
                elif tasks:
                    for thread in run.threads.join_all(tasks, run.session.limits.parallel_branches):
                        if thread.error is not None:
                            raise thread.error
        finally:
            run.batch = before
            for item in batch:
                self._bury(item)
        return len(batch)

    def _bury(self, item: MuranoObject) -> None:
        run = self._run
        settle_properties(item)
        item.__class__ = item.type.assembly.destroyed_class
        run.attributes.forget(item.id)
        if run.objects.get(item.id) is item:
            del run.objects[item.id]

    def _subscribers(self, item: MuranoObject) -> Iterator[MuranoObject]:
        for subscriber_id, _ in item.subscriptions or ():
            subscriber = self._run.find_object(subscriber_id)
            if subscriber is not None:
                yield subscriber

    def _notify(self, item: MuranoObject) -> None:
        for subscriber_id, handler in list(item.subscriptions or ()):
            subscriber = self._run.find_object(subscriber_id)
            if handler is None or subscriber is None:
                continue
            if not subscriber.initialised or subscriber.destroyed:
                continue
            self._muted(
                functools.partial(self._run.invoke, subscriber, handler, (item,)),
                subscriber,
                f"handler {handler}",
            )

    def _task(self, item: MuranoObject) -> Callable[[], None]:
        def destroy() -> None:
            for method in item.type.assembly.destruction_methods:
                text = self._muted(lambda method=method: self._call(method, item), item, ".destroy")
                if text is not None:
                    self._note_leak(item, text)

        return destroy

    def _call(self, method: Method, item: MuranoObject) -> None:
        function = method.function
        assert function is not None
        function(item, self._run)

    def _note_leak(self, item: MuranoObject, text: str) -> None:
        name = item.name or getattr(item, "p_name", None)
        shown = name if isinstance(name, str) else None
        self.leaks.setdefault(item.id, Leak(item.id, item.type.name, shown, text))

    def _muted(self, call: Callable[[], None], item: MuranoObject, what: str) -> str | None:
        """Run clean-up code; a failure is logged, reported and returned, not raised."""
        try:
            call()
        except RunAborted:
            raise
        except Exception as error:  # noqa: BLE001 - section 21: clean-up never fails a run
            text = message_of(error)
            _log.warning("%s of %r failed: %s", what, item, text, exc_info=error)
            self._run.session.warnings.append(f"{what} of {item.type.name} {item.id}: {text}")
            return text
        return None


def _caller() -> FrameType | None:
    import sys

    return sys._getframe(1)  # pyright: ignore[reportPrivateUsage]


__all__ = ["Collector", "MuranoError"]


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


ELEMENTS = "elements_"
"""The prefix of locals that hold the elements of a `For`; they are cleared when it ends."""
_PROGRAM = ("a_", "b_", ELEMENTS)


def live_values(frame: FrameType) -> Iterator[object]:
    """The values of a frame of class code that the program can still reach, or is about to use.

    A variable or an argument holds its value until it is assigned or its method ends. A temporary of
    the compiler holds its value only while a line that uses it runs: an object of an earlier statement
    is no longer held, an object that is being passed to a call is.
    """
    code = frame.f_code
    bound, by_line = _names_of(code)
    used = by_line.get(frame.f_lineno, frozenset())
    for name, value in frame.f_locals.items():
        if name in bound or name in used or name.startswith(_PROGRAM):
            yield value


@functools.lru_cache(1024)
def _names_of(code: CodeType) -> tuple[frozenset[str], dict[int, frozenset[str]]]:
    """Arguments and variables of outer functions, and the locals that each line uses."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    bound = frozenset((*code.co_varnames[:count], *code.co_freevars))
    known: set[Any] = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    lines: dict[int, set[str]] = {}
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno if instruction.positions is not None else None
        if line is None:
            continue
        named: Any = instruction.argval
        if named.__class__ is not tuple:  # some instructions work on two locals at once
            named = (named,)
        found = known.intersection(named)
        if found:
            lines.setdefault(line, set()).update(found)
    return bound, {line: frozenset(names) for line, names in lines.items()}
