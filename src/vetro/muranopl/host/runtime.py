"""A runtime: the packages, classes and functions that sessions share."""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import CodeType, new_class
from typing import TYPE_CHECKING, Any, Literal, cast

from vetro.documents import DocumentError, read_json, read_yaml, write_yaml
from vetro.muranopl.classes import lock_policy
from vetro.muranopl.classes.builtin import CORE
from vetro.muranopl.classes.lock_policy import LockPolicy
from vetro.muranopl.classes.native import inspect_function
from vetro.muranopl.classes.objects import CastView
from vetro.muranopl.classes.types import Method, MuranoPackage, MuranoType
from vetro.muranopl.runtime import metadata
from vetro.muranopl.runtime.caught import CaughtException
from vetro.muranopl.runtime.functions import engine_library
from vetro.muranopl.runtime.nativecalls import NativeCall
from vetro.muranopl.syntax import class_reader
from vetro.muranopl.syntax.declarations import MetaDeclaration
from vetro.muranopl.syntax.names import Namespaces
from vetro.muranopl.syntax.sources import PackageResolver, PackageSource
from vetro.muranopl.syntax.versions import VersionSpec
from vetro.muranopl.syntax.versions import version_spec as parse_spec
from vetro.muranopl.syntax.yamltree import load_documents
from vetro.muranopl.threads.effects import DirectEffects, EffectsPort, Json
from vetro.muranopl.values.collector_pause import collector_paused
from vetro.muranopl.values.containers import FINAL_TYPES
from vetro.muranopl.values.errors import MuranoError
from vetro.muranopl.values.limits import Limits, YamlLimits
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.library import Library
from vetro.yaql.standard import standard_library

from .catalogue import ClassCatalogue
from .shelf import PackageShelf
from .worlds import Worlds

if TYPE_CHECKING:
    from vetro.muranopl.compiler.assembly import Assembly
    from vetro.muranopl.compiler.classcode import ClassCode, Probes
    from vetro.muranopl.compiler.codecache import CodeCache

    from .requests import SessionInfo
    from .session import Session


