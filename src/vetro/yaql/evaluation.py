"""The limits of an evaluation and its interface to the host (yaql.md section 3).

An `Evaluation` is passed as the first argument (`rt`) to everything that runs. It holds the limits
in the form that is cheapest to check, and the hooks by which a host defines operations on its own
objects. Work is charged in *fuel*: `charge` subtracts from a small amount; when that is used up,
`refuel` checks the clock, the total and a request to cancel, and grants more. So a check costs one
subtraction, and a runaway evaluation ends within some thousand steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from vetro.yaql.values import Value

from .errors import (
    CollectionTooLargeException,
    DepthLimitExceeded,
    EvaluationCancelled,
    MemoryQuotaExceededException,
    NoFunctionRegisteredException,
    NoMethodRegisteredException,
    StepLimitExceeded,
    TimeLimitExceeded,
)
from .values import FINAL_TYPES, preview

if TYPE_CHECKING:
    import datetime
    from random import Random

    from .library import Library


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one evaluation; exceeding one raises the `LimitException` named.

    `collection_items`: elements a lazy sequence may produce (`CollectionTooLargeException`).
    `string_length`: characters of a string, `integer_bits`: size of an integer,
    `memory_bytes`: estimated size of a result, counted through all levels
    (`MemoryQuotaExceededException`). `steps`: elements, calls and
    every 32 bytes of long strings and integers in total (`StepLimitExceeded`).
    `seconds`: wall time (`TimeLimitExceeded`), None for no bound. `depth`: functions made by `def`
    within each other (`DepthLimitExceeded`). `regex_steps`: what one regular expression match
    may cost on the guarded matcher (`TimeLimitExceeded`).
    """

    collection_items: int = 1_000_000
    string_length: int = 16 * 1024 * 1024
    integer_bits: int = 1 << 15
    memory_bytes: int = 256 * 1024 * 1024
    steps: int = 50_000_000
    seconds: float | None = 60.0
    depth: int = 150
    regex_steps: int = 2_000_000


DEFAULT_LIMITS = Limits()
_TANK = 20_000


