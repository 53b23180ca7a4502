"""Open and check packages from a directory, an archive or bytes."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from vetro import documents
from vetro.documents import DocumentError, measure_yaml
from vetro.muranopl import Version
from vetro.packages.data import read_yaml
from vetro.packages.errors import (
    PackageClassError,
    PackageError,
    PackageFormatError,
    PackageLoadError,
)
from vetro.packages.hot import (
    CLASS_FILE,
    ENVIRONMENTS,
    FILES,
    TEMPLATE,
    HotTemplate,
    class_text,
    form_text,
    read_template,
)
from vetro.packages.manifest import FILE, FULL_NAME, TYPES, Manifest, parse_manifest
from vetro.packages.members import (
    ArchiveLimits,
    ArchiveMembers,
    DirectoryMembers,
    Members,
    safe_name,
)
from vetro.packages.plugin_formats import PluginContent

LOGO_BYTES = 500 * 1024
LOGO_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")
READMES = ("README.md", "README.rst", "README.txt", "README")
README_BYTES = 256 * 1024
# Fixed, so that the same directory always makes the same archive.
ARCHIVE_TIME = (2026, 1, 1, 0, 0, 0)


class Package:
    """A package whose manifest, file names, logo and form file have been checked.

    It is a ``PackageSource`` of the language. Classes are read on demand.
    """

    def __init__(self, members: Members, origin: str) -> None:
        self.members = members
        self.origin = origin
        self._parents: dict[str, list[str]] = {}
        self._well_formed: set[str] = set()
        """Class files that were read, of which it is known that they are YAML."""
        if not members.has(FILE):
            inner = [name for name in members.names() if name.endswith("/" + FILE)]
            hint = (
                f"; it is in {inner[0]}: the archive must hold the package itself, not a folder"
                if len(inner) == 1
                else ""
            )
            raise PackageLoadError(f"Unable to find package manifest {FILE}{hint}")
        self.manifest: Manifest = parse_manifest(members.read(FILE))
        self.hot: HotTemplate | None = None
        """The template of a Heat package, which stands in for classes."""
        if self.manifest.format == "HOT":
            self.hot = self._template()
            classes = {self.full_name: CLASS_FILE}
            self.manifest = replace(self.manifest, classes=classes, requirements={})
        self.plugin: PluginContent | None = None
        """What the plug-in of the package's format says of it, instead of files."""
        if self.manifest.plugin is not None:
            content: dict[str, object] = read_yaml(members.read(FILE), FILE)
            self.plugin = PluginContent(*self.manifest.plugin, members, content)
            self.manifest = _described(self.manifest, self.plugin)
        for name, file in self.class_files.items():
            key = f"Classes/{name}"
            if not self._has("Classes/", file, key):
                raise PackageClassError(
                    self.full_name,
                    name,
                    f"File with class definition not found: Classes/{file}",
                    **self.manifest.place(key),
                )
        if "UI" in self.manifest.places and not self._has("UI/", self.manifest.ui, "UI"):
            raise PackageLoadError(
                f"Unable to find UI definition UI/{self.manifest.ui}", **self.manifest.place("UI")
            )
        self.logo = self._image(self.manifest.logo, "Logo", "logo")
        self.supplier_logo = self._image(
            self.manifest.supplier_logo, "Supplier/Logo", "supplier logo"
        )

    def _has(self, folder: str, name: str, key: str) -> bool:
        """Whether there is a file that the manifest names. Errors: ``PackageFormatError``."""
        try:
            return self.members.has(folder + safe_name(name))
        except PackageFormatError as error:
            raise PackageFormatError(error.problem, **self.manifest.place(key)) from error

    def _template(self) -> HotTemplate:
        if not self.members.has(TEMPLATE):
            raise PackageClassError(
                self.full_name, self.full_name, f"there is no file {TEMPLATE}", file=TEMPLATE
            )
        resources = [
            name.removeprefix("Resources/")
            for name in self.members.names()
            if name.startswith((f"Resources/{FILES}", f"Resources/{ENVIRONMENTS}"))
        ]
        return read_template(self.members.read(TEMPLATE), resources)

    def _image(self, name: str, key: str, what: str) -> bytes | None:
        given = self.plugin.described.get(what.replace(" ", "_")) if self.plugin else None
        if given is not None:
            return _checked_image(given, "it", what, self.manifest.place(key))
        if not self._has("", name, key):
            if key in self.manifest.places:
                raise PackageLoadError(
                    f"Unable to load {what}: there is no file {name}", **self.manifest.place(key)
                )
            return None
        return _checked_image(self.members.read(name), name, what, self.manifest.place(key))

    @property
    def isolation(self) -> str:
        """`optional` when the package declares its plans safe on a shared machine."""
        return self.manifest.isolation

    @property
    def full_name(self) -> str:
        """The name that other packages require it by."""
        return self.manifest.full_name

    @property
    def version(self) -> str:
        """Its version, as major.minor.patch."""
        return self.manifest.version

    @property
    def format(self) -> str:
        """The MuranoPL format, for example ``1.4``; also of the class made for a Heat template."""
        return "1.4" if self.hot else self.manifest.format

    @property
    def requirements(self) -> Mapping[str, str | None]:
        """Required packages and their version specs."""
        return self.manifest.requirements

    @property
    def class_files(self) -> Mapping[str, str]:
        """Class names and their files, of a package whose classes are files."""
        return {} if self.hot or self.plugin else self.manifest.classes

    @property
    def classes(self) -> Mapping[str, str]:
        """Class names and their files below ``Classes/``."""
        return self.manifest.classes

    @property
    def meta(self) -> object:
        """The manifest's metadata."""
        return self.manifest.meta

    def read_class(self, file: str) -> str:
        """The text of a class file. Errors: ``FileNotFoundError``, ``PackageClassError``."""
        if self.hot and file == CLASS_FILE:
            return class_text(self.full_name, self.hot)
        if self.plugin is not None:
            return self.plugin.class_text(file)
        name = f"Classes/{safe_name(file)}"
        if not self.members.has(name):
            raise FileNotFoundError(f"{self.full_name} has no class file {file}")
        try:
            return documents.text_of(self.members.read(name))
        except DocumentError as error:
            raise PackageClassError(
                self.full_name, file, "the file is not UTF-8 text", file=name
            ) from error

    def parents_of(self, name: str) -> list[str]:
        """The full names that one of its classes extends; none for a class that cannot be read."""
        from vetro.muranopl import DslSyntaxError, parents_of

        if name in self._parents:
            return self._parents[name]
        file = self.classes.get(name)
        if file is None:
            return []
        try:
            return parents_of(self.read_class(file), file, name)
        except (PackageError, DslSyntaxError, FileNotFoundError):
            return []

    def read_classes(self) -> None:
        """Read every class file once, for `check_classes` and `parents_of`; mistakes are left to them."""
        from vetro.muranopl import DslSyntaxError, parents_of_all

        names: dict[str, list[str]] = {}
        for name, file in self.classes.items():
            names.setdefault(file, []).append(name)
        for file, several in names.items():
            try:
                text = self.read_class(file)
                found = parents_of_all(text, file, several)
            except (PackageError, DslSyntaxError, FileNotFoundError):
                continue
            self._parents |= found
            # The language's reader has an alias inside its own node for right when the name of its
            # anchor was used again in between.
            if found and "&" not in text:
                self._well_formed.add(file)

    def read_resource(self, name: str) -> bytes:
        """A file below ``Resources/``. Errors: ``FileNotFoundError``, ``PackageFormatError`` (outside it).

        A Heat template has the name of its class (core-library.md section 4.1).
        """
        if self.hot and name == self.full_name:
            return self.members.read(TEMPLATE)
        if self.plugin is not None:
            return self.plugin.resource(name)
        path = f"Resources/{safe_name(name)}"
        if not self.members.has(path):
            raise FileNotFoundError(f"{self.full_name} has no resource {name}")
        return self.members.read(path)

    @cached_property
    def content_digest(self) -> str:
        """Another text when classes, resources or the template have another content, whatever the version."""
        named = [one for one in self.members.names() if one.startswith(("Classes/", "Resources/"))]
        files = [*named, *([TEMPLATE] if self.hot else [])]
        lines = "".join(f"{one} {self.members.checksum(one)}\n" for one in files)
        return hashlib.sha256(lines.encode()).hexdigest()[:16]

    @cached_property
    def ui(self) -> str | None:
        """The text of the form definition, or ``None``. A Heat package without one gets a form that
        asks for the template's parameters."""
        name = f"UI/{safe_name(self.manifest.ui)}"
        given = self.plugin.described.get("ui") if self.plugin else None
        if given is not None:
            return given.decode("utf-8-sig", "replace") if isinstance(given, bytes) else given
        if not self.members.has(name):
            if self.hot:
                manifest = self.manifest
                return form_text(
                    manifest.full_name, manifest.version, manifest.description, self.hot
                )
            return None
        try:
            return documents.text_of(self.members.read(name))
        except DocumentError as error:
            raise PackageLoadError(f"{name} is not UTF-8 text", file=name) from error

    @property
    def readme(self) -> tuple[str, str] | None:
        """The file and the text of what its author says about it; ``None`` without `READMES`.

        Longer ones are cut at `README_BYTES`; what is not UTF-8 is replaced.
        """
        found = next((name for name in READMES if self.members.has(name)), None)
        if found is None:
            return None
        return found, self.members.read(found)[:README_BYTES].decode("utf-8-sig", "replace")

    def _class_bytes(self, file: str, path: str) -> bytes:
        return self.members.read(path) if self.plugin is None else self.read_class(file).encode()

    def check_classes(self) -> None:
        """Read every class file once as YAML. Errors: with the position of the first mistake."""
        seen: set[str] = set()
        for name, file in () if self.hot else self.classes.items():
            if file in seen or file in self._well_formed:
                continue
            seen.add(file)
            path = f"Classes/{safe_name(file)}"
            try:
                if not syntax(self._class_bytes(file, path), path):
                    raise PackageLoadError("the file is empty: it must contain a class", file=path)
            except PackageLoadError as error:
                raise PackageClassError(
                    self.full_name,
                    name,
                    error.message,
                    file=error.file,
                    line=error.line,
                    column=error.column,
                ) from error


