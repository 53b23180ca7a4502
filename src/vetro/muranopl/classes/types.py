"""Packages, classes and their members at run time (muranopl.md sections 2-4, 16).

After this phase every class knows its ancestors, the declaration that each member name means, and
the package from which other names are looked up. Types are shared by all sessions of a runtime;
they hold no program state.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vetro.muranopl.syntax.declarations import (
    ArgumentDeclaration,
    ClassDeclaration,
    MetaDeclaration,
    MethodDeclaration,
    PropertyDeclaration,
    ValueDeclaration,
)
from vetro.muranopl.syntax.names import Namespaces
from vetro.muranopl.syntax.sources import PackageSource
from vetro.muranopl.syntax.versions import Version, VersionSpec, version_spec
from vetro.muranopl.syntax.yamltree import Scalar, Source
from vetro.muranopl.values.collector_pause import collector_paused
from vetro.muranopl.values.errors import (
    AmbiguousMethodName,
    AmbiguousPropertyNameError,
    MuranoError,
)

if TYPE_CHECKING:
    from vetro.muranopl.compiler.assembly import Assembly
    from vetro.muranopl.compiler.classcode import ClassCode
    from vetro.muranopl.host.runtime import Runtime
    from vetro.muranopl.inplace.properties import GrowingProperty
    from vetro.muranopl.syntax.yamltree import Node

    from .native import NativeClass, NativeMethod, NativeProperty
    from .objects import MuranoObject


C = TypeVar("C", bound=Hashable)


def breadth_first(start: C, parents: Callable[[C], Sequence[C]]) -> list[C]:
    """A class and its ancestors, breadth first, each once."""
    order: dict[C, None] = {start: None}
    layer: list[C] = [start]
    while layer:
        following: list[C] = []
        for item in layer:
            for parent in parents(item):
                if parent not in order:
                    order[parent] = None
                    following.append(parent)
        layer = following
    return list(order)


def choose(start: C, parents: Callable[[C], Sequence[C]], declares: Callable[[C], bool]) -> list[C]:
    """The classes whose definition a name means: none, one, or several (then it is ambiguous).

    Each path to the root gives a chain of declaring classes. A chain that is a tail of another is
    dropped: an override on one branch of a diamond hides what the other branch only inherits. A
    chain is a tail exactly when a declaring class descends from its first class. So the paths need
    not be walked; diamonds have exponentially many.
    """
    order = breadth_first(start, parents)
    declaring = [item for item in order if declares(item)]
    if len(declaring) <= 1 or declaring[0] == start:
        return declaring[:1]
    hidden: set[C] = set()
    for item in declaring:
        if item not in hidden:
            hidden.update(breadth_first(item, parents)[1:])
    return [item for item in declaring if item not in hidden]


@dataclass(frozen=True, slots=True)
class ScopedSite:
    """A scoped method as the code of one class calls it."""

    call: Callable[..., Any]
    plain: set[type[Any]]
    """Python classes of receivers that have no such method of their own."""


class MuranoPackage:
    """A loaded package: one name and version."""

    def __init__(
        self,
        runtime: Runtime,
        source: PackageSource,
        version: Version,
        format_: tuple[int, int],
        requirements: Mapping[str, VersionSpec],
    ) -> None:
        self.runtime = runtime
        self.source = source
        self.name = source.full_name
        self.semantic_version = version
        self.version = str(version)
        self.format = format_
        self.requirements = dict(requirements)
        self.class_files = dict(source.classes)
        self.types: dict[str, MuranoType] = {}
        self.declared: dict[str, ClassDeclaration] = {}
        self.found: dict[str, MuranoType] = {}
        """Classes found from here, other packages' included."""
        self.loaded_files: set[str] = set()
        self.failed_files: dict[str, MuranoError] = {}
        """Errors of files that could not be read: every look-up raises them."""

    @property
    def legacy(self) -> bool:
        """True for formats 1.0 and 1.1, whose expressions are of the legacy flavour."""
        return self.format < (1, 2)

    @property
    def flavour(self) -> str:
        """The expression flavour of the package's code."""
        return "legacy" if self.legacy else "current"

    def find_type(self, name: str, spec: VersionSpec | None = None) -> MuranoType:
        """A class visible from this package (section 3). Raises NoClassFound."""
        return self.runtime.classes.find_type(self, name, spec)

    def requirement_for(self, package: MuranoPackage) -> VersionSpec:
        """The versions of another package that this package's code accepts (section 5)."""
        spec = self.requirements.get(package.name)
        if spec is not None:
            return spec
        if package.name == self.name:
            return version_spec(str(self.semantic_version.major))
        return version_spec(None)

    def read_resource(self, name: str) -> bytes:
        """The content of a file below `Resources/`; FileNotFoundError names package and file."""
        return self.source.read_resource(name)

    def __repr__(self) -> str:
        return f"<package {self.name}/{self.version}>"


