"""``manifest.yaml``: the description of a package (packages-and-forms.md A2, A3)."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, cast

from vetro.documents import (
    DocumentError,
    DocumentLimits,
    DocumentTooLarge,
    MappingNode,
    read_yaml_and_node,
)
from vetro.muranopl import Version, version_spec
from vetro.packages.errors import PackageFormatError, PackageLimitError, PackageLoadError

FILE = "manifest.yaml"
LIMITS = DocumentLimits(bytes=2**20, depth=40, aliases=100, nodes=20_000)
FULL_NAME = re.compile(r"\w+(?:\.\w+)*\Z")
MURANOPL_FORMATS = ("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0")
KEYS = (
    "Format",
    "FullName",
    "Type",
    "Version",
    "Name",
    "Description",
    "Author",
    "Tags",
    "Classes",
    "Require",
    "UI",
    "Logo",
    "Supplier",
    "Meta",
    "EntryPoint",
    "Template",
    "Isolation",
)


@dataclass(frozen=True)
class Manifest:
    """A checked manifest. ``format`` is the MuranoPL version text (``1.4``); ``HOT`` for templates."""

    full_name: str
    type: str
    format: str
    version: str = "0.0.0"
    name: str = ""
    description: str | None = None
    author: str | None = None
    tags: list[str] = field(default_factory=list[str])
    classes: dict[str, str] = field(default_factory=dict[str, str])
    requirements: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    ui: str = "ui.yaml"
    ui_named: bool = False
    logo: str = "logo.png"
    logo_named: bool = False
    supplier: dict[str, Any] = field(default_factory=dict[str, Any])
    meta: Any = None
    isolation: str = "required"
    """`optional`: its plans are safe on a machine that others share (driver `process`)."""
    unknown_keys: list[str] = field(default_factory=list[str])


def parse_yaml(content: bytes, file: str) -> tuple[Any, Any]:
    """A small YAML document and its node tree. Errors: ``PackageLoadError`` with the position."""
    try:
        return read_yaml_and_node(content, LIMITS)
    except DocumentTooLarge as error:
        raise PackageLimitError(
            error.message, file=file, line=error.line, column=error.column
        ) from error
    except DocumentError as error:
        raise _not_yaml(error, file) from error


def _not_yaml(error: DocumentError, file: str) -> PackageLoadError:
    problem = error.message.removeprefix("not YAML: ")
    starts = ("cannot start any token", "expected alphabetic", "comment or line break")
    hint = (
        "; quote values that start with >, !, *, % or @"
        if any(s in problem for s in starts)
        else ""
    )
    return PackageLoadError(
        f"Unable to load due to: {problem}{hint}", file=file, line=error.line, column=error.column
    )


class _Reader:
    """Reads values of the manifest; errors name the place of an invalid value."""

    def __init__(self, values: dict[str, Any], node: Any) -> None:
        self.values = values
        self.places: dict[str, Any] = {}
        if isinstance(node, MappingNode):
            pairs = cast("list[tuple[Any, Any]]", node.value)
            for key, value in pairs:
                name = str(key.value)
                if name in self.places:
                    raise PackageFormatError(
                        f"the key {name} appears twice (first in line {self.places[name].line + 1})",
                        file=FILE,
                        line=key.start_mark.line + 1,
                        column=key.start_mark.column + 1,
                    )
                self.places[name] = value.start_mark

    def error(self, key: str, message: str, code: str) -> PackageFormatError:
        mark = self.places.get(key)
        return PackageFormatError(
            message,
            file=FILE,
            line=mark.line + 1 if mark else None,
            column=mark.column + 1 if mark else None,
            code=code,
        )

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, (dict, list)):
            raise self.error(
                key, f"{key} must be text, not {type(cast('object', value)).__name__}", "E010"
            )
        if "\0" in str(value):
            raise self.error(key, f"{key} has a NUL character", "E010")
        return str(value)

    def map(self, key: str) -> dict[str, Any]:
        value = self.values.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(key, f"{key} must be a map", "E010")
        items = cast("dict[object, Any]", value)
        return {str(name): item for name, item in items.items()}


def parse_manifest(content: bytes) -> Manifest:
    """Check ``manifest.yaml``. Errors: ``PackageLoadError``, ``PackageFormatError`` with position."""
    document, node = parse_yaml(content, FILE)
    if not isinstance(document, dict):
        raise PackageFormatError("the manifest must be a map", file=FILE, line=1, column=1)
    values = {str(key): value for key, value in cast("dict[object, Any]", document).items()}
    read = _Reader(values, node)
    full_name = read.text("FullName")
    if not full_name:
        near = difflib.get_close_matches("FullName", list(values), 1)
        hint = f"; is {near[0]} a misspelling of it?" if near else ""
        raise read.error("FullName", f"FullName is not specified{hint}", "E020")
    if not FULL_NAME.match(full_name):
        raise read.error(
            "FullName", f"Invalid FullName {full_name!r}: write words joined by dots", "E020"
        )
    type_ = read.text("Type")
    if type_ not in ("Application", "Library"):
        raise read.error(
            "Type", f"Invalid package Type {type_!r}: use Application or Library", "E021"
        )
    name = read.text("Name") or full_name
    tags: Any = values.get("Tags") or []
    if not isinstance(tags, list) or not all(isinstance(t, str) for t in cast("list[Any]", tags)):
        raise read.error("Tags", "Tags must be a list of texts", "E022")
    if any("\0" in tag for tag in cast("list[str]", tags)):
        raise read.error("Tags", "a tag has a NUL character", "E022")
    return Manifest(
        full_name=full_name,
        type=type_,
        format=_format(read),
        version=_version(read),
        name=name,
        description=read.text("Description"),
        author=read.text("Author"),
        tags=list(cast("list[str]", tags)),
        classes=_classes(read),
        requirements=_requirements(read),
        ui=read.text("UI") or "ui.yaml",
        ui_named=values.get("UI") is not None,
        logo=read.text("Logo") or "logo.png",
        logo_named=values.get("Logo") is not None,
        supplier=read.map("Supplier"),
        meta=values.get("Meta"),
        isolation=_isolation(read),
        unknown_keys=[key for key in values if key not in KEYS],
    )


def _isolation(read: _Reader) -> str:
    value = read.text("Isolation") or "required"
    if value not in ("required", "optional"):
        raise read.error(
            "Isolation", f"Invalid Isolation {value!r}: use required or optional", "E021"
        )
    return value


def _format(read: _Reader) -> str:
    text = read.text("Format") or "MuranoPL/1.0"
    if text[:1].isdigit():
        text = f"MuranoPL/{text}"
    kind, _, number = text.rpartition("/")
    try:
        version = str(Version.parse(number))
    except ValueError:
        version = ""
    if kind == "MuranoPL" and version in MURANOPL_FORMATS:
        return version.removesuffix(".0")
    if kind == "Heat.HOT" and version == "1.0.0":
        return "HOT"
    raise read.error(
        "Format",
        f"Unsupported format {text!r}: use MuranoPL/1.0 to MuranoPL/1.4 or Heat.HOT/1.0",
        "E023",
    )


def _version(read: _Reader) -> str:
    text = read.text("Version") or "0.0.0"
    try:
        return str(Version.parse(text))
    except ValueError as error:
        raise read.error("Version", f"Version: {error}", "E024") from error


def _classes(read: _Reader) -> dict[str, str]:
    classes: dict[str, str] = {}
    for name, file in read.map("Classes").items():
        if not FULL_NAME.match(name):
            raise read.error("Classes", f"{name!r} is not a class name", "E025")
        if not isinstance(file, str):
            raise read.error("Classes", f"the file of class {name} must be text", "E025")
        classes[name] = file
    return classes


def _requirements(read: _Reader) -> dict[str, str | None]:
    requirements: dict[str, str | None] = {}
    for name, spec in read.map("Require").items():
        text = None if spec is None or spec == "" else str(spec)
        try:
            version_spec(text)
        except ValueError as error:
            raise read.error("Require", f"Require {name}: {error}", "E026") from error
        requirements[name] = text
    return requirements
