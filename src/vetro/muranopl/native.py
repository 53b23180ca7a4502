"""Native classes: Python classes that programs see as MuranoPL classes (muranopl.md section 25).

    class Counter:
        def __init__(self, ctx: CallContext, start: int = 0) -> None:
            self.value = start

        def increase_by(self, ctx: CallContext, step: int = 1) -> int:   # increaseBy(step)
            self.value += step
            return self.value

        async def fetch(self, url: str) -> str:      # suspends only the calling green thread
            ...

        @staticmethod
        def largest() -> int: ...                    # Static

    runtime.add_native_class("my.lib.Counter", Counter)

Rules:

- Every public method becomes a method; `snake_case` names become `camelCase`, one trailing `_` is
  dropped, for methods and for parameters. Static and class methods become Static.
- A Python `property` becomes a readable property (writable when it has a setter).
- The constructor's parameters are picked by name from the object's declared properties or the
  properties given to `new`.
- A parameter annotated `CallContext` (or the text `"CallContext"`) is injected and invisible.
- Arguments arrive as plain mutable values (`list`, `dict`) that the method owns; objects arrive as
  `MuranoObject`, types as `MuranoType`. Results are frozen on return.
- A class may be declared in YAML as well: then the native methods are added to the YAML ones and
  replace those of the same name, and each object holds one instance of the Python class.
- Exceptions keep their identity. A `murano_names` attribute (tuple of text) on an exception class
  gives the names under which a program can catch it, beside its Python names.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .effects import EffectsPort, Json
    from .objects import MuranoObject
    from .session import Session
    from .types import MuranoPackage, MuranoType

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__murano_native__"


@dataclass(frozen=True, slots=True)
class NativeMark:
    """What `@native` says of a method."""

    names: tuple[str, ...] = ()
    static: bool | None = None
    extends: str | None = None
    hidden: bool = False
    lock: bool = True


def native(
    name: str | Sequence[str] | None = None,
    *,
    static: bool | None = None,
    extends: str | None = None,
    hidden: bool = False,
    lock: bool = True,
) -> Callable[[F], F]:
    """Say how a method of a native class appears to programs.

    `name`: the name or names programs use instead of the derived one. `static`: callable on the
    type. `extends`: makes a static method an extension method of values of a kind: `string`,
    `integer`, `number`, `boolean`, `list`, `map`, `any`, or a class name. `hidden`: not visible to
    programs. `lock`: calls of it on one object run in turn (section 22).
    """
    names = (name,) if isinstance(name, str) else tuple(name or ())

    def decorate(function: F) -> F:
        target: Any = function
        if isinstance(function, (staticmethod, classmethod)):
            target = function.__func__
        setattr(target, MARK, NativeMark(names, static, extends, hidden, lock))
        return function

    return decorate


def meta(key: str, value: str) -> Callable[[F], F]:
    """`@meta('Usage', 'Extension')`: the spelling of older plugins (section 25)."""
    if key != "Usage" or value not in {"Extension", "Static", "Runtime"}:
        raise ValueError(f"meta({key!r}, {value!r}): only 'Usage' Extension, Static, Runtime exist")
    return native(
        static=value != "Runtime" or None, extends="any" if value == "Extension" else None
    )


def camel_case(name: str) -> str:
    """`region_name` → `regionName`, `async_` → `async`."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


@dataclass(slots=True)
class CallContext:
    """What a native method may know of the call that reached it.

    `this` is None in static calls. `caller_type` is the class whose code made the call (None when
    the host did), `caller_package` its package.
    """

    session: Session
    this: MuranoObject | None
    caller_type: MuranoType | None

    @property
    def caller_package(self) -> MuranoPackage | None:
        """The package of the class whose code made the call."""
        return self.caller_type.package if self.caller_type is not None else None

    @property
    def effects(self) -> EffectsPort:
        """The session's effects port."""
        return self.session.effects

    def effect(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Do an effect through the port; suspends the green thread only."""
        return self.session.effects.perform(kind, request, execute)

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """Await without the journal; suspends the green thread only.

        For waiting that a replay may simply do again (a lock, an in-process event).
        """
        from .scheduler import wait

        return wait(awaitable)


def is_injected(parameter: inspect.Parameter) -> bool:
    """True for a parameter that receives the `CallContext`."""
    annotation = parameter.annotation
    if annotation is CallContext:
        return True
    return isinstance(annotation, str) and annotation.rpartition(".")[2] == "CallContext"
