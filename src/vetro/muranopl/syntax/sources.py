"""The sources of classes: the `PackageSource` protocol and its implementations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class PackageSource(Protocol):
    """A package as the language needs it (muranopl.md section 1.3).

    `version` is SemVer text; `format` is `1.4` or `MuranoPL/1.4`; `requirements` maps package
    names to version specs (None: any of major 0); `classes` maps class names to file names below
    `Classes/`; `meta` is the manifest's `Meta` value, or None.
    """

    @property
    def full_name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def requirements(self) -> Mapping[str, str | None]: ...
    @property
    def classes(self) -> Mapping[str, str]: ...
    @property
    def meta(self) -> Any: ...

    def read_class(self, file: str) -> str:
        """The text of a class file. Raises FileNotFoundError."""
        ...

    def read_resource(self, name: str) -> bytes:
        """The content of a file below `Resources/`. Raises FileNotFoundError."""
        ...


class PackageResolver(Protocol):
    """Finds packages that were not added beforehand.

    While a session runs, both methods are called in a green thread and may `wait`.
    `project_id` is the session's; a package of that project precedes a public one.
    """

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """The best version of a package that satisfies the spec (section 5)."""
        ...

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """A package that declares the class."""
        ...


@dataclass(slots=True)
class MemoryPackage:
    """A package given as Python values: loose class documents for tests and embedding."""

    full_name: str
    class_texts: dict[str, str]
    """File name to YAML text."""
    classes: dict[str, str] = field(default_factory=dict[str, str])
    """Class name to file name."""
    version: str = "0.0.0"
    format: str = "1.4"
    requirements: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    resources: dict[str, bytes] = field(default_factory=dict[str, bytes])
    meta: Any = None

    def read_class(self, file: str) -> str:
        try:
            return self.class_texts[file]
        except KeyError:
            raise FileNotFoundError(f"{self.full_name} has no class file {file}") from None

    def read_resource(self, name: str) -> bytes:
        try:
            return self.resources[name]
        except KeyError:
            raise FileNotFoundError(f"{self.full_name} has no resource {name}") from None


class DirectoryPackage:
    """A package directory read in place: `manifest.yaml`, `Classes/`, `Resources/`.

    Reads only the part of the manifest that the language needs; `vetro.packages` checks packages.
    """

    def __init__(self, directory: str | Path) -> None:
        from .manifest import read_manifest

        self.directory = Path(directory)
        manifest = read_manifest(self.directory / "manifest.yaml")
        self.full_name = manifest.full_name
        self.version = manifest.version
        self.format = manifest.format
        self.requirements = manifest.requirements
        self.classes = manifest.classes
        self.meta = manifest.meta

    def read_class(self, file: str) -> str:
        return self._inside("Classes", file).read_text(encoding="utf-8")

    def read_resource(self, name: str) -> bytes:
        return self._inside("Resources", name).read_bytes()

    def _inside(self, folder: str, name: str) -> Path:
        root = (self.directory / folder).resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise FileNotFoundError(f"{name} is outside {folder}/ of {self.full_name}")
        if not path.is_file():
            raise FileNotFoundError(f"{self.full_name} has no file {folder}/{name}")
        return path
