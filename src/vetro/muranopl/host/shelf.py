"""Known packages, and the version that a name means (muranopl.md section 5)."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Collection
from typing import TYPE_CHECKING, Self

from vetro.muranopl.classes.builtin import CORE, BuiltinCore
from vetro.muranopl.classes.types import MuranoPackage
from vetro.muranopl.syntax.manifest import parse_format
from vetro.muranopl.syntax.sources import PackageResolver, PackageSource
from vetro.muranopl.syntax.versions import Version, VersionSpec, version_spec
from vetro.muranopl.values.errors import MuranoError, NoPackageFound, PackageFormatError

if TYPE_CHECKING:
    from .runtime import Runtime
    from .session import Session
    from .worlds import Answer, Fixations, Query


class PackageShelf:
    """The packages of a runtime, and the decisions about their versions."""

    def __init__(
        self, runtime: Runtime, resolver: PackageResolver | None, formats: Collection[str] | None
    ) -> None:
        self.runtime = runtime
        self.formats = None if formats is None else {parse_format(item) for item in formats}
        self.resolver = resolver
        self.builtin = BuiltinCore()
        self._reset()

    def for_world(self, runtime: Runtime) -> Self:
        """A shelf without packages for another world of the runtime (`worlds`)."""
        made = copy.copy(self)
        made.runtime = runtime
        made._reset()
        return made

    def _reset(self) -> None:
        self.fixed_packages: Fixations = {}
        """Versions this environment already uses (section 5); they are preferred."""
        self.decisions: dict[Query, Answer] = {}
        """The packages that names were resolved to; entries never change."""
        self.residents: weakref.WeakSet[Session] = weakref.WeakSet()
        """Sessions that run on these classes."""
        self.versions: dict[str, dict[Version, MuranoPackage]] = {}
        """Every known package, by name and version."""
        self._given: dict[tuple[str, Version], PackageSource] = {}
        """Packages added by the host; the resolver found the others."""
        self.used: set[MuranoPackage] = set()
        """The packages that sessions have used since the last `begin`."""
        self.lacks_names = False
        """True when methods were refused because a class was missing then."""

    def begin(self, fixed: Fixations) -> None:
        """Start serving a session with these fixations, after all earlier sessions have ended."""
        self.fixed_packages = fixed
        self.used = set()

    def catch_up(self, main: PackageShelf) -> None:
        """Add the packages that the host has added to the main runtime meanwhile."""
        if self is main:
            return
        self.resolver = main.resolver
        for (name, version), source in main._given.items():
            known = self.versions.get(name, {}).get(version)
            if known is None or (known.source is not source and not known.types):
                self.add_package(source)

    @property
    def uses_the_best(self) -> bool:
        """Whether every package in use is the version chosen when any version is allowed."""
        return all(
            self.fresh_answer(("package", package.name, "*", None), self.fixed_packages)
            == (package.name, package.version)
            for package in self.used
        )

    def is_fixed_alike(self, fixed: Fixations) -> bool:
        """Whether these fixations lead to the same versions as the present ones."""
        return all(
            self.fixed_packages.get(name) == fixed.get(name)
            for name in {*self.fixed_packages, *fixed}
            if self.resolver is not None or len(self.versions.get(name, ())) > 1
        )

    # -- registration --------------------------------------------------------------------------

    def add_package(self, source: PackageSource) -> MuranoPackage:
        """Make a package known. Classes compile when first used. Raises PackageFormatError."""
        package = self._register_package(source)
        self._given[package.name, package.semantic_version] = source
        return package

    def _register_package(self, source: PackageSource) -> MuranoPackage:
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
        package = MuranoPackage(self.runtime, source, version, format_, requirements)
        versions = self.versions.setdefault(source.full_name, {})
        old = versions.get(version)
        if old is not None and old.types:
            raise MuranoError(
                f"package {source.full_name}/{version} is in use and cannot be replaced",
                names=("ValueError",),
            )
        versions[version] = package
        return package

    # -- packages ------------------------------------------------------------------------------

    @property
    def packages(self) -> list[MuranoPackage]:
        """Every known package, in the order they were added, versions of one name together."""
        return [item for versions in self.versions.values() for item in versions.values()]

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
        if name == CORE and CORE not in self.versions:
            self.add_package(self.builtin)
        found = self.decided(("package", name, spec.text, project_id))
        if found is None:
            raise NoPackageFound(
                f'Package "{name}" ({spec}) is not found',
                hint=self._package_versions(name, project_id),
            )
        return found

    def decided(self, query: Query) -> MuranoPackage | None:
        """The package that a name means in this world: decided once, so that all classes agree."""
        known = self.decisions.get(query)
        if known is not None:
            package = self.versions[known[0]][Version.parse(known[1])]
        else:
            found = self._decide(query, self.fixed_packages, self.used)
            if found is None:
                return None
            package = found
            self.decisions[query] = (package.name, package.version)
        self.used.add(package)
        return package

    def fresh_answer(self, query: Query, fixed: Fixations) -> Answer | None:
        """The decision of a session that has loaded nothing yet."""
        found = self._decide(query, fixed, frozenset())
        return None if found is None else (found.name, found.version)

    def _decide(
        self, query: Query, fixed: Fixations, used: Collection[MuranoPackage]
    ) -> MuranoPackage | None:
        """A fixed version, one in use, the best of those added, or the resolver's."""
        kind, name, text, project_id = query
        spec = version_spec(text)
        candidates = [
            package
            for home in ([name] if kind == "package" else list(self.versions))
            for version, package in self.versions.get(home, {}).items()
            if version in spec
            and (kind == "package" or self.declares(package, name))
            and ((home, version) in self._given or package in used)
        ]
        best = max(
            candidates,
            key=lambda package: (
                package.semantic_version in fixed.get(package.name, ()),
                package in used,
                package.semantic_version,
            ),
            default=None,
        )
        if self.resolver is None:
            return best
        homes = [name] if kind == "package" else [item.name for item in candidates]
        if best is None or best.semantic_version not in fixed.get(best.name, ()):
            for home in dict.fromkeys(homes):
                source = self._fixed_source(home, spec, fixed, project_id)
                if source is not None and (kind == "package" or name in source.classes):
                    return self._added(source)
        if best is not None:
            return best
        if kind == "package":
            source = self.resolver.find_package(name, text, project_id)
            return None if source is None else self._added(source)
        source = self.resolver.find_class(name, text, project_id)
        if source is None:
            return None
        if Version.parse(source.version) not in fixed.get(source.full_name, ()):
            exact = self._fixed_source(source.full_name, spec, fixed, project_id)
            if exact is not None and name in exact.classes:
                source = exact
        return self._added(source)

    def _fixed_source(
        self, name: str, spec: VersionSpec, fixed: Fixations, project_id: str | None
    ) -> PackageSource | None:
        """The newest fixed version that the spec admits and the resolver still has."""
        assert self.resolver is not None
        for version in sorted(fixed.get(name, ()), reverse=True):
            if version in spec:
                source = self.resolver.find_package(name, f"=={version}", project_id)
                if source is not None:
                    return source
        return None

    def _package_versions(self, name: str, project_id: str | None) -> str | None:
        """A hint for a package that exists, but not in a wanted version."""
        versions = [str(version) for version in self.versions.get(name, {})]
        if not versions and self.resolver is not None:
            source = self.resolver.find_package(name, "*", project_id)
            if source is not None:
                versions.append(source.version)
        return f"it is there in version {', '.join(versions)}" if versions else None

    def _added(self, source: PackageSource) -> MuranoPackage:
        known = self.versions.get(source.full_name, {}).get(Version.parse(source.version))
        return known if known is not None else self._register_package(source)

    @staticmethod
    def declares(package: MuranoPackage, name: str) -> bool:
        """Whether the package has a file of the class, or has already read its declaration."""
        return name in package.class_files or name in package.declared
