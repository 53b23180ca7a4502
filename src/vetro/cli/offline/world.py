"""Packages from directories and archives, in this process: what `run`, `test`, `check`, `repl` and
`doc` work on.

Packages that the named ones require are looked for beside them, in the directories given with
`--library`, and among those that ship with Vetro. The class library and its system classes are
loaded only for packages that mention `io.murano`; their back ends are the in-memory twins, so that
`deploy` of an application can be tried without machines.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vetro.cli.terminal.output import fail, remark, remarks_to_stderr
from vetro.cli.terminal.paths import package_hint, package_there

if TYPE_CHECKING:
    from vetro.engine.system import MemoryCloud
    from vetro.muranopl import (
        EffectsPort,
        Limits,
        LineCoverage,
        MuranoPackage,
        PackageSource,
        Runtime,
        Session,
    )
    from vetro.packages import Package

_CORE = "io.murano"
_PLUGINS = b"[io.murano.extensions]"
_MENTIONS_CORE = re.compile(r"\bio\.murano\b")


class SearchPath:
    """A `PackageResolver` over directories: packages, or directories of packages."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self.directories = list(dict.fromkeys(path.resolve() for path in directories))
        self._found: dict[str, list[Package]] | None = None

    def packages(self) -> dict[str, list[Package]]:
        """Every readable package, by name; found once."""
        if self._found is None:
            from vetro.packages import PackageError, open_package

            self._found = {}
            for path in self._candidates():
                try:
                    package = open_package(path)
                except PackageError:
                    continue  # it was not named; a package that requires it reports that it is missing
                self._found.setdefault(package.full_name, []).append(package)
        return self._found

    def _candidates(self) -> list[Path]:
        found: list[Path] = []
        for directory in self.directories:
            if (directory / "manifest.yaml").is_file():
                found.append(directory)
            elif directory.is_dir():
                found.extend(sorted(item.parent for item in directory.glob("*/manifest.yaml")))
                found.extend(sorted(directory.glob("*.zip")))
        return found

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """The newest version of a package that satisfies the spec."""
        from vetro.muranopl import Version, VersionSpec

        wanted = VersionSpec(spec)
        fitting = [
            package
            for package in self.packages().get(name, [])
            if Version.parse(package.version) in wanted
        ]
        return max(fitting, key=lambda item: Version.parse(item.version), default=None)

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """A package that declares the class."""
        for name, packages in self.packages().items():
            if any(class_name in package.classes for package in packages):
                return self.find_package(name, spec, project_id)
        return None


def library_directory() -> Path:
    """The packages that ship with Vetro."""
    root = Path(__file__).resolve().parents[2]
    inside = root / "_library"
    return inside if inside.is_dir() else root.parents[1] / "library"


def code_cache_directory() -> Path | None:
    """Where compiled classes are kept from run to run: `VETRO_CODE_CACHE` (empty: nowhere), else
    `vetro/code` in the user's cache directory."""
    given = os.environ.get("VETRO_CODE_CACHE")
    if given is not None:
        return Path(given) if given else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "vetro" / "code"
    except RuntimeError:  # a user without home
        return None


def mentions_core(package: Package) -> bool:
    """Whether a package's classes or requirements name the class library."""
    if package.full_name == _CORE or _CORE in package.requirements:
        return True
    files = dict.fromkeys(package.classes.values())
    return any(_MENTIONS_CORE.search(package.read_class(file)) for file in files)


def load_plugins(runtime: Runtime) -> None:
    """Add the native classes of installed distributions, as an engine does.

    Classes that cannot be loaded are reported on standard error; only packages that use them fail.
    """
    if not _names_native_classes():
        return
    from vetro.packages import is_enabled

    try:
        runtime.load_plugins(is_enabled=is_enabled)
    except ExceptionGroup as group:
        for error in group.exceptions:
            notes = ", ".join(getattr(error, "__notes__", ()))
            said = f"{type(error).__name__}: {error}"
            remark(f"Warning: {notes} is not available: {said}")


