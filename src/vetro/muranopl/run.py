"""What generated code and the library hold on to while a session runs.

One `Run` belongs to one session. Its few counters are plain slots, because every call and every
loop turn touches them:

- `room` counts down with each nested call; below `floor` the call takes the slow path `enter`.
  `floor` is 0, or beyond any depth while several green threads are alive (calls then take locks).
- `fuel` counts down with each call and loop turn; below 0 `refuel` looks at the budgets.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from .attributes import AttributeStore
from .errors import (
    LimitExceeded,
    MuranoError,
    NoMethodFound,
    RunAborted,
)
from .locks import LockTable
from .objects import CastView, MuranoObject
from .scheduler import GreenThread, Scheduler
from .types import Method, MuranoType, Property

if TYPE_CHECKING:
    from .contracts import Setting
    from .loading import Transaction
    from .session import Session

_CHUNK = 10_000
_FAR = 1 << 60
GRACE_STEPS = 100_000
"""Steps that `Finally` blocks may take after a budget is used up."""
PYTHON_FRAMES = 6_500
"""Python's own recursion limit while programs run: what fits an 8 MiB stack with room to spare."""


class Run:
    """The running state of a session."""

    __slots__ = (
        "_constructing",
        "_grace",
        "_steps_left",
        "attributes",
        "batch",
        "building",
        "floor",
        "fuel",
        "locks",
        "max_depth",
        "new_id",
        "objects",
        "scheduler",
        "session",
        "statics",
        "transaction",
    )

    def __init__(self, session: Session) -> None:
        limits = session.limits
        self.session = session
        self.max_depth = limits.depth
        self.room = limits.depth
        self.floor = 0
        self.fuel = 0
        self._steps_left = limits.steps
        self._grace = False
        self._constructing = 0
        self.scheduler = Scheduler(max_threads=limits.green_threads, switched=self._switched)
        self.locks = LockTable(self.scheduler)
        self.statics: dict[Property, Any] = {}
        self.objects: dict[str, MuranoObject] = {}
        self.attributes = AttributeStore()
        self.transaction: Transaction | None = None
        self.batch: frozenset[MuranoObject] = frozenset()
        """Objects that are being destroyed now."""
        self.new_id: Callable[[], str] = session.effects.new_id

    # -- budgets and locks ---------------------------------------------------------------------

    def refuel(self) -> None:
        """Look at the budgets; called every few thousand steps."""
        self.scheduler.check()
        self._steps_left -= _CHUNK
        if self._steps_left < 0:
            if self._grace:
                raise LimitExceeded("the program's clean-up takes too long", limit="steps")
            self._grace = True
            self._steps_left = GRACE_STEPS
            error = LimitExceeded(
                f"the program took more than {self.session.limits.steps} steps", limit="steps"
            )
            self.scheduler.request_abort(error)
            self.scheduler.check()
        self.fuel = _CHUNK

    def begin_host_call(self) -> None:
        """Fresh budgets for a call from the host."""
        self._steps_left = self.session.limits.steps
        self._grace = False
        self.fuel = 0
        self.room = self.max_depth

    def enter(self, key: Hashable, what: str) -> Hashable:
        """The slow path of a call: too deep, or a lock is needed. What `leave` is given."""
        if self.room < 0:
            self.room += 20  # room for the handlers on the way out
            try:
                raise LimitExceeded(
                    f"calls are nested more than {self.max_depth} deep, in {what}", limit="depth"
                )
            finally:
                self.room -= 20
        if self.floor == 0:
            return None
        return key if self.locks.acquire(key, what) else None

    def leave(self, key: Hashable) -> None:
        """Give back what `enter` took."""
        self.locks.release(key)

    def _switched(self, old: GreenThread | None, new: GreenThread | None) -> None:
        if old is not None:
            old.depth = self.max_depth - self.room
        if new is not None:
            self.room = self.max_depth - new.depth
        self.floor = _FAR if self.scheduler.alive > 1 else 0

    # -- construction --------------------------------------------------------------------------

    @contextmanager
    def construction(self) -> Iterator[None]:
        """While inside, In and Const properties may be written (section 6.1)."""
        self._constructing += 1
        try:
            yield
        finally:
            self._constructing -= 1

    @property
    def constructing(self) -> bool:
        """True while some constructor runs."""
        return self._constructing > 0

    # -- objects -------------------------------------------------------------------------------

    def find_object(self, object_id: str) -> MuranoObject | None:
        """A published object."""
        return self.objects.get(object_id)

    def publish(self, made: MuranoObject) -> None:
        """Make an object findable by its id."""
        self.objects[made.id] = made

    # -- calls ---------------------------------------------------------------------------------

    def invoke(
        self,
        receiver: Any,
        name: str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a method by name with values; the result is a program's value."""
        named = {"a_" + key: value for key, value in (kwargs or {}).items()}
        if isinstance(receiver, MuranoObject):
            method = receiver.type.find_method(name)
            if method is None or receiver.destroyed:
                self.missing_method(receiver, receiver.type, name)
            return getattr(receiver, "m_" + name)(self, *args, **named)
        if isinstance(receiver, CastView):
            return self.call_as(receiver.target, receiver.type, name, args, named)
        if isinstance(receiver, MuranoType):
            return self.call_static(receiver, name, args, named)
        raise NoMethodFound(f"{receiver!r} has no method {name!r}")

    def call_as(
        self,
        target: MuranoObject,
        type_: MuranoType,
        name: str,
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        """Call what a name means in an ancestor's view of an object."""
        if type_.find_method(name) is None or target.destroyed:
            self.missing_method(target, type_, name)
        function = getattr(type_.python_class, "m_" + name)
        method = cast(Method, type_.find_method(name))
        if method.is_static:
            return function(self, *args, **named)
        return function(target, self, *args, **named)

    def call_static(
        self, type_: MuranoType, name: str, args: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Call a static or extension method of a class."""
        method = type_.find_method(name)
        if method is None or not method.is_static:
            self.missing_method(type_, type_, name)
        return getattr(type_.python_class, "m_" + name)(self, *args, **named)

    def missing_method(self, receiver: Any, type_: MuranoType, name: str) -> Any:
        """Raise what a call of an unknown method raises."""
        if isinstance(receiver, MuranoObject) and receiver.destroyed:
            getattr(receiver, "m_" + name)
        method = type_.find_method(name)
        known = [item for item in type_.method_names() if not item.startswith(".")]
        close = get_close_matches(name, known, 1, 0.6)
        if method is not None:
            raise NoMethodFound(
                f"method {name!r} of {type_.name} needs an object: it is not static"
            )
        raise NoMethodFound(
            f"class {type_.name} has no method {name!r}",
            names=(
                *NoMethodFound("").names,
                "yaql.language.exceptions.NoMethodRegisteredException",
            ),
            hint=f"did you mean {close[0]}?" if close else None,
        )

    # -- errors --------------------------------------------------------------------------------

    def aborting(self, error: BaseException) -> bool:
        """True for errors that no `Catch` may see; converts running out of Python frames."""
        if isinstance(error, RecursionError):
            raise LimitExceeded(
                "expressions and calls are nested too deep", limit="depth"
            ) from error
        return isinstance(error, RunAborted)

    def template_of(self, *args: Any) -> Any:
        raise NotImplementedError

    def object_from_map(
        self, value: Mapping[Any, Any], default: MuranoType, setting: Setting
    ) -> MuranoObject:
        """The object that a map stands for in a `class()` contract."""
        from .loading import Transaction

        transaction = setting.transaction
        if transaction is not None and transaction.open:
            return transaction.make(value, setting.owner, default)
        own = Transaction(self, keep_ids=False, scope=self.scope_of(setting.this))
        made = own.make(value, setting.owner, default)
        own.finish()
        return made

    def scope_of(self, this: Any) -> MuranoType | None:
        """The class of an object, or the type itself."""
        if isinstance(this, MuranoType):
            return this
        return this.type if isinstance(this, MuranoObject) else None

    def random(self) -> random.Random:
        """A generator seeded by the effects port."""
        return random.Random(self.session.effects.random())  # noqa: S311 - no secrets


def raise_python_limit() -> None:
    """Let programs nest as deep as `Limits.depth` allows before Python stops them."""
    if sys.getrecursionlimit() < PYTHON_FRAMES:
        sys.setrecursionlimit(PYTHON_FRAMES)


__all__ = ["MuranoError", "Run", "raise_python_limit"]