class Runtime:
    """Compiles classes once and keeps them; any number of sessions can use it.

    The classes `io.murano.Object`, `Exception`, `StackTrace`, `system.GC`, `system.Logger` and
    `io.murano.metadata.*` always exist; an added package `io.murano` replaces those that it
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
        if isinstance(code_cache, Path):
            from vetro.muranopl.compiler.codecache import (
                CodeCache,  # imported on demand: it imports much
            )

            code_cache = CodeCache(code_cache)
        self.shelf = PackageShelf(self, resolver, formats)
        self.classes = ClassCatalogue(self.shelf, yaml_limits, code_cache)
        self.code_cache = code_cache
        self.class_configs = class_configs
        self.coverage: Probes | None = None
        """Classes compiled after it is set record here which statements run."""
        self.final_types: set[Any] = set(FINAL_TYPES) | {CastView, MuranoType}
        """Python classes whose instances programs may keep as they are."""
        self.construction_code: dict[str, CodeType] = {}
        """Compiled source of constructions: a class often shares it with its parents."""
        self._action_arguments: dict[MuranoType, dict[str, dict[str, Json]]] = {}
        self._libraries: dict[str, Library] = {}
        self._package_functions: dict[str, list[tuple[str, Callable[..., object], str]]] = {}
        self._package_libraries: dict[tuple[str, str], Library] = {}
        self.main = self
        """The runtime that the host made; this is it, or another world of it (`worlds`)."""
        self.worlds = Worlds()
        from vetro.muranopl.runtime.system import (
            GarbageCollector,
            SystemLogger,
            Trace,
            TracedException,
        )

        self.add_native_class("io.murano.system.GC", GarbageCollector)
        self.add_native_class("io.murano.system.Logger", SystemLogger)
        self.add_native_class("io.murano.Exception", TracedException)
        self.add_native_class("io.murano.StackTrace", Trace)

    def make_world(self) -> Runtime:
        """Another world: the same packages, functions and native classes, no classes yet."""
        world = copy.copy(self)
        world.__dict__.pop("exception_class", None)
        world.shelf = self.shelf.for_world(world)
        world.classes = self.classes.for_world(world.shelf)
        world.catch_up()
        return world

    def catch_up(self) -> None:
        """Adopt what the host has changed in the main runtime since this world was made."""
        main = self.main
        if self is not main:
            self.shelf.catch_up(main.shelf)
            self.class_configs, self.coverage = main.class_configs, main.coverage

    # -- packages and classes ------------------------------------------------------------------

    @property
    def resolver(self) -> PackageResolver | None:
        """Finds the packages that were not added."""
        return self.shelf.resolver

    @resolver.setter
    def resolver(self, resolver: PackageResolver | None) -> None:
        self.shelf.resolver = resolver

    @property
    def packages(self) -> list[MuranoPackage]:
        """Every known package, in the order they were added, versions of one name together."""
        return self.shelf.packages

    def add_package(self, source: PackageSource) -> MuranoPackage:
        """Make a package known. Classes compile when first used. Raises PackageFormatError."""
        return self.shelf.add_package(source)

    def add_native_class(
        self,
        name: str,
        python_class: type[object],
        *,
        package: str = CORE,
        extends: str | Sequence[str] = "io.murano.Object",
    ) -> None:
        """Make a Python class a MuranoPL class (`ClassCatalogue.add_native_class`)."""
        self.classes.add_native_class(name, python_class, package=package, extends=extends)

    def type(self, name: str, version_spec_text: str | None = None) -> MuranoType:
        """A class by name, in any version unless a spec is given. Raises NoClassFound."""
        return self.classes.type(name, version_spec_text)

    # -- extending -----------------------------------------------------------------------------

    def add_function(
        self,
        name: str,
        function: Callable[..., object],
        *,
        kind: Literal["function", "method", "both"] = "function",
        packages: Sequence[str] | None = None,
    ) -> None:
        """Register a host function; with `packages`, only for their code.

        It takes plain values (and a `CallContext` where annotated) and returns one. Only classes
        compiled after the registration see it.
        """
        if packages is None:
            for flavour in ("current", "legacy"):
                _register(self.library(flavour), name, function, kind)
            return
        for package in packages:
            self._package_functions.setdefault(package, []).append((name, function, kind))

    def load_plugins(
        self,
        group: str = "io.murano.extensions",
        is_enabled: Callable[[str | None], bool] = lambda _distribution: True,
    ) -> list[str]:
        """Add the native classes of installed distributions; returns their names (section 25).

        An entry point's name is the class name; as a class of the core library it is known to every
        package. Names used by several distributions are skipped.
        ``is_enabled``: whether those of a distribution may be loaded.

        Raises: ExceptionGroup of what plug-ins raised, each with a note that names the class; the
        others are added nevertheless.
        """
        from importlib.metadata import EntryPoint, entry_points

        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=group):
            if not is_enabled(entry.dist.name if entry.dist is not None else None):
                continue
            found.setdefault(entry.name, []).append(entry)
        added: list[str] = []
        prepared: set[str] = set()
        failed: list[Exception] = []
        for name, entries in sorted(found.items()):
            if len(entries) > 1:
                continue
            entry = entries[0]
            try:
                loaded = entry.load()
                prepare = getattr(importlib.import_module(entry.module), "init_plugin", None)
                if prepare is not None and entry.module not in prepared:
                    prepare()
                    prepared.add(entry.module)
                self.add_native_class(name, loaded)
            except Exception as error:  # noqa: BLE001 - code of others; raised below
                error.add_note(f"native class {name} of {entry.value}")
                failed.append(error)
            else:
                added.append(name)
        if failed:
            raise ExceptionGroup("native classes of plug-ins cannot be loaded", failed)
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

    @property
    def exception_type(self) -> MuranoType:
        """`io.murano.Exception`"""
        return self.shelf.core.find_type("io.murano.Exception")

    @functools.cached_property
    def exception_class(self) -> type[CaughtException]:
        """The Python class of caught exceptions: trace and cause are made when read."""
        base = self.exception_type.python_class
        bases: tuple[type[object], ...] = (base, CaughtException)
        made = cast("type[CaughtException]", new_class(base.__name__, bases))
        self.final_types.add(made)
        return made

    @property
    def stack_trace_type(self) -> MuranoType:
        """`io.murano.StackTrace`"""
        return self.shelf.core.find_type("io.murano.StackTrace")

    @property
    def logger_type(self) -> MuranoType:
        """`io.murano.system.Logger`"""
        return self.shelf.core.find_type("io.murano.system.Logger")

    def is_static(self, class_name: str, method: str) -> bool:
        """True when a class has a static method of the name. Raises NoClassFound."""
        found = self.type(class_name).find_method(method)
        return found is not None and found.is_static

    def compile(self, type_: MuranoType) -> ClassCode:
        """The code of a class's own declarations. Use `type_.own_code()`, which keeps it."""
        # A compiled class is going to run: import the session now, not during the run.
        from vetro.muranopl.compiler.classcode import ClassCode

        from . import session as _session  # noqa: F401  # pyright: ignore[reportUnusedImport]

        return ClassCode(type_)

    def assemble(self, type_: MuranoType) -> Assembly:
        """The Python class of a class's objects. Use `type_.assembly`, which keeps it."""
        from vetro.muranopl.compiler.assembly import assemble

        return assemble(type_)

    def compile_all(self, *, methods: bool = True) -> None:
        """Make every class of every added package ready now (a zygote's warm-up).

        A ready class has been checked for all errors, and objects of it can be made. Its methods
        become Python code on their first call, or now with `methods`.
        """
        with collector_paused():
            for package in self.packages:
                for name in self.classes.class_names(package):
                    _ = package.find_type(name).assembly
                if methods:
                    for type_ in list(package.types.values()):
                        type_.complete()

    # -- what classes ask ----------------------------------------------------------------------

    def class_config(self, type_: MuranoType) -> Mapping[str, object]:
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
            return lock_policy.DEFAULT
        values = metadata.constant_values(method, "io.murano.metadata.engine.Synchronize")
        if values is None:
            return lock_policy.DEFAULT
        names = values.get("onArgs", ())
        return lock_policy.lock_policy(
            method,
            bool(values.get("onThis", True)),
            (names,) if isinstance(names, str) else tuple(names),
        )

    def action_headers(self, type_: MuranoType) -> dict[str, dict[str, object]]:
        """The `_actions` entry of each Public method, without ids (section 15.3)."""
        headers: dict[str, dict[str, object]] = {}
        for name in type_.method_names():
            found = type_.method_declarations(name)
            if not found or not found[0].is_action:
                continue
            details: dict[str, object] = {"name": name, "title": name}
            for key in ("Title", "Description", "HelpText"):
                values = metadata.constant_values(found[0], f"io.murano.metadata.{key}")
                if values is not None and values.get("text"):
                    details[key[0].lower() + key[1:]] = values["text"]
            headers[name] = details
        return headers

    def action_arguments(self, type_: MuranoType) -> dict[str, dict[str, Json]]:
        """The arguments in the `_actions` entry of each Public method (section 15.3)."""
        known = self._action_arguments.get(type_)
        if known is None:
            from vetro.muranopl.compiler.schema import argument_schemas

            known = {}
            for name in self.action_headers(type_):
                method = type_.method_declarations(name)[0]
                described = argument_schemas(method)
                if described is not None:
                    known[name] = described
            self._action_arguments[type_] = known
        return known

    def package_metas(self, package: MuranoPackage) -> list[MetaDeclaration]:
        """The metadata of a package, from its manifest."""
        meta = getattr(package.source, "meta", None)
        if meta is None:
            return []
        text = write_yaml(meta)
        documents = load_documents(text, f"{package.name}/manifest.yaml", parse_expression=None)
        return class_reader.read_metas(documents[0] if documents else None, Namespaces())

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
        from vetro.muranopl.compiler.schema import class_schemas

        type_: MuranoType | None = None
        if package is not None:
            wanted = VersionSpec("*") if version_spec is None else parse_spec(version_spec)
            type_ = self.classes.own_type(self.shelf.find_package(package, wanted), class_name)
        return class_schemas(type_ or self.type(class_name, version_spec), methods)

    def session(
        self,
        *,
        effects: EffectsPort | None = None,
        limits: Limits | None = None,
        info: SessionInfo | None = None,
        services: object = None,
        secrets: Callable[[object], object] | None = None,
    ) -> Session:
        """A new session. Without `effects`, `DirectEffects()`.

        `services` is for native classes; `decryptData` uses `secrets`.
        """
        from .requests import SessionInfo
        from .session import Session

        return Session(
            self,
            effects or DirectEffects(),
            limits or Limits(),
            info or SessionInfo(),
            services,
            secrets,
        )


def _register(library: Library, name: str, function: Callable[..., object], kind: str) -> None:
    """Register a host function as an overload that accepts any arguments."""
    call = NativeCall(inspect_function(name, function), name)

    def registered(rt: Evaluation, /, *arguments: object, **named: object) -> object:
        run = cast(Any, getattr(rt, "main", rt))
        return call(run, None, None, arguments, named)

    library.register(
        registered, name, function=kind != "method", method=kind != "function", exclusive=True
    )


def _config_file(file: Path) -> Mapping[str, object]:
    try:
        values: object = (read_json if file.suffix == ".json" else read_yaml)(file.read_bytes())
    except DocumentError as error:
        raise MuranoError(f"the class config {file}: {error}", names=("ValueError",)) from error
    if not isinstance(values, dict):
        raise MuranoError(f"the class config {file} is not a map", names=("ValueError",))
    return cast("dict[str, object]", values)


__all__ = ["Runtime"]
