"""`typeinfo`: reflection of classes for programs (muranopl.md section 17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from vetro.muranopl.classes.types import Method
from vetro.muranopl.syntax.declarations import MethodDeclaration
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import NoPropertyFound
from vetro.yaql.errors import NoMethodRegisteredException

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Argument, MuranoPackage, MuranoType, Property
    from vetro.muranopl.syntax.versions import Version

    from .run import Run

Reader = Callable[[Value, "Run"], Value]
Caller = Callable[..., Value]


class Info:
    """A reflection object: it has only the attributes and methods of its tables."""

    __slots__ = ()
    kind: ClassVar[str] = "info"
    readers: ClassVar[dict[str, Reader]] = {}
    callers: ClassVar[dict[str, Caller]] = {}

    def read(self, run: Run, name: str) -> Value:
        """An attribute. Raises NoPropertyFound."""
        reader = self.readers.get(name)
        if reader is None:
            raise NoPropertyFound(
                f"a {self.kind} has no property {name!r}", hint=did_you_mean(name, self.readers)
            )
        return reader(self, run)

    def call(self, run: Run, name: str, args: Sequence[Value], kwargs: dict[str, Value]) -> Value:
        """A method. Raises NoMethodRegisteredException."""
        caller = self.callers.get(name)
        if caller is None:
            raise NoMethodRegisteredException(f"a {self.kind} has no method {name!r}")
        return caller(self, run, *args, **kwargs)

    def as_type(self) -> MuranoType | None:
        """The class it describes, when it describes one."""
        return None


class VersionInfo(Info):
    """`typeinfo(x).version`"""

    __slots__ = ("version",)
    kind = "version"

    def __init__(self, version: Version) -> None:
        self.version = version

    def __str__(self) -> str:
        return str(self.version)

    readers = {
        "major": lambda self, run: self.version.major,
        "minor": lambda self, run: self.version.minor,
        "patch": lambda self, run: self.version.patch,
        "prerelease": lambda self, run: self.version.prerelease,
        "build": lambda self, run: self.version.build,
    }


class _Wrapper(Info):
    """An info about one subject; equal to another info about the same subject."""

    __slots__ = ("subject",)

    def __init__(self, subject: Any) -> None:
        self.subject = subject

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.subject is self.subject  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), id(self.subject)))

    def __str__(self) -> str:
        return f"<{self.kind} {self.subject.name}>"


def _infos(wrapper: type[_Wrapper], items: Sequence[object]) -> tuple[Info, ...]:
    return tuple([wrapper(item) for item in items])


def _metas(self: Any, run: Run) -> object:
    from .metadata import meta_objects

    return meta_objects(run, self.subject)


class ClassInfo(_Wrapper):
    """A class."""

    __slots__ = ()
    kind = "class"
    subject: MuranoType

    def as_type(self) -> MuranoType:
        return self.subject

    def _properties(self, run: Run) -> object:
        found: list[Property] = []
        for name in self.subject.property_names():
            if not name.startswith((".", "__")):
                found.extend(self.subject.property_declarations(name))
        return _infos(PropertyInfo, found)

    def _methods(self, run: Run) -> object:
        found: list[Method] = []
        for name in self.subject.method_names():
            if not name.startswith((".", "__")):
                found.extend(self.subject.method_declarations(name))
        known = {item.name for item in found}
        root = self.subject.ancestors[-1]
        found.extend(_method_of_objects(root, name) for name in _OF_OBJECTS if name not in known)
        return _infos(MethodInfo, found)

    def _meta_only(self, run: Run, name: str) -> object:
        if self.subject.usage != "Meta":
            raise NoPropertyFound(f"{self.subject.name} is not a meta-class, so it has no {name}")
        declaration = self.subject.declaration
        values = {
            "cardinality": declaration.cardinality,
            "targets": tuple(sorted(declaration.applies - {"All"})),
            "inherited": declaration.inherited,
        }
        return values[name]

    readers = {
        "name": lambda self, run: self.subject.name,
        "version": lambda self, run: VersionInfo(self.subject.package.semantic_version),
        "usage": lambda self, run: self.subject.usage,
        "ancestors": lambda self, run: _infos(ClassInfo, self.subject.ancestors[1:]),
        "properties": _properties,
        "methods": _methods,
        "package": lambda self, run: PackageInfo(self.subject.package),
        "type": lambda self, run: self.subject,
        "meta": _metas,
        "cardinality": lambda self, run: self._meta_only(run, "cardinality"),
        "targets": lambda self, run: self._meta_only(run, "targets"),
        "inherited": lambda self, run: self._meta_only(run, "inherited"),
    }


_OF_OBJECTS = ("getAttr", "setAttr")
"""Methods of every object that the language itself has (section 20)."""


def _method_of_objects(root: MuranoType, name: str) -> Method:
    known = root.reflected.get(name)
    if known is None:
        position = root.declaration.position
        declaration = MethodDeclaration(name, "Runtime", "Session", [], None, [], position)
        known = root.reflected[name] = Method(root, declaration)
        known.arguments = None
    return known


class PropertyInfo(_Wrapper):
    """A property."""

    __slots__ = ()
    kind = "property"
    subject: Property

    def _get(self, run: Run, target: object) -> object:
        from . import inline_caches
        from .traces import calling_type

        if target is None:
            target = self.subject.declaring_type
        return inline_caches.read_member(run, target, self.subject.name, calling_type())

    def _set(self, run: Run, target: object, value: object) -> None:
        from .traces import calling_type

        if target is None:
            target = self.subject.declaring_type
        run.write_property(target, self.subject.name, value, calling_type())

    readers = {
        "name": lambda self, run: self.subject.name,
        "hasDefault": lambda self, run: self.subject.default is not None,
        "usage": lambda self, run: self.subject.usage,
        "declaringType": lambda self, run: ClassInfo(self.subject.declaring_type),
        "meta": _metas,
    }
    callers = {"getValue": _get, "setValue": _set}


class MethodInfo(_Wrapper):
    """A method."""

    __slots__ = ()
    kind = "method"
    subject: Method

    def _arguments(self, run: Run) -> object:
        arguments = self.subject.arguments
        return None if arguments is None else _infos(ArgumentInfo, arguments)

    def _invoke(self, run: Run, target: object, /, *args: object, **kwargs: object) -> object:
        from . import inline_caches
        from .traces import calling_type

        if target is None:
            target = self.subject.declaring_type
        return inline_caches.dynamic_call(
            run, calling_type(), target, self.subject.name, args, kwargs
        )

    readers = {
        "name": lambda self, run: self.subject.name,
        "declaringType": lambda self, run: ClassInfo(self.subject.declaring_type),
        "arguments": _arguments,
        "meta": _metas,
    }
    callers = {"invoke": _invoke}


class ArgumentInfo(_Wrapper):
    """An argument of a method."""

    __slots__ = ()
    kind = "argument"
    subject: Argument

    readers = {
        "name": lambda self, run: self.subject.name,
        "hasDefault": lambda self, run: self.subject.default is not None,
        "usage": lambda self, run: self.subject.usage,
        "declaringMethod": lambda self, run: MethodInfo(self.subject.method),
        "meta": _metas,
    }


class PackageInfo(_Wrapper):
    """A package."""

    __slots__ = ()
    kind = "package"
    subject: MuranoPackage

    def _types(self, run: Run) -> object:
        package = self.subject
        return _infos(ClassInfo, [package.find_type(name) for name in package.class_files])

    readers = {
        "name": lambda self, run: self.subject.name,
        "version": lambda self, run: VersionInfo(self.subject.semantic_version),
        "types": _types,
        "meta": _metas,
    }


def class_info(type_: MuranoType) -> ClassInfo:
    """The reflection object of a class."""
    return ClassInfo(type_)
