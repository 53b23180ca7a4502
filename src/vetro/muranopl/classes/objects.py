"""Objects of a running program.

Each `MuranoType` has a Python class of its own below `MuranoObject`; generated code finds members
as plain Python attributes of it, so that Python's own attribute caches do the dispatch:

    p_NAME   value of a declared property (absent: not initialised)
    qN_NAME  private slot of the class with index N (section 6.2)
    m_NAME   method: `(receiver, run, *arguments)`
    w_NAME   writer of a property: `(receiver, run, value)`

Programs never see Python attributes: expressions reach objects only through the language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from vetro.digits import is_number
from vetro.muranopl.values.containers import Value, freeze, preview, thaw
from vetro.muranopl.values.errors import (
    MuranoError,
    NoClassFound,
    NoObjectFoundError,
    NoPropertyFound,
    ObjectDestroyedError,
    UninitializedPropertyAccessError,
)
from vetro.yaql.comparing import afford
from vetro.yaql.values import Budget, host_previews

if TYPE_CHECKING:
    from vetro.muranopl.host.session import Session
    from vetro.muranopl.threads.greenthreads import GreenThreads

    from .types import MuranoType, Property


class IdSource(Protocol):
    """Makes the ids of new objects."""

    def __call__(self) -> str: ...


class ObjectRun(Budget, Protocol):
    """What objects ask of the run that they live in (`runtime.run.Run`)."""

    session: Session
    threads: GreenThreads
    new_id: IdSource

    def construction(self) -> AbstractContextManager[None]:
        """While inside, In and Const properties may be written (section 6.1)."""
        ...

    def static_value(self, declaration: Property) -> Value:
        """A static property; its default is evaluated when it is first read."""
        ...

    def invoke(
        self,
        receiver: object,
        name: str,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Value:
        """Call a method by name with values; the result is a program's value."""
        ...


class MuranoObject:
    """One object of a session. Programs reach it only through the language.

    Hosts and native classes use the members below; calls and property writes obey contracts.
    """

    type: ClassVar[MuranoType]
    """The object's class."""
    comes_and_goes: ClassVar[bool] = True
    """Python classes of objects live as long as their runtime (`vetro.yaql.values.kind_of`)."""
    id: str
    """Its id in the model."""
    owner: MuranoObject | None
    """The object whose model encloses this one."""
    run: ObjectRun
    natives: dict[MuranoType, Any] | None
    # Defaults of rarely used attributes are kept in the class: setting one per object costs time.
    name: str | None = None
    """The object name of its header."""
    metadata: Any = None
    """The metadata of its header, frozen."""
    header: dict[str, Value] | None = None
    """Header keys the language does not know, kept for the next dump."""
    subscriptions: list[tuple[str, str | None]] | None = None
    """`(subscriber id, handler)` of `GC.subscribeDestruction` with this object as publisher."""
    initialised: bool = False
    """True once its last `.init` has ended."""

    def __init__(
        self,
        run: ObjectRun,
        object_id: str,
        owner: MuranoObject | None,
        name: str | None = None,
        metadata: object = None,
        header: dict[str, object] | None = None,
    ) -> None:
        self.run = run
        self.id = object_id
        self.owner = owner
        self.natives = None
        if name is not None:
            self.name = name
        if metadata is not None:
            self.metadata = metadata
        if header is not None:
            self.header = header

    @property
    def session(self) -> Session:
        """The session the object lives in."""
        return self.run.session

    @property
    def destroyed(self) -> bool:
        """True after its destruction."""
        return False

    def get(self, name: str, default: object = None) -> Value:
        """A property's value as plain data and objects; `default` when it has none."""
        found = self.type.find_property(name)
        if found is None:
            return default
        value = getattr(self, "p_" + name, None)
        if value is None and found.is_static:
            value = self.run.static_value(found)
        return default if value is None else self._copy(value)

    def __getitem__(self, name: str) -> Value:
        """A property's value. Raises NoPropertyFound, UninitializedPropertyAccessError."""
        found = self.type.find_property(name)
        if found is None:
            raise NoPropertyFound(f"class {self.type.name} has no property {name!r}")
        if found.is_static:
            return self._copy(self.run.static_value(found))
        return self._copy(read_slot(self, "p_" + name))

    def _copy(self, value: object) -> object:
        """A program's value as plain data; native code within a run pays for each part of it."""
        if self.run.threads.current is not None:
            afford(value, self.run)
        return thaw(value)

    def set(self, name: str, value: object) -> None:
        """Write a property as host code: usage is not checked, the contract is."""
        found = self.type.find_property(name)
        if found is None:
            raise NoPropertyFound(f"class {self.type.name} has no property {name!r}")
        with self.run.construction():
            getattr(self, "w_" + name)(self.run, freeze(value))

    def call(self, method: str, *args: object, **kwargs: object) -> Value:
        """Call a method; only inside a green thread (hosts use `Session.call`)."""
        return self._copy(
            self.run.invoke(
                self,
                method,
                tuple(freeze(item) for item in args),
                {key: freeze(item) for key, item in kwargs.items()},
            )
        )

    def is_a(self, type_name: str) -> bool:
        """True when the object's class is, or descends from, the named class."""
        return any(item.name == type_name for item in self.type.ancestors)

    def cast(self, type_name: str) -> CastView:
        """The object seen as an ancestor: `Session.call` on the view calls that class's methods.

        Raises NoClassFound when the class is not an ancestor.
        """
        for type_ in self.type.ancestors:
            if type_.name == type_name:
                return CastView(self, type_)
        raise NoClassFound(f"{type_name} is not an ancestor of {self.type.name}")

    def find_owner(self, type_name: str, *, optional: bool = True) -> MuranoObject | None:
        """The nearest strict owner that is of the type.

        When there is none: None with `optional`, otherwise raises NoObjectFoundError.
        """
        owner = self.owner
        while owner is not None and not owner.is_a(type_name):
            owner = owner.owner
        if owner is None and not optional:
            raise NoObjectFoundError(f"{self!r} has no owner of class {type_name}")
        return owner

    def is_owned_by(self, other: MuranoObject) -> bool:
        """True when `other` is a direct or indirect owner."""
        owner = self.owner
        while owner is not None:
            if owner is other:
                return True
            owner = owner.owner
        return False

    def native_part(self, type_: MuranoType) -> object:
        """The Python instance of a native class within the object."""
        instance = (self.natives or {}).get(type_)
        if instance is None:
            raise MuranoError(f"{type_.name} of {self!r} is not constructed yet")
        return instance

    def native(self, python_class: type[object] | None = None) -> Value:
        """The Python instance behind a native part of the object.

        Raises LookupError when there is none (or several, and no class was named).
        """
        found = [
            item
            for item in (self.natives or {}).values()
            if python_class is None or isinstance(item, python_class)
        ]
        unique = list({id(item): item for item in found}.values())
        if len(unique) != 1:
            raise LookupError(f"{self!r} has {len(unique)} native parts of {python_class}")
        return unique[0]

    def __repr__(self) -> str:
        return f"<{self.type.name} {self.id}>"


