"""A runtime: the packages, classes and functions that sessions share."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, new_class
from typing import TYPE_CHECKING, Any, Literal, cast

import yaml

from vetro.yaql.errors import YaqlParsingException
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.grammar import MURANOPL
from vetro.yaql.library import Library, standard_library
from vetro.yaql.parser import parse

from . import declarations, locking, metadata
from .builtin import CORE, BuiltinCore
from .caught import CaughtException
from .collector import collector_paused
from .declarations import ClassDeclaration, Finding, MetaDeclaration
from .effects import DirectEffects, EffectsPort, Json
from .errors import (
    DslSyntaxError,
    InvalidInheritanceError,
    MuranoError,
    NoClassFound,
    NoPackageForClassFound,
    NoPackageFound,
    PackageFormatError,
    Position,
)
from .functions import engine_library
from .limits import Limits, YamlLimits
from .locking import LockPolicy
from .manifest import parse_format
from .names import Namespaces
from .native import NativeClass, inspect_class, inspect_function
from .nativecalls import NativeCall
from .objects import CastView
from .reconciling import reconcile
from .scheduler import current_thread, in_green_thread
from .sources import PackageResolver, PackageSource
from .types import Method, MuranoPackage, MuranoType
from .values import FINAL_TYPES
from .versions import Version, VersionSpec, version_spec
from .yamltree import load_documents

if TYPE_CHECKING:
    from .codecache import CodeCache
    from .coverage import LineCoverage
    from .session import Session, SessionInfo

_EXTENSIONS = "io.murano.extensions."


class Runtime:
    """Compiles classes once and keeps them; any number of sessions run over it.

    The classes `io.murano.Object`, `Exception`, `StackTrace`, `system.GC`, `system.Logger` and
    `io.murano.metadata.*` are always there; a package `io.murano` that is added replaces those it
    declares and keeps the rest.

    `class_configs`: a directory of class config files (section 6), or a map from class name to
    its map of values. `resolver` finds packages that were not added. `code_cache`: a directory in
    which compiled classes are kept from run to run (`codecache`). `formats`: the package formats
    that are accepted, by default all from 1.0 to 1.5 (`io.murano` always is).
    """

    def __init__(
        self,
        *,
        class_configs: Path | Mapping[str, Mapping[str, Json]] | None = None,
        resolver: PackageResolver | None = None,
        yaml_limits: YamlLimits | None = None,
        code_cache: Path | CodeCache | None = None,
        formats: Collection[str] | None = None,
    ) -> None:
        self.formats = None if formats is None else {parse_format(item) for item in formats}
        self.resolver = resolver
        self.class_configs = class_configs
        self.yaml_limits = yaml_limits or YamlLimits()
        if isinstance(code_cache, Path):
            from .codecache import CodeCache  # not every run needs it, and it imports much

            code_cache = CodeCache(code_cache)
        self.code_cache = code_cache
        self.coverage: LineCoverage | None = None
        """Where classes compiled from now on note which statements run."""
        self.findings: list[Finding] = []
        """What a linter would say about the classes compiled so far."""
        self.fixed_packages: dict[str, set[Version]] = {}
        """Versions this environment already uses (section 5); they are preferred."""
        self.final_types: set[Any] = set(FINAL_TYPES) | {CastView, MuranoType}
        """Python classes whose instances programs may keep as they are."""
        self._packages: dict[str, dict[Version, MuranoPackage]] = {}
        self._used: set[MuranoPackage] = set()
        self.construction_code: dict[str, CodeType] = {}
        """Compiled source of constructions: a class often shares it with what it extends."""
        self._natives: dict[str, _NativeRegistration] = {}
        self._libraries: dict[str, Library] = {}
        self._package_functions: dict[str, list[tuple[str, Callable[..., Any], str]]] = {}
        self._package_libraries: dict[tuple[str, str], Library] = {}
        self._builtin = BuiltinCore()
        self._index = 0
        self._parse_expression = functools.lru_cache(4096)(parse_expression)
        """Half of the expressions of a package stand in it, or in another, more than once."""
        self._building: dict[object, list[tuple[MuranoPackage, str]]] = {}
        """Classes being linked, by green thread: one may wait for a package meanwhile."""
        from .system import GarbageCollector, SystemLogger, Trace, TracedException

        self.add_native_class("io.murano.system.GC", GarbageCollector)
        self.add_native_class("io.murano.system.Logger", SystemLogger)
        self.add_native_class("io.murano.Exception", TracedException)
        self.add_native_class("io.murano.StackTrace", Trace)

    # -- registration --------------------------------------------------------------------------

    def add_package(self, source: PackageSource) -> MuranoPackage:
        """Make a package known. Classes compile when first used. Raises PackageFormatError."""
        try:
            version = Version.parse(source.version)
            requirements = {name: version_spec(spec) for name, spec in source.requirements.items()}
        except ValueError as error:
            raise PackageFormatError(f"package {source.full_name}: {error}") from error
        format_ = parse_format(source.format)
        is_core = source.full_name == CORE
        if self.formats is not None and format_ not in self.formats and not is_core:
            accepted = ", ".join(f"{major}.{minor}" for major, minor in sorted(self.formats))
            raise PackageFormatError(
                f"package {source.full_name} has format {format_[0]}.{format_[1]}",
                hint=f"accepted here: {accepted}",
            )
        package = MuranoPackage(self, source, version, format_, requirements)
        versions = self._packages.setdefault(source.full_name, {})
        old = versions.get(version)
        if old is not None and old.types:
            raise MuranoError(
                f"package {source.full_name}/{version} is in use and cannot be replaced",
                names=("ValueError",),
            )
        versions[version] = package
        return package

    def add_native_class(
        self,
        name: str,
        python_class: type[Any],
        *,
        package: str = CORE,
        extends: str | Sequence[str] = "io.murano.Object",
    ) -> None:
        """Make a Python class a MuranoPL class (see `vetro.muranopl.native`).

        When a package declares the class in YAML as well, the two are merged; otherwise it is a
        class of `package` with the given parents.
        """
        parents = [extends] if isinstance(extends, str) else list(extends)
        self._natives[name] = _NativeRegistration(inspect_class(python_class), package, parents)

    def add_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        kind: Literal["function", "method", "both"] = "function",
        packages: Sequence[str] | None = None,
    ) -> None:
        """Register a host function; with `packages`, only their code sees it.

        It takes plain values (and a `CallContext` where annotated) and returns one. Functions are
        seen by classes compiled after the registration.
        """
        if packages is None:
            for flavour in ("current", "legacy"):
                _register(self.library(flavour), name, function, kind)
            return
        for package in packages:
            self._package_functions.setdefault(package, []).append((name, function, kind))

    def load_plugins(self, group: str = "io.murano.extensions") -> list[str]:
        """Add the native classes of installed distributions; their names (section 25).

        An entry point's name is the class name. Names that several distributions use are left out.
        """
        from importlib.metadata import EntryPoint, entry_points

        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=group):
            found.setdefault(entry.name, []).append(entry)
        added: list[str] = []
        prepared: set[str] = set()
        for name, entries in sorted(found.items()):
            if len(entries) > 1:
                continue
            entry = entries[0]
            loaded = entry.load()
            module = importlib.import_module(entry.module)
            prepare = getattr(module, "init_plugin", None)
            if prepare is not None and entry.module not in prepared:
                prepare()
                prepared.add(entry.module)
            self.add_native_class(name, loaded, package=name.rpartition(".")[0])
            added.append(name)
        return added

    # -- libraries -----------------------------------------------------------------------------

    def library(self, flavour: str) -> Library:
        """The functions that class code of a flavour sees."""
        known = self._libraries.get(flavour)
        if known is None:
            known = self._libraries[flavour] = engine_library(standard_library(flavour)).child()
        return known

    def library_for(self, package: MuranoPackage) -> Library:
        """The functions that a package's code sees."""
        extra = self._package_functions.get(package.name)
        base = self.library(package.flavour)
        if not extra:
            return base
        key = (package.name, package.flavour)
        known = self._package_libraries.get(key)
        if known is None:
            known = self._package_libraries[key] = base.child()
            for name, function, kind in extra:
                _register(known, name, function, kind)
        return known

    # -- packages ------------------------------------------------------------------------------

    @property
    def packages(self) -> list[MuranoPackage]:
        """Every known package, in the order they were added, versions of one name together."""
        return [item for versions in self._packages.values() for item in versions.values()]

    @property
    def core(self) -> MuranoPackage:
        """The package `io.murano`."""
        return self.find_package(CORE, version_spec(None))

    def find_package(
        self, name: str, spec: VersionSpec, project_id: str | None = None
    ) -> MuranoPackage:
        """A package by name: a fixed version, one in use, the best known, or the resolver's.

        Raises NoPackageFound.
        """
        if name == CORE and CORE not in self._packages:
            self.add_package(self._builtin)
        known = [
            package for version, package in self._packages.get(name, {}).items() if version in spec
        ]
        best = self._preferred(known)
        if best is not None:
            return best
        if self.resolver is not None:
            source = self.resolver.find_package(name, str(spec), project_id)
            if source is not None:
                return self._added(source)
        raise NoPackageFound(
            f'Package "{name}" ({spec}) is not found', hint=self._package_versions(name, project_id)
        )

    def _package_versions(self, name: str, project_id: str | None) -> str | None:
        """A hint for a package that is there, but in no version that was asked for."""
        versions = [str(version) for version in self._packages.get(name, {})]
        if not versions and self.resolver is not None:
            source = self.resolver.find_package(name, "*", project_id)
            if source is not None:
                versions.append(source.version)
        return f"it is there in version {', '.join(versions)}" if versions else None

    def _added(self, source: PackageSource) -> MuranoPackage:
        known = self._packages.get(source.full_name, {}).get(Version.parse(source.version))
        return known if known is not None else self.add_package(source)

    def _preferred(self, candidates: Sequence[MuranoPackage]) -> MuranoPackage | None:
        if not candidates:
            return None
        return max(
            candidates,
            key=lambda package: (
                package.semantic_version in self.fixed_packages.get(package.name, ()),
                package in self._used,
                package.semantic_version,
            ),
        )

    def used_packages(self) -> dict[str, list[str]]:
        """The packages whose classes were built, for the fixation table (section 5)."""
        table: dict[str, list[str]] = {}
        for package in sorted(self._used, key=lambda item: (item.name, item.semantic_version)):
            table.setdefault(package.name, []).append(package.version)
        return table

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
            raise NoClassFound(f'Class "{name}" is not found', hint=self.close_class_names(name))
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
                        "W-extensions",
                        f"write {short} instead of {name}",
                        Position(package.name, 1, 1),
                    )
                )
        if found is None:
            looked_in = ", ".join(f"{item.name}/{item.version}" for item in self._visible(package))
            raise NoClassFound(
                f'Class "{name}" is not found in {looked_in}',
                hint=self._not_required(package, name) or self.close_class_names(name),
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
                visible.append(self.find_package(name, spec))
        return visible

    def own_type(self, package: MuranoPackage, name: str) -> MuranoType | None:
        """A class that the package itself declares; built now if it is not."""
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
            file = self._builtin.classes.get(name)
            source = self._builtin
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
            raise DslSyntaxError(
                f"the file {file} of {package.name} does not declare {name}",
                position=Position(f"{package.name}/Classes/{file}", 1, 1),
                hint="check Name and Namespaces in the file, and Classes in the manifest",
            )
        return found

    def _load_file(
        self, package: MuranoPackage, source: PackageSource, file: str, name: str
    ) -> None:
        if file in package.loaded_files:
            return
        package.loaded_files.add(file)
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
        if documents is None:
            with collector_paused():
                documents = load_documents(
                    text, shown, parse_expression=self._parse_expression, limits=self.yaml_limits
                )
            if cache is not None:
                cache.keep_documents(text, source_key, documents)
        for declaration in declarations.declare(documents, name):
            assert declaration.name is not None
            if declaration.name in package.declared:
                raise DslSyntaxError(
                    f"class {declaration.name} is declared twice in {package.name}",
                    position=declaration.position,
                )
            package.declared[declaration.name] = declaration
            self.findings.extend(declaration.findings)

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
                    error.position = error.position or declaration.position
                    raise
        finally:
            building.pop()
            if not building:
                self._building.pop(thread, None)
        if name in package.types:  # another green thread was faster
            return package.types[name]
        parents = reconcile(package, declaration, parents)
        for parent in parents:
            if declaration.usage == "Class" and parent.usage == "Meta":
                raise InvalidInheritanceError(
                    f"class {name} cannot extend the meta-class {parent.name}",
                    position=declaration.position,
                )
        made = MuranoType(package, name, declaration, parents)
        native = self._natives.get(name)
        if native is not None:
            made.add_native(native.inspected)
        package.types[name] = made
        self._used.add(package)
        return made

    def _type_in_any_package(
        self, name: str, spec: VersionSpec, project_id: str | None
    ) -> MuranoType | None:
        candidates = [
            package
            for versions in self._packages.values()
            for version, package in versions.items()
            if version in spec and self._declares(package, name)
        ]
        best = self._preferred(candidates)
        if best is not None:
            return self.own_type(best, name)
        core = self.core
        if core.semantic_version in spec:
            found = self.own_type(core, name)
            if found is not None:
                return found
        native = self._natives.get(name)
        if native is not None and native.package in self._packages:
            package = self.find_package(native.package, VersionSpec("*"))
            return self.own_type(package, name)
        if self.resolver is not None:
            source = self.resolver.find_class(name, str(spec), project_id)
            if source is not None:
                return self.own_type(self._added(source), name)
        return None

    def _declares(self, package: MuranoPackage, name: str) -> bool:
        return name in package.class_files or name in package.declared

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
            found = self.own_type(self.find_package(package, spec, project_id), name)
        else:
            found = self._type_in_any_package(name, spec, project_id)
        if found is None:
            raise NoPackageForClassFound(
                f'Package for class "{name}" ({spec}) is not found',
                names=(*NoPackageForClassFound("").names, *NoClassFound("").names),
                hint=self._other_versions(name, package, project_id)
                or self.close_class_names(name),
            )
        return found

    def _other_versions(self, name: str, package: str | None, project_id: str | None) -> str | None:
        """A hint for a class that is there, but in no version that was asked for."""
        homes = {
            (item.name, item.semantic_version): None
            for item in self.packages
            if name in item.class_files and package in (None, item.name)
        }
        if not homes and self.resolver is not None:
            source = (
                self.resolver.find_class(name, "*", project_id)
                if package is None
                else self.resolver.find_package(package, "*", project_id)
            )
            if source is not None and name in source.classes:
                homes[source.full_name, Version.parse(source.version)] = None
        if not homes:
            return None
        places = ", ".join(f"{home} {version}" for home, version in homes)
        newest = max(version for _, version in homes)
        return (
            f"the class is in {places}: write {name}/{newest} as the type, or "
            f"classVersion: {newest}; without a version 0.x is meant"
        )

    def _not_required(self, package: MuranoPackage, name: str) -> str | None:
        """A hint for a class of a package that is there, but not required."""
        homes = [item for item in self.packages if name in item.class_files]
        if not homes:
            return None
        home = homes[-1]
        return (
            f"it is in package {home.name} {home.version}: add `{home.name}: "
            f"{home.semantic_version}` to Require in the manifest of {package.name}"
        )

    def close_class_names(self, name: str) -> str | None:
        """A hint with the nearest class name."""
        known = [
            item
            for versions in self._packages.values()
            for package in versions.values()
            for item in package.class_files
        ]
        close = get_close_matches(name, known, 1, 0.6)
        return f"did you mean {close[0]}?" if close else None

    @property
    def exception_type(self) -> MuranoType:
        """`io.murano.Exception`"""
        return self.find_type(self.core, "io.murano.Exception")

    @functools.cached_property
    def exception_class(self) -> type[CaughtException]:
        """The Python class of caught exceptions: trace and cause are made when read."""
        base = self.exception_type.python_class
        bases: tuple[type[Any], ...] = (base, CaughtException)
        made = cast("type[CaughtException]", new_class(base.__name__, bases))
        self.final_types.add(made)
        return made

    @property
    def stack_trace_type(self) -> MuranoType:
        """`io.murano.StackTrace`"""
        return self.find_type(self.core, "io.murano.StackTrace")

    @property
    def logger_type(self) -> MuranoType:
        """`io.murano.system.Logger`"""
        return self.find_type(self.core, "io.murano.system.Logger")

    def is_static(self, class_name: str, method: str) -> bool:
        """True when a class has a static method of the name. Raises NoClassFound."""
        found = self.type(class_name).find_method(method)
        return found is not None and found.is_static

    def check_package(self, package: MuranoPackage) -> list[Finding]:
        """Everything wrong with the classes of a package: errors (`E-…`) and advice (`W-…`)."""
        from .checking import check_package

        return check_package(self, package)

    def compile_all(self, *, methods: bool = True) -> None:
        """Make every class of every added package ready now (a zygote's warm-up).

        A class is ready when all that can be wrong with it has been looked for and objects of it
        can be made; its methods become Python code when they are first called, or now with
        `methods`.
        """
        with collector_paused():
            for package in self.packages:
                for name in list(package.class_files):
                    _ = package.find_type(name).assembly
                if methods:
                    for type_ in list(package.types.values()):
                        type_.complete()

    # -- what classes ask ----------------------------------------------------------------------

    def class_config(self, type_: MuranoType) -> Mapping[str, Any]:
        """The class config values of a class (section 6)."""
        configs = self.class_configs
        if configs is None:
            return {}
        if not isinstance(configs, Path):
            return configs.get(type_.name, {})
        version = type_.package.semantic_version
        names = [
            f"{type_.name}-{version.major}.{version.minor}.{version.patch}",
            f"{type_.name}-{version.major}.{version.minor}",
            f"{type_.name}-{version.major}",
        ]
        if version.major == 0:
            names.append(type_.name)
        for name in names:
            for suffix in (".json", ".yaml"):
                file = configs / (name + suffix)
                if file.is_file():
                    return _config_file(file)
        return {}

    def lock_of(self, method: Method) -> LockPolicy:
        """The lock that calls of a method take (section 22)."""
        if not method.metas and not metadata.has_metas(method):
            return locking.DEFAULT
        values = metadata.constant_values(method, "io.murano.metadata.engine.Synchronize")
        if values is None:
            return locking.DEFAULT
        names = values.get("onArgs", ())
        return locking.lock_policy(
            method,
            bool(values.get("onThis", True)),
            (names,) if isinstance(names, str) else tuple(names),
        )

    def action_headers(self, type_: MuranoType) -> dict[str, dict[str, Any]]:
        """What `_actions` says of each Public method, except ids (section 15.3)."""
        headers: dict[str, dict[str, Any]] = {}
        for name in type_.method_names():
            found = type_.method_declarations(name)
            if not found or not found[0].is_action:
                continue
            details: dict[str, Any] = {"name": name, "title": name}
            for key in ("Title", "Description", "HelpText"):
                values = metadata.constant_values(found[0], f"io.murano.metadata.{key}")
                if values is not None and values.get("text"):
                    details[key[0].lower() + key[1:]] = values["text"]
            headers[name] = details
        return headers

    def package_metas(self, package: MuranoPackage) -> list[MetaDeclaration]:
        """The metadata of a package, from its manifest."""
        meta = getattr(package.source, "meta", None)
        if meta is None:
            return []
        text = yaml.safe_dump(meta)
        documents = load_documents(text, f"{package.name}/manifest.yaml", parse_expression=None)
        return declarations.read_metas(documents[0] if documents else None, Namespaces())

    # -- sessions ------------------------------------------------------------------------------

    def schema(
        self,
        class_name: str,
        methods: str | Sequence[str] | None = None,
        *,
        version_spec: str | None = None,
        package: str | None = None,
    ) -> dict[str, Json]:
        """JSON schemas of a class and its model builders (section 19)."""
        from .schema import class_schemas

        return class_schemas(self, class_name, methods, version_spec, package)

    def session(
        self,
        *,
        effects: EffectsPort | None = None,
        limits: Limits | None = None,
        info: SessionInfo | None = None,
        services: Any = None,
        secrets: Callable[[Any], Any] | None = None,
    ) -> Session:
        """A new session. Without `effects`, `DirectEffects()`.

        `services` is for native classes; `secrets` is what `decryptData` asks.
        """
        from .session import Session, SessionInfo

        return Session(
            self,
            effects or DirectEffects(),
            limits or Limits(),
            info or SessionInfo(),
            services,
            secrets,
        )


class _NativeRegistration:
    def __init__(self, inspected: NativeClass, package: str, extends: list[str]) -> None:
        self.inspected = inspected
        self.package = package
        self.extends = extends


def parse_expression(text: str) -> Any:
    """The tree of an expression of class code; raises YaqlParsingException."""
    return parse(text, MURANOPL)


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


def _register(library: Library, name: str, function: Callable[..., Any], kind: str) -> None:
    """A host function as an overload that takes anything."""
    call = NativeCall(inspect_function(name, function), name)

    def registered(rt: Evaluation, *arguments: Any, **named: Any) -> Any:
        run = cast(Any, getattr(rt, "main", rt))
        return call(run, None, None, arguments, named)

    library.register(
        registered, name, function=kind != "method", method=kind != "function", exclusive=True
    )


def _config_file(file: Path) -> Mapping[str, Any]:
    text = file.read_text(encoding="utf-8")
    values: Any = json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    if not isinstance(values, dict):
        raise MuranoError(f"the class config {file} is not a map", names=("ValueError",))
    return cast("dict[str, Any]", values)


__all__ = ["Runtime", "YaqlParsingException", "parse_expression"]