def _described(manifest: Manifest, plugin: PluginContent) -> Manifest:
    """A manifest with what a plug-in says instead. Errors: ``PackageFormatError``."""
    said = plugin.described
    if not FULL_NAME.match(said.get("full_name", manifest.full_name)):
        raise PackageFormatError(f"Invalid FullName {said['full_name']!r} of {plugin.format}")
    if said.get("package_type", manifest.type) not in TYPES:
        raise PackageFormatError(f"Invalid package Type {said['package_type']!r}")
    version = manifest.version
    if "version" in said:
        try:
            version = str(Version.parse(str(said["version"])))
        except ValueError as error:
            raise PackageFormatError(f"Version: {error}") from error
    return replace(
        manifest,
        full_name=said.get("full_name", manifest.full_name),
        type=said.get("package_type", manifest.type),
        version=version,
        name=said.get("display_name", manifest.name),
        description=said.get("description", manifest.description),
        author=said.get("author", manifest.author),
        supplier=said.get("supplier", manifest.supplier),
        tags=[str(tag) for tag in said.get("tags", manifest.tags)],
        classes=plugin.classes,
        requirements=plugin.requirements or manifest.requirements,
        meta=said.get("meta", manifest.meta),
    )


def _checked_image(content: bytes, name: str, what: str, place: Mapping[str, Any]) -> bytes:
    if len(content) > LOGO_BYTES:
        raise PackageLoadError(
            f"Unable to load {what}: {name} is larger than {LOGO_BYTES // 1024} KiB", **place
        )
    if not content.startswith(LOGO_STARTS):
        raise PackageLoadError(
            f"Unable to load {what}: {name} is not a PNG, JPEG or GIF image", **place
        )
    return content