class _Declared:
    """What a property and an argument have of their declaration."""

    __slots__ = ("contract", "default", "metas", "name", "position", "usage")

    def __init__(self, declaration: ValueDeclaration) -> None:
        self.name = declaration.name
        self.usage = declaration.usage
        self.contract: Node = declaration.contract
        self.default: Node | None = declaration.default
        self.metas: list[MetaDeclaration] = declaration.meta
        self.position = declaration.position


class Property(_Declared):
    """A property as one class declares it."""

    __slots__ = ("declaring_type", "native")

    def __init__(self, declaring_type: MuranoType, declaration: PropertyDeclaration) -> None:
        super().__init__(declaration)
        self.declaring_type = declaring_type
        self.native: NativeProperty | None = None

    @property
    def is_static(self) -> bool:
        return self.usage == "Static"

    @property
    def is_stored(self) -> bool:
        """True when models store it."""
        return self.usage in ("In", "Out", "InOut", "Const")

    @property
    def is_writable(self) -> bool:
        """True when code may write it after construction."""
        return self.usage not in ("In", "Const")


class Argument(_Declared):
    """An argument of a method written in MuranoPL."""

    __slots__ = ("method",)

    def __init__(self, method: Method, declaration: ArgumentDeclaration) -> None:
        super().__init__(declaration)
        self.method = method


class Method:
    """A method as one class declares it; `arguments` is None for native ones."""

    __slots__ = (
        "arguments",
        "body",
        "declaring_type",
        "error",
        "function",
        "metas",
        "name",
        "native",
        "position",
        "scope",
        "usage",
    )

    def __init__(self, declaring_type: MuranoType, declaration: MethodDeclaration) -> None:
        self.declaring_type = declaring_type
        self.name = declaration.name
        self.usage = declaration.usage
        self.scope = declaration.scope
        self.arguments: list[Argument] | None = [Argument(self, a) for a in declaration.arguments]
        self.body: Node | None = declaration.body
        self.metas: list[MetaDeclaration] = declaration.meta
        self.position = declaration.position
        self.native: NativeMethod | None = None
        self.function: Callable[..., Any] | None = None
        """`function(receiver, run, *args, **kwargs)` once the class is compiled."""
        self.error: MuranoError | None = declaration.error
        """Its error, known once the class is compiled; calls raise it."""

    @property
    def is_static(self) -> bool:
        """True when it can be called without an instance."""
        return self.usage in ("Static", "Extension")

    @property
    def is_action(self) -> bool:
        """True when it may be called from outside."""
        return self.scope == "Public"

    @property
    def is_hidden(self) -> bool:
        """True when reflection does not show it."""
        return self.name.startswith((".", "__"))

    def __repr__(self) -> str:
        return f"<method {self.declaring_type.name}::{self.name}>"


def _parents(type_: MuranoType) -> list[MuranoType]:
    return type_.parents