class Evaluation:
    """One run of an expression. Hosts derive from it to override the `host_…` hooks.

    Not to be shared by threads that run at once, except for `cancel`.
    """

    __slots__ = (
        "_allocated",
        "_cancelled",
        "_clock",
        "_deadline",
        "_remaining",
        "depth",
        "final_types",
        "fuel",
        "library",
        "limits",
        "max_bits",
        "max_items",
        "max_string",
        "variables",
    )

    def __init__(
        self,
        library: Library,
        limits: Limits = DEFAULT_LIMITS,
        variables: dict[str, Value] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.library = library
        self.limits = limits
        self.max_items = limits.collection_items
        self.max_string = limits.string_length
        self.max_bits = limits.integer_bits
        self.variables = variables
        self.depth = 0
        self.final_types: set[type] = FINAL_TYPES
        """Classes whose instances need no conversion; a host may know further ones."""
        self.fuel = min(_TANK, limits.steps)
        self._remaining = limits.steps - self.fuel
        self._clock = clock
        self._deadline = clock() + limits.seconds if limits.seconds is not None else None
        self._cancelled: str | None = None
        self._allocated = 0

    # Limits

    def charge(self, steps: int) -> None:
        """Charge for work that is about to be done."""
        self.fuel -= steps
        if self.fuel < 0:
            self.refuel()

    def refuel(self) -> None:
        """Grant more fuel, or raise the `LimitException` of the exceeded limit."""
        if self._cancelled is not None:
            raise EvaluationCancelled(self._cancelled)
        if self._deadline is not None and self._clock() > self._deadline:
            raise TimeLimitExceeded(f"the evaluation took more than {self.limits.seconds} seconds")
        if self._remaining + self.fuel < 0:
            raise StepLimitExceeded(f"the evaluation took more than {self.limits.steps} steps")
        grant = min(_TANK - min(self.fuel, 0), self._remaining)
        self._remaining -= grant
        self.fuel += grant

    def cancel(self, reason: str) -> None:
        """End the evaluation at its next check; may be called from another thread."""
        self._cancelled = reason

    def account(self, size: int) -> None:
        """Count bytes of a result."""
        self._allocated += size
        if self._allocated > self.limits.memory_bytes:
            raise MemoryQuotaExceededException(
                f"the result is larger than {self.limits.memory_bytes} bytes"
            )

    def check_string(self, length: int) -> None:
        """Refuse a string that would be too long; call before building it."""
        if length > self.max_string:
            raise MemoryQuotaExceededException(
                f"a string of {length} characters; the limit is {self.max_string}"
            )
        if length > 4096:
            # Long strings are charged, so that making many of them is limited too.
            self.charge(length >> 5)

    def check_items(self, count: int) -> None:
        """Refuse a collection that would be too large; charge for the others."""
        if count > self.max_items:
            raise CollectionTooLargeException(
                f"a collection of {count} elements; the limit is {self.max_items}"
            )
        self.charge(count)

    def check_bits(self, bits: int) -> None:
        """Refuse an integer that would be too large; call before building it."""
        if bits > self.max_bits:
            raise MemoryQuotaExceededException(
                f"an integer of {bits} bits; the limit is {self.max_bits}"
            )
        if bits > 4096:
            self.charge(bits >> 8)

    def enter(self) -> None:
        """Go one level deeper; the caller subtracts one from `depth` when it leaves."""
        if self.depth >= self.limits.depth:
            raise DepthLimitExceeded(
                f"function calls are nested more than {self.limits.depth} levels deep"
            )
        self.depth += 1
        self.charge(1)

    # Hooks of the host

    def now(self) -> datetime.datetime:
        """The time that `now()` returns, in UTC."""
        import datetime

        return datetime.datetime.now(datetime.UTC)

    def random(self) -> Random:
        """The source of `random()`."""
        return _random_source()

    def host_variable(self, name: str) -> object:
        """A variable that the expression itself does not bind; `name` as in `Variable.name`."""
        variables = self.variables
        return None if variables is None else variables.get(name)

    def host_property(self, receiver: object, name: str) -> object:
        """`receiver.name` for a receiver that is not a value of the language."""
        exposed = self.library.exposed_member(receiver.__class__, name)
        if exposed is not None and not exposed.is_method:
            return exposed.read(receiver)
        raise NoFunctionRegisteredException(
            f'Unknown function "#property#{name}": cannot read property {name} of '
            f"{preview(receiver)}"
        )

    def host_method(
        self, receiver: object, name: str, args: Sequence[object], kwargs: dict[str, Value]
    ) -> object:
        """`receiver.name(…)` for a receiver that is not a value of the language, if the library has
        no such method for it."""
        exposed = self.library.exposed_member(receiver.__class__, name)
        if exposed is not None and exposed.is_method:
            return exposed.read(receiver)(*args, **kwargs)
        raise NoMethodRegisteredException(
            f'Unknown method "{name}" for receiver {preview(receiver)}'
        )

    def has_host_function(self, name: str) -> bool:
        """Whether `host_function` may know the name; if not, a call fails before its arguments run."""
        return type(self).host_function is not Evaluation.host_function

    def host_function(self, name: str, args: Sequence[object], kwargs: dict[str, object]) -> object:
        """`name(…)` where the library has no such function."""
        raise NoFunctionRegisteredException(f'Unknown function "{name}"')

    def host_text(self, value: object) -> str:
        """The text of a host value in `str` and `format`; opaque unless overridden."""
        return f"<{type(value).__name__}>"

    def legacy_lookup(self, key: object) -> bool:
        """Whether `$d[key]` of the legacy flavour looks up a key that the mapping has.

        False makes it a filter of the keys, as older programs expect. Called at each such access,
        so a host may warn its user here.
        """
        return False

    def is_host_method_receiver(self, receiver: object) -> bool:
        """Whether methods of `receiver` are looked up by `host_method` before the library."""
        return False


@lru_cache(maxsize=1)
def _random_source() -> Random:
    from random import Random

    return Random()  # noqa: S311 - `random()` of the language is not for secrets
