"""A runtime: the packages, classes and functions that sessions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from .effects import DirectEffects, EffectsPort, Json
from .limits import Limits
from .session import Session, SessionInfo
from .sources import PackageResolver, PackageSource
from .types import MuranoPackage, MuranoType


class Runtime:
    """Compiles classes once and keeps them; any number of sessions run over it.

    The classes `io.murano.Object`, `Exception`, `StackTrace`, `system.GC`, `system.Logger` and
    `io.murano.metadata.*` are always there; a package `io.murano` that is added replaces those it
    declares and keeps the rest.

    `class_configs`: a directory of class config files (section 6), or a map from class name to
    its map of values. `resolver` finds packages that were not added.
    """

    def __init__(
        self,
        *,
        class_configs: Path | Mapping[str, Mapping[str, Json]] | None = None,
        resolver: PackageResolver | None = None,
    ) -> None:
        self.resolver = resolver
        self.class_configs = class_configs

    def add_package(self, source: PackageSource) -> MuranoPackage:
        """Make a package known. Classes compile when first used. Raises DslSyntaxError."""
        raise NotImplementedError

    def add_native_class(
        self,
        name: str,
        python_class: type[Any],
        *,
        package: str = "io.murano",
        extends: str | Sequence[str] = "io.murano.Object",
    ) -> None:
        """Make a Python class a MuranoPL class (see `vetro.muranopl.native`).

        When a package declares the class in YAML as well, the two are merged; otherwise it is a
        class of `package` with the given parents.
        """
        raise NotImplementedError

    def add_function(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        kind: Literal["function", "method", "both"] = "function",
        packages: Sequence[str] | None = None,
    ) -> None:
        """Register a host function; with `packages`, only their code sees it.

        It takes plain values (and a `CallContext` where annotated) and returns one.
        """
        raise NotImplementedError

    def load_plugins(self, group: str = "io.murano.extensions") -> list[str]:
        """Add the native classes of installed distributions; their names (section 25)."""
        raise NotImplementedError

    def compile_all(self) -> None:
        """Compile every class of every added package now (a zygote's warm-up)."""
        raise NotImplementedError

    def type(self, name: str, version_spec: str | None = None) -> MuranoType:
        """A class by name. Raises NoClassFound."""
        raise NotImplementedError

    def schema(
        self,
        class_name: str,
        methods: str | Sequence[str] | None = None,
        *,
        version_spec: str | None = None,
        package: str | None = None,
    ) -> dict[str, Json]:
        """JSON schemas of a class and its model builders (section 19)."""
        raise NotImplementedError

    def session(
        self,
        *,
        effects: EffectsPort | None = None,
        limits: Limits | None = None,
        info: SessionInfo | None = None,
        services: Any = None,
    ) -> Session:
        """A new session. Without `effects`, `DirectEffects()`."""
        _ = effects or DirectEffects()
        raise NotImplementedError
