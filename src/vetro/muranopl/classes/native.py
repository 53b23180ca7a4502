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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vetro.muranopl.values.containers import Value, freeze, thaw
from vetro.muranopl.values.errors import MuranoError
from vetro.yaql.comparing import afford

if TYPE_CHECKING:
    from vetro.muranopl.host.session import Session
    from vetro.muranopl.threads.effects import EffectsPort, Json

    from .objects import MuranoObject
    from .types import MuranoPackage, MuranoType

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__murano_native__"


@dataclass(frozen=True, slots=True)
class NativeMark:
    """The settings that `@native` gives a method."""

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
        target: object = getattr(function, "__func__", function)
        setattr(target, MARK, NativeMark(names, static, extends, hidden, lock))
        return function

    return decorate


def meta(key: str, value: str) -> Callable[[F], F]:
    """`@meta('Usage', 'Extension')`: the spelling of older plugins (section 25)."""
    if key != "Usage" or value not in {"Extension", "Static", "Runtime"}:
        raise ValueError(
            f"meta({key!r}, {value!r}): the key must be 'Usage', and its value Extension, Static or Runtime"
        )
    return native(
        static=value != "Runtime" or None, extends="any" if value == "Extension" else None
    )


def camel_case(name: str) -> str:
    """`region_name` → `regionName`, `async_` → `async`."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


@dataclass(slots=True)
class CallContext:
    """What a native method can learn about its call.

    `this` is None in static calls on a type. `caller_type` is the class whose code made the call
    (None for a call by the host), `caller_package` its package. `called_type` is the class that the
    method was called on: for a method of an object the object's class; for a static method the
    class that declares it or one derived from it.
    """

    session: Session
    this: MuranoObject | None
    caller_type: MuranoType | None
    called_type: MuranoType | None = None

    @property
    def caller_package(self) -> MuranoPackage | None:
        """The package of the class whose code made the call."""
        return self.caller_type.package if self.caller_type is not None else None

    @property
    def effects(self) -> EffectsPort:
        """The session's effects port."""
        return self.session.effects

    def find_class(self, name: str) -> MuranoType:
        """A class as the caller's code sees it. Raises NoClassFound."""
        runtime = self.session.runtime
        package = self.caller_package
        return runtime.type(name) if package is None else package.find_type(name)

    def class_config(self, class_name: str | None = None) -> Mapping[str, Json]:
        """The host's configuration of a class (section 6); by default of the object's own."""
        if class_name is None and self.this is None:
            return {}
        type_ = self.find_class(class_name) if class_name is not None else self._this.type
        return self.session.runtime.class_config(type_)

    def get_attribute(
        self,
        name: str,
        default: Json = None,
        *,
        owner: str | None = None,
        of: MuranoObject | None = None,
    ) -> Json:
        """A value kept beside the properties (section 20) of the object, or of the object `of`: the value
        of its class or of the class `owner`."""
        this = of or self._this
        run = self.session.run
        value = run.attributes.get(this.id, owner or this.type.name, name, freeze(default))
        return thaw(afford(value, run))

    def set_attribute(
        self,
        name: str,
        value: Json,
        *,
        owner: str | None = None,
        of: MuranoObject | None = None,
    ) -> None:
        """Keep a value beside the properties of the object, or of `of`; None removes it."""
        this = of or self._this
        self.session.run.attributes.set(this.id, owner or this.type.name, name, freeze(value))

    def evaluate(self, text: str, **variables: object) -> Value:
        """Evaluate an expression as code of the object's class."""
        return self.session.evaluate(text, self.this, **variables)

    @property
    def _this(self) -> MuranoObject:
        if self.this is None:
            raise MuranoError(
                "a static call has no object, so no attributes and no class of its own",
                names=("ValueError",),
            )
        return self.this

    def effect(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Do an effect through the port; suspends the green thread only."""
        return self.session.effects.perform(kind, request, execute)

    def wait(self, awaitable: Awaitable[object]) -> Any:
        """Await without the journal; suspends the green thread only.

        For waits that a replay can simply repeat (a lock, an in-process event).
        """
        from vetro.muranopl.threads.scheduler import wait

        return wait(awaitable)


def is_injected(parameter: inspect.Parameter) -> bool:
    """True for a parameter that receives the `CallContext`."""
    annotation = parameter.annotation
    if annotation is CallContext:
        return True
    return isinstance(annotation, str) and annotation.rpartition(".")[2] == "CallContext"


@dataclass(slots=True)
class NativeMethod:
    """A method of a native class, as the language calls it."""

    names: tuple[str, ...]
    function: Callable[..., Any]
    """The plain Python function; `self` (or the class) comes first unless it is a static method."""
    kind: str
    """`instance`, `class` or `static`."""
    extends: str | None
    lock: bool
    context_parameter: str | None
    parameters: dict[str, str]
    """Names that programs use, to Python names, in order."""
    positional: int
    """How many arguments can be given by position; -1 without bound."""
    takes_keywords: bool
    is_async: bool

    @property
    def is_static(self) -> bool:
        return self.kind != "instance"


@dataclass(slots=True)
class NativeProperty:
    """A Python property of a native class."""

    name: str
    getter: Callable[[object], object]
    setter: Callable[[object, object], None] | None


@dataclass(slots=True)
class NativeClass:
    """What the language needs to know of a Python class."""

    python_class: type[Any]
    methods: dict[str, NativeMethod]
    properties: dict[str, NativeProperty]
    constructor: NativeMethod | None


def inspect_class(python_class: type[object]) -> NativeClass:
    """Look at a Python class once (members of `object` and hidden ones left out)."""
    methods: dict[str, NativeMethod] = {}
    properties: dict[str, NativeProperty] = {}
    seen: set[str] = set()
    for base in python_class.__mro__:
        if base is object:
            continue
        for key, member in vars(base).items():
            if key.startswith("_") or key in seen:
                continue
            seen.add(key)
            if isinstance(member, property):
                if member.fget is not None:
                    name = camel_case(key)
                    properties[name] = NativeProperty(name, member.fget, member.fset)
                continue
            method = _inspect_member(key, member)
            if method is not None:
                for name in method.names:
                    methods[name] = method
    constructor: NativeMethod | None = None
    if python_class.__init__ is not object.__init__:
        constructor = _inspect_function("__init__", python_class.__init__, "instance", NativeMark())
    return NativeClass(python_class, methods, properties, constructor)


def inspect_function(name: str, function: Callable[..., object]) -> NativeMethod:
    """Look at a host function that is not a member of a class."""
    return _inspect_function(name, function, "static", NativeMark((name,)))


def _inspect_member(key: str, member: object) -> NativeMethod | None:
    kind = "instance"
    function = member
    if isinstance(member, staticmethod):
        kind, function = "static", cast(Any, member).__func__
    elif isinstance(member, classmethod):
        kind, function = "class", cast(Any, member).__func__
    if not callable(function) or isinstance(function, type):
        return None
    mark = getattr(function, MARK, NativeMark())
    if mark.hidden:
        return None
    return _inspect_function(key, function, kind, mark)


def _inspect_function(
    key: str, function: Callable[..., object], kind: str, mark: NativeMark
) -> NativeMethod:
    parameters = list(inspect.signature(function).parameters.values())
    if kind != "static":
        parameters = parameters[1:]
    context: str | None = None
    visible: dict[str, str] = {}
    positional = 0
    takes_keywords = False
    for parameter in parameters:
        if is_injected(parameter):
            context = parameter.name
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional = -1
        elif parameter.kind is parameter.VAR_KEYWORD:
            takes_keywords = True
        else:
            visible[camel_case(parameter.name)] = parameter.name
            if positional >= 0 and parameter.kind is not parameter.KEYWORD_ONLY:
                positional += 1
    return NativeMethod(
        mark.names or (camel_case(key),),
        function,
        kind,
        mark.extends,
        mark.lock,
        context,
        visible,
        positional,
        takes_keywords,
        inspect.iscoroutinefunction(function),
    )