def syntax(content: bytes, file: str) -> int:
    """Check that a class or form file is YAML; returns how many documents it has."""
    try:
        return measure_yaml(documents.text_of(content))
    except DocumentError as error:
        raise PackageLoadError(
            error.message, file=file, line=error.line, column=error.column
        ) from error


def open_package(source: Path | bytes, *, limits: ArchiveLimits | None = None) -> Package:
    """Open a package directory, archive file or archive bytes, and check it.

    Errors: the ``PackageError`` tree; nothing is unpacked to disk.
    """
    limits = limits or ArchiveLimits()
    if isinstance(source, bytes):
        return Package(ArchiveMembers(source, limits), "(bytes)")
    if source.is_dir():
        return Package(DirectoryMembers(source, limits), str(source))
    if not source.is_file():
        raise PackageLoadError(f"Unable to find package file {source}")
    return Package(ArchiveMembers(source, limits), str(source))


def build_archive(directory: Path, target: Path) -> str:
    """Write a checked package directory as a zip; returns its SHA-256.

    The same content gives the same bytes: members are sorted and have a fixed time. Errors:
    ``PackageError`` for a package that would be refused.
    """
    package = open_package(directory)
    package.check_classes()
    temporary = target.with_name(target.name + ".new")
    # Without the archive itself, where it is written into the package's directory.
    names = [
        name for name in package.members.names() if (directory / name).resolve() != target.resolve()
    ]
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                info = zipfile.ZipInfo(name, ARCHIVE_TIME)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o100644 << 16
                archive.writestr(info, package.members.read(name))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return hashlib.sha256(target.read_bytes()).hexdigest()


__all__ = ["Package", "build_archive", "open_package", "syntax"]