class CastView:
    """An object seen as one of its ancestors: `cast`, `super` (section 8.2)."""

    __slots__ = ("target", "type")

    def __init__(self, target: MuranoObject, type_: MuranoType) -> None:
        self.target = target
        self.type = type_

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CastView):
            return self.target is other.target
        return self.target is other

    def __hash__(self) -> int:
        return hash(self.target)

    def __repr__(self) -> str:
        return f"<{self.target.type.name} {self.target.id} as {self.type.name}>"


class DestroyedObject(MuranoObject):
    """The Python class of a destroyed object: calls fail, values stay readable."""

    @property
    def destroyed(self) -> bool:
        return True

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith(("m_", "w_")):
            raise ObjectDestroyedError(f"Object {self.id} is already destroyed")
        raise AttributeError(attribute, name=attribute, obj=self)


host_previews[MuranoObject] = host_previews[CastView] = repr


def read_slot(target: MuranoObject, slot: str) -> Value:
    """A Python attribute that holds a property. Raises UninitializedPropertyAccessError."""
    try:
        return getattr(target, slot)
    except AttributeError as error:
        raise unset_property(error) or error from None


def unset_property(error: AttributeError) -> UninitializedPropertyAccessError | None:
    """Translate a failed attribute access of generated code to the language's error.

    Generated code reads a property as a plain attribute; a failure is translated only when it is
    reported. Returns None for a failure of another kind.
    """
    target, attribute = error.obj, error.name
    if not isinstance(target, MuranoObject) or not attribute:
        return None
    kind, _, name = attribute.partition("_")
    if kind != "p" and not (kind[:1] == "q" and is_number(kind[1:])):
        return None
    made = UninitializedPropertyAccessError(
        f'Access to uninitialized property "{name}" in class "{_home_of(target, kind, name)}" '
        "is forbidden"
    )
    made.__traceback__ = error.__traceback__
    return made


def _home_of(target: MuranoObject, kind: str, name: str) -> str:
    """The class that declares the property, or whose code has a private slot for it."""
    for type_ in target.type.ancestors:
        if name in type_.properties if kind == "p" else kind == f"q{type_.index}":
            return type_.name
    return target.type.name


def unwrap(value: object) -> object:
    """The object behind a cast view; other values as they are."""
    return value.target if isinstance(value, CastView) else value


def as_object(value: object, what: str) -> MuranoObject:
    """The value as an object. Raises MuranoError (ValueError for programs)."""
    if isinstance(value, MuranoObject):
        return value
    if isinstance(value, CastView):
        return value.target
    raise MuranoError(f"{what} takes an object, not {preview(value)}", names=("ValueError",))