def _names_native_classes() -> bool:
    """Whether any installed distribution does. Asking the standard library takes 60 ms with its import, and
    few installations have one; reading the files takes two."""
    for directory in dict.fromkeys(sys.path):
        for file in Path(directory).glob("*.*-info/entry_points.txt"):
            with contextlib.suppress(OSError):
                if _PLUGINS in file.read_bytes():
                    return True
    return False


@dataclass
class World:
    """A runtime with packages, and what its sessions need."""

    runtime: Runtime
    packages: list[MuranoPackage]
    """The packages that were asked for."""
    roots: dict[str, Path]
    """Their directories or archives, by package name."""
    has_library: bool = False
    clouds: list[MemoryCloud] = field(default_factory=list["MemoryCloud"])

    def session(
        self, *, effects: EffectsPort | None = None, limits: Limits | None = None
    ) -> Session:
        """A session; with the class library it has a cloud in memory of its own."""
        services: object = None
        if self.has_library:
            from vetro.engine.system import trial_cloud

            remarks_to_stderr()
            cloud = trial_cloud()
            self.clouds.append(cloud)
            services = cloud.services()
        return self.runtime.session(effects=effects, limits=limits, services=services)

    def compile(self) -> None:
        """Compile every class of the packages asked for. Raises MuranoError."""
        for package in self.packages:
            for name in list(package.class_files):
                _ = package.find_type(name).assembly

    def real_file(self, file: str) -> str:
        """`PACKAGE/Classes/FILE` as a path that can be opened, where there is one."""
        name, separator, rest = file.partition("/Classes/")
        root = self.roots.get(name)
        if not separator or root is None or not root.is_dir():
            return file
        return str(root / "Classes" / rest)


def open_world(
    paths: Sequence[Path],
    *,
    libraries: Sequence[Path] = (),
    testing: bool = False,
    coverage: LineCoverage | None = None,
    library: bool | None = None,
) -> World:
    """A runtime with the packages at the paths. Raises PackageError, MuranoError.

    `library`: whether the class library is loaded; None: when a package mentions it.
    """
    from vetro.muranopl import Runtime
    from vetro.packages import open_package

    opened = [open_package(path) for path in paths]
    beside = [path.resolve().parent for path in paths]
    resolver = SearchPath([*libraries, *beside, library_directory()])
    needed = any(mentions_core(package) for package in opened) if library is None else library
    runtime = Runtime(resolver=resolver, code_cache=code_cache_directory())
    runtime.coverage = coverage
    if needed:
        from vetro.engine.system import system_runtime

        runtime = system_runtime(code_cache_directory())
        runtime.resolver = resolver
        runtime.coverage = coverage
    if testing:
        from vetro.muranopl import enable_testing

        enable_testing(runtime)
    if needed and not any(package.full_name == _CORE for package in opened):
        runtime.add_package(open_package(library_directory() / _CORE))
    load_plugins(runtime)
    packages = [runtime.add_package(package) for package in opened]
    roots = {package.full_name: path for package, path in zip(opened, paths, strict=True)}
    return World(runtime, packages, roots, needed)


def open_world_or_fail(paths: Sequence[Path], **options: Any) -> World:
    """`open_world` for commands: what is wrong ends the command with one line and a hint."""
    with packages_or_fail(paths):
        return open_world(paths, **options)
    raise AssertionError  # the block above returns, or fails


@contextlib.contextmanager
def packages_or_fail(paths: Sequence[Path]) -> Generator[None]:
    """Mistakes in packages end the command with one line and a hint."""
    from vetro.muranopl import MuranoError
    from vetro.packages import PackageError

    for path in paths:
        package_there(path)
    try:
        yield
    except PackageError as error:
        where = f"{paths[0]}: " if len(paths) == 1 else ""
        fail(f"{where}{error}", package_hint(error))
    except MuranoError as error:
        fail(error.format(), error.hint)
