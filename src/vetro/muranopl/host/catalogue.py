"""Packages and their classes: registration, look-up by name, building of classes.

Packages are found by name and version (muranopl.md section 5), classes as the code of a package
sees them (section 3). A class is declared when its file is first read and linked when it is first
looked up.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from vetro.muranopl.classes.builtin import CORE
from vetro.muranopl.classes.native import NativeClass, inspect_class
from vetro.muranopl.classes.reconciling import reconcile
from vetro.muranopl.classes.types import MuranoPackage, MuranoType
from vetro.muranopl.syntax import class_reader
from vetro.muranopl.syntax.declarations import ClassDeclaration
from vetro.muranopl.syntax.expressions import parse_expression
from vetro.muranopl.syntax.findings import Finding, Sink, did_you_mean
from vetro.muranopl.syntax.names import Namespaces
from vetro.muranopl.syntax.sources import PackageSource
from vetro.muranopl.syntax.versions import Version, VersionSpec, version_spec
from vetro.muranopl.syntax.yamltree import Mistakes, load_documents
from vetro.muranopl.threads.scheduler import current_thread, in_green_thread
from vetro.muranopl.values.collector_pause import collector_paused
from vetro.muranopl.values.errors import (
    DslSyntaxError,
    InvalidInheritanceError,
    MuranoError,
    NoClassFound,
    NoPackageForClassFound,
    Position,
)
from vetro.muranopl.values.limits import YamlLimits

from .shelf import PackageShelf

if TYPE_CHECKING:
    from vetro.muranopl.compiler.codecache import CodeCache

_EXTENSIONS = "io.murano.extensions."


class ClassCatalogue:
    """The classes of the packages on a shelf."""

    def __init__(
        self, shelf: PackageShelf, yaml_limits: YamlLimits | None, code_cache: CodeCache | None
    ) -> None:
        self.shelf = shelf
        self.yaml_limits = yaml_limits or YamlLimits()
        self.code_cache = code_cache
        self.findings: list[Finding] = []
        """Linter findings about the classes compiled so far."""
        self.collected: list[MuranoError] | None = None
        """Errors of class files, while they are collected (a package is being checked)."""
        self._natives: dict[str, _NativeRegistration] = {}
        self._parse_expression = functools.lru_cache(4096)(parse_expression)
        """A cache: half of a package's expressions occur more than once, in it or in others."""
        self._reset()

    def for_world(self, shelf: PackageShelf) -> Self:
        """A catalogue of another shelf, with the same native classes."""
        made = copy.copy(self)
        made.shelf = shelf
        made._reset()
        return made

    def _reset(self) -> None:
        self._index = 0
        self._building: dict[object, list[tuple[MuranoPackage, str]]] = {}
        """Classes being linked, by green thread: one may wait for a package meanwhile."""

    # -- registration --------------------------------------------------------------------------

    def add_native_class(
        self,
        name: str,
        python_class: type[object],
        *,
        package: str = CORE,
        extends: str | Sequence[str] = "io.murano.Object",
    ) -> None:
        """Make a Python class a MuranoPL class (see `vetro.muranopl.classes.native`).

        When a package declares the class in YAML as well, the two are merged; otherwise it is a
        class of `package` with the given parents.
        """
        parents = [extends] if isinstance(extends, str) else list(extends)
        self._natives[name] = _NativeRegistration(inspect_class(python_class), package, parents)

    def class_names(self, package: MuranoPackage) -> list[str]:
        """Every class of a package: those of its files, those of the language, native ones."""
        names = dict.fromkeys(package.class_files)
        if package.name == CORE:
            names |= dict.fromkeys(self.shelf.builtin.classes)
        names |= {
            name: None for name, item in self._natives.items() if item.package == package.name
        }
        return list(names)

    # -- types ---------------------------------------------------------------------------------

    def next_index(self) -> int:
        """A number for a new class."""
        self._index += 1
        return self._index

    def type(self, name: str, version_spec_text: str | None = None) -> MuranoType:
        """A class by name, in any version unless a spec is given. Raises NoClassFound."""
        spec = VersionSpec("*") if version_spec_text is None else version_spec(version_spec_text)
        found = self._type_in_any_package(name, spec, None)
        if found is None:
            raise NoClassFound(f'Class "{name}" is not found', hint=self._close_class_names(name))
        return found

    def find_type(
        self, package: MuranoPackage, name: str, spec: VersionSpec | None = None
    ) -> MuranoType:
        """A class as a package's code sees it (section 3). Raises NoClassFound."""
        if spec is None:
            known = package.found.get(name)
            if known is not None:
                return known
        found = self._find_type(package, name, spec)
        if found is None and name.startswith(_EXTENSIONS):
            short = name.removeprefix(_EXTENSIONS)
            found = self._find_type(package, short, spec)
            if found is not None:
                self.findings.append(
                    Finding(
                        "W031",
                        f"write {short} instead of {name}",
                        Position(package.name, 1, 1),
                    )
                )
        if found is None:
            looked_in = ", ".join(f"{item.name}/{item.version}" for item in self._visible(package))
            raise NoClassFound(
                f'Class "{name}" is not found in {looked_in}',
                hint=self._not_required(package, name) or self._close_class_names(name),
            )
        if spec is None:
            package.found[name] = found
        return found

    def _find_type(
        self, package: MuranoPackage, name: str, spec: VersionSpec | None
    ) -> MuranoType | None:
        for visible in self._visible(package):
            if spec is not None and visible.semantic_version not in spec:
                continue
            found = self.own_type(visible, name)
            if found is not None:
                return found
        if spec is not None:
            return self._type_in_any_package(name, spec, None)
        return None

    def _visible(self, package: MuranoPackage) -> list[MuranoPackage]:
        """A package, then what it requires."""
        visible = [package]
        requirements = dict(package.requirements)
        requirements.setdefault(CORE, version_spec(None))
        for name, spec in requirements.items():
            if name != package.name:
                visible.append(self.shelf.find_package(name, spec))
        return visible

    def own_type(self, package: MuranoPackage, name: str) -> MuranoType | None:
        """A class that the package itself declares; built on first use."""
        self.shelf.used.add(package)
        known = package.types.get(name)
        if known is not None:
            return known
        declaration = self._declaration(package, name)
        return None if declaration is None else self._build(package, name, declaration)

    def _declaration(self, package: MuranoPackage, name: str) -> ClassDeclaration | None:
        waiting = package.declared.get(name)
        if waiting is not None:
            return waiting
        source = package.source
        file = package.class_files.get(name)
        if file is None and package.name == CORE:
            file = self.shelf.builtin.classes.get(name)
            source = self.shelf.builtin
        if file is None:
            native = self._natives.get(name)
            if native is not None and native.package == package.name:
                return _native_declaration(name, native)
            return None
        self._load_file(package, source, file, name)
        found = package.declared.get(name)
        if found is None:
            bare = package.declared.get(name.rpartition(".")[2])
            if bare is not None and not bare.namespaces.default:
                bare.name = name
                return bare
            place = Position(f"{package.name}/Classes/{file}", 1, 1)
            there = [
                one for one, item in package.declared.items() if item.position.file == place.file
            ]
            error = DslSyntaxError(
                f"the file {file} of {package.name} does not declare {name}; "
                f"it has {', '.join(sorted(there)) or 'no class'}",
                position=place,
                hint="check Name and Namespaces in the file, and Classes in the manifest",
            )
            error.lint_code = "E051"
            raise error
        return found

    def _load_file(
        self, package: MuranoPackage, source: PackageSource, file: str, name: str
    ) -> None:
        failed = package.failed_files.get(file)
        if failed is not None:
            raise failed.with_traceback(None)
        if file in package.loaded_files:
            return
        package.loaded_files.add(file)
        try:
            self._read_file(package, source, file, name)
        except MuranoError as error:
            package.failed_files[file] = error
            raise

    def _read_file(
        self, package: MuranoPackage, source: PackageSource, file: str, name: str
    ) -> None:
        shown = f"{package.name}/Classes/{file}"
        try:
            text = source.read_class(file)
        except FileNotFoundError as error:
            raise NoClassFound(
                f'the file "{file}" of class "{name}" is not in package {package.name}'
            ) from error
        cache = self.code_cache
        source_key = f"{self.yaml_limits} {shown}"
        documents = None if cache is None else cache.documents(text, source_key)
        mistakes: Mistakes = {}
        if documents is None:
            with collector_paused():
                documents = load_documents(
                    text,
                    shown,
                    parse_expression=self._parse_expression,
                    limits=self.yaml_limits,
                    mistakes=mistakes,
                )
            if cache is not None and not mistakes:
                cache.keep_documents(text, source_key, documents)
        sink = Sink(collects=self.collected is not None, advice=self.findings)
        found = class_reader.declare(documents, name, sink, mistakes, package.format)
        if self.collected is not None:
            self.collected.extend([*sink.errors, *sink.dormant])
        for declaration in found:
            assert declaration.name is not None
            if declaration.name in package.declared:
                raise DslSyntaxError(
                    f"class {declaration.name} is declared twice in {package.name}",
                    position=declaration.position,
                )
            package.declared[declaration.name] = declaration

    def _build(
        self, package: MuranoPackage, name: str, declaration: ClassDeclaration
    ) -> MuranoType:
        key = (package, name)
        thread = current_thread() if in_green_thread() else None
        building = self._building.setdefault(thread, [])
        if key in building:
            cycle = [item for _, item in building[building.index(key) :]]
            raise InvalidInheritanceError(
                f"class {name} extends itself: {' → '.join([*cycle, name])}",
                position=declaration.position,
            )
        building.append(key)
        try:
            parents: list[MuranoType] = []
            for parent_name in dict.fromkeys(declaration.extends):
                try:
                    parents.append(self.find_type(package, parent_name))
                except NoClassFound as error:
                    error.position = error.position or declaration.place_of(parent_name)
                    raise
        finally:
            building.pop()
            if not building:
                self._building.pop(thread, None)
        if name in package.types:  # another green thread built it meanwhile
            return package.types[name]
        parents = reconcile(package, declaration, parents)
        for parent in parents:
            if declaration.usage == "Class" and parent.usage == "Meta":
                raise InvalidInheritanceError(
                    f"class {name} cannot extend the meta-class {parent.name}",
                    position=declaration.place_of(parent.name),
                )
        made = MuranoType(package, name, declaration, parents)
        native = self._natives.get(name)
        if native is not None:
            made.add_native(native.inspected)
        package.types[name] = made
        return made

    def _type_in_any_package(
        self, name: str, spec: VersionSpec, project_id: str | None
    ) -> MuranoType | None:
        core = self.shelf.core
        query = ("class", name, spec.text, project_id)
        if not self._is_added(name, spec):
            if core.semantic_version in spec:
                found = self.own_type(core, name)
                if found is not None:
                    return found
            native = self._natives.get(name)
            if native is not None and native.package in self.shelf.versions:
                package = self.shelf.find_package(native.package, VersionSpec("*"))
                return self.own_type(package, name)
        home = self.shelf.decided(query)
        return None if home is None else self.own_type(home, name)

    def _is_added(self, name: str, spec: VersionSpec) -> bool:
        """Whether a known package declares the class, in a version that the spec admits."""
        return any(
            version in spec and self.shelf.declares(package, name)
            for versions in self.shelf.versions.values()
            for version, package in versions.items()
        )

    def type_from_model(
        self,
        name: str,
        version: str | None,
        package: str | None,
        scope: MuranoType | None,
        project_id: str | None = None,
    ) -> MuranoType:
        """The class that a model names. Raises NoPackageForClassFound, NoPackageFound."""
        spec = version_spec(version)
        if scope is not None and package is None:
            if version is None:
                return scope.find_type(name)
            return self.find_type(scope.package, name, spec)
        if package is not None:
            found = self.own_type(self.shelf.find_package(package, spec, project_id), name)
        else:
            found = self._type_in_any_package(name, spec, project_id)
        if found is None:
            raise NoPackageForClassFound(
                f'Package for class "{name}" ({spec}) is not found',
                names=(*NoPackageForClassFound("").names, *NoClassFound("").names),
                hint=self._other_versions(name, package, project_id)
                or self._close_class_names(name),
            )
        return found

    def _other_versions(self, name: str, package: str | None, project_id: str | None) -> str | None:
        """A hint for a class that exists, but not in a wanted version."""
        homes = {
            (item.name, item.semantic_version): None
            for item in self.shelf.packages
            if name in item.class_files and package in (None, item.name)
        }
        if not homes and self.shelf.resolver is not None:
            source = (
                self.shelf.resolver.find_class(name, "*", project_id)
                if package is None
                else self.shelf.resolver.find_package(package, "*", project_id)
            )
            if source is not None and name in source.classes:
                homes[source.full_name, Version.parse(source.version)] = None
        if not homes:
            return None
        places = ", ".join(f"{home} {version}" for home, version in homes)
        newest = max(version for _, version in homes)
        return (
            f"the class is in {places}: write {name}/{newest} as the type, or "
            f"classVersion: {newest}; without a version, 0.x is assumed"
        )

    def _not_required(self, package: MuranoPackage, name: str) -> str | None:
        """A hint for a class of an existing package that is not required."""
        homes = [item for item in self.shelf.packages if name in item.class_files]
        if not homes:
            return None
        home = homes[-1]
        return (
            f"it is in package {home.name} {home.version}: add `{home.name}: "
            f"{home.semantic_version}` to Require in the manifest of {package.name}"
        )

    def _close_class_names(self, name: str) -> str | None:
        """A hint with the nearest class name."""
        known = [
            item
            for versions in self.shelf.versions.values()
            for package in versions.values()
            for item in package.class_files
        ]
        return did_you_mean(name, known)


class _NativeRegistration(NamedTuple):
    inspected: NativeClass
    package: str
    extends: list[str]


def _native_declaration(name: str, native: _NativeRegistration) -> ClassDeclaration:
    return ClassDeclaration(
        name=name,
        namespaces=Namespaces(),
        extends=[item for item in native.extends if item != name],
        usage="Class",
        properties={},
        methods={},
        imports=[],
        meta=[],
        cardinality="One",
        applies=frozenset(),
        inherited=False,
        position=Position("<native>", 1, 1),
    )