class MuranoType:
    """A class; also the type object that programs see. One per class and package version."""

    def __init__(
        self,
        package: MuranoPackage,
        name: str,
        declaration: ClassDeclaration,
        parents: Sequence[MuranoType],
    ) -> None:
        self.package = package
        self.name = name
        self.declaration = declaration
        self.usage = declaration.usage
        self.namespaces: Namespaces = declaration.namespaces
        self.parents = list(parents)
        self.ancestors: list[MuranoType] = breadth_first(self, lambda t: t.parents)
        """The class itself, then its ancestors, nearest layers first."""
        self.ancestor_set = frozenset(self.ancestors)
        self.properties: dict[str, Property] = {
            key: Property(self, value) for key, value in declaration.properties.items()
        }
        self.methods: dict[str, Method] = {
            key: Method(self, value) for key, value in declaration.methods.items()
        }
        self.native: NativeClass | None = None
        self.runtime = package.runtime
        self.index = package.runtime.classes.next_index()
        """A unique number for the names of private slots."""
        self.named_types: dict[str, Any] = {}
        self.extensions: dict[str, list[Any]] = {}
        self.growing_properties: dict[str, GrowingProperty] = {}
        self._native_parts: list[tuple[MuranoType, type[Any]]] | None = None
        self.plain_methods: dict[str, str] = {}
        """Python attributes of methods that the receiver's class alone determines."""
        self.scoped_sites: dict[str, ScopedSite] = {}
        self.reflected: dict[str, Method] = {}
        """Methods shown only by reflection: the language itself provides them."""
        self._imports: list[MuranoType] | None = None
        self._property_choice: dict[str, list[Property]] = {}
        self._method_choice: dict[str, list[Method]] = {}
        self._code: ClassCode | None = None
        self._config: Mapping[str, object] | None = None

    def add_native(self, native: NativeClass) -> None:
        """Merge a Python class: its members are added and replace those of the same name."""
        self.native = native
        position = self.declaration.position
        for name, found in native.methods.items():
            written = self.methods.get(name)
            usage = "Extension" if found.extends else "Static" if found.is_static else "Runtime"
            declaration = MethodDeclaration(name, usage, "Session", [], None, [], position)
            method = Method(self, declaration)
            method.arguments = None
            method.native = found
            if written is not None:
                method.metas, method.scope = written.metas, written.scope
            self.methods[name] = method
        for name, member in native.properties.items():
            if name not in self.properties:
                contract = Scalar(None, Source("<native>", ""), 0, 0, 1, 1)
                item = Property(
                    self, PropertyDeclaration(name, contract, "Runtime", None, [], position)
                )
                item.native = member
                self.properties[name] = item

    # -- compiled form -------------------------------------------------------------------------

    def own_code(self) -> ClassCode:
        """The compiled declarations of this class; compiled on first use."""
        if self._code is None:
            with collector_paused():
                self._code = self.runtime.compile(self)
        return self._code

    @functools.cached_property
    def assembly(self) -> Assembly:
        """The Python class of the type's objects and the data to load and save them."""
        with collector_paused():
            return self.runtime.assemble(self)

    def complete(self) -> None:
        """Compile now the functions that would be compiled on their first call."""
        with collector_paused():
            self.own_code().scope.complete()
            self.assembly.construction.complete()

    @functools.cached_property
    def python_class(self) -> type[MuranoObject]:
        """The Python class of this class's objects."""
        return self.assembly.python_class

    @property
    def native_parts(self) -> list[tuple[MuranoType, type[object]]]:
        """The classes of the ancestry that are, at least in part, Python classes."""
        if self._native_parts is None:
            self._native_parts = [
                (part, part.native.python_class)
                for part in self.ancestors
                if part.native is not None
            ]
        return self._native_parts

    @property
    def imports(self) -> list[MuranoType]:
        """The classes whose extension methods this class's code sees (section 16.3)."""
        if self._imports is None:
            self._imports = [self.find_type(name) for name in self.declaration.imports]
        return self._imports

    def class_config(self) -> Mapping[str, object]:
        """The class config values (section 6)."""
        if self._config is None:
            self._config = self.runtime.class_config(self)
        return self._config

    @property
    def version(self) -> str:
        """The version of the class's package."""
        return self.package.version

    @property
    def full_name(self) -> str:
        """`FQN/version@package`, as models write it."""
        return f"{self.name}/{self.package.version}@{self.package.name}"

    def is_compatible(self, other: MuranoType) -> bool:
        """True when this class is `other` or descends from it."""
        return other in self.ancestor_set

    # -- members -------------------------------------------------------------------------------

    def property_declarations(self, name: str) -> list[Property]:
        """The declarations that the name means here: none, one, or several unrelated ones."""
        known = self._property_choice.get(name)
        if known is None:
            owners = self._declaring(lambda item: name in item.properties)
            known = self._property_choice[name] = [owner.properties[name] for owner in owners]
        return known

    def method_declarations(self, name: str) -> list[Method]:
        """The definitions the name means here: none, one, or several unrelated ones."""
        known = self._method_choice.get(name)
        if known is None:
            owners = self._declaring(lambda item: name in item.methods)
            known = self._method_choice[name] = [owner.methods[name] for owner in owners]
        return known

    def _declaring(self, declares: Callable[[MuranoType], bool]) -> list[MuranoType]:
        owners = [item for item in self.ancestors if declares(item)]
        if len(owners) > 1 and owners[0] is not self:
            return choose(self, _parents, declares)
        return owners[:1]

    def find_property(self, name: str) -> Property | None:
        """The one declaration of a property. Raises AmbiguousPropertyNameError."""
        found = self.property_declarations(name)
        if len(found) > 1:
            raise AmbiguousPropertyNameError(
                f"property {name!r} of {self.name} is declared by unrelated classes: "
                + ", ".join(_labels([item.declaring_type for item in found])),
                hint=f"redeclare it in {self.name}, or select a class with cast()",
            )
        return found[0] if found else None

    def find_method(self, name: str) -> Method | None:
        """The one definition of a method. Raises AmbiguousMethodName."""
        found = self.method_declarations(name)
        if len(found) > 1:
            raise AmbiguousMethodName(
                f"Found more than one method {name!r} in {self.name}: "
                + ", ".join(
                    f"{label}::{name}" for label in _labels([item.declaring_type for item in found])
                ),
                hint=f"override it in {self.name}, or select one with cast() or super()",
            )
        return found[0] if found else None

    def property_names(self) -> list[str]:
        """Every property name of the hierarchy: own first, in order of declaration."""
        names: dict[str, None] = {}
        for item in self.ancestors:
            names.update(dict.fromkeys(item.properties))
        return list(names)

    def method_names(self) -> list[str]:
        """Every method name of the hierarchy: own first, in order of declaration."""
        names: dict[str, None] = {}
        for item in self.ancestors:
            names.update(dict.fromkeys(item.methods))
        return list(names)

    def all_declarations(self, name: str) -> list[Property]:
        """Every declaration of a property in the hierarchy, nearest first."""
        return [item.properties[name] for item in self.ancestors if name in item.properties]

    def find_type(self, name: str) -> MuranoType:
        """A class by fully qualified name, as this class's package sees it."""
        return self.package.find_type(name)

    def __repr__(self) -> str:
        return f"<type {self.full_name}>"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if isinstance(other, MuranoType):  # a virtual class equals its original (`reconciling`)
            return other.name == self.name and other.package is self.package
        # In code of format 1.3 a type still has to equal its name (section 14).
        return isinstance(other, str) and other == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def _labels(types: Sequence[MuranoType]) -> list[str]:
    """Names of classes, with their versions where one name occurs in several."""
    names = [item.name for item in types]
    if len(set(names)) == len(names):
        return names
    return [f"{item.name}/{item.version}" for item in types]
