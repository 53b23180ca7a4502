"""``manifest.yaml``: the description of a package (packages-and-forms.md A2, A3, A8).

One reader serves loading and checking. It reports what it finds and reads on: refusals, with which no
package can be opened, and the other findings of `vetro check`. Loading raises the first refusal.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any

from vetro.digits import is_number
from vetro.documents import DocumentError, DocumentLimits, yaml_value
from vetro.muranopl import Version, version_spec, yaml_hint
from vetro.packages.check_yaml import (
    Finding,
    Findings,
    entries,
    is_list,
    is_map,
    is_null,
    is_scalar,
    is_text,
    items,
    read_documents,
    text_of,
    unknown_keys,
)
from vetro.packages.errors import PackageFormatError, PackageLimitError, PackageLoadError
from vetro.packages.plugin_formats import is_known, known_formats

FILE = "manifest.yaml"
LIMITS = DocumentLimits(bytes=2**20, depth=40, aliases=100, nodes=20_000)
FULL_NAME = re.compile(r"\w+(?:\.\w+)*\Z")
_CLASS_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*\Z")
TYPES = ("Application", "Library")
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
_SUPPLIER = ("Name", "CompanyUrl", "Logo", "Summary", "Description")


# Not frozen: that would be a twentieth of the time to read one.
@dataclass
class Manifest:
    """A manifest. ``format`` is the MuranoPL version text (``1.4``); ``HOT`` for templates.

    One that a check has read may have defaults in place of what is wrong in it.
    """

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
    logo: str = "logo.png"
    supplier_logo: str = "supplier_logo.png"
    supplier: dict[str, object] = field(default_factory=dict[str, Any])
    meta: Any = None
    isolation: str = "required"
    """`optional`: its plans are safe on a machine that others share (driver `process`)."""
    plugin: tuple[str, str] | None = None
    """Type and version of a format that a plug-in adds."""
    places: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """Nodes that name a file or a package, by key: `UI`, `Logo`, `Classes/<name>`, ..."""

    def place(self, key: str) -> dict[str, Any]:
        """Where the manifest has a value of ``places``, for errors about it."""
        mark = getattr(self.places.get(key), "start_mark", None)
        if mark is None:
            return {"file": FILE}
        return {"file": FILE, "line": mark.line + 1, "column": mark.column + 1}


def parse_manifest(content: bytes) -> Manifest:
    """Read ``manifest.yaml``. Errors: ``PackageLoadError``, ``PackageFormatError`` with position."""
    findings = Findings(FILE)
    manifest = read_manifest(content, findings)
    if findings.refusals:
        raise _error(min(findings.refusals, key=lambda item: (item.line or 0, item.column or 0)))
    assert manifest is not None
    return manifest


def _error(refusal: Finding) -> PackageLoadError:
    place: dict[str, Any] = {"file": FILE, "line": refusal.line, "column": refusal.column}
    if refusal.code == "E002":
        return PackageLoadError(f"Unable to load due to: {refusal.message}", **place)
    kind = PackageLimitError if refusal.code == "E003" else PackageFormatError
    return kind(refusal.message, code=refusal.code, **place)


def read_manifest(content: bytes, findings: Findings) -> Manifest | None:
    """Read a manifest and report all that is wrong in it; None when it is not a YAML map."""
    documents = read_documents(content, findings, LIMITS)
    if documents is None:
        return None
    if len(documents) > 1:
        findings.refuse("E005", "a manifest is one document", documents[1])
    root = documents[0] if documents else None
    if root is None or not is_map(root):
        findings.refuse("E004", "the manifest must be a map", root)
        return None
    try:
        values = yaml_value(root)
    except DocumentError as error:
        # A tag that nobody knows: `!=1.0` without quotes.
        text = content.decode("utf-8-sig", errors="replace")
        findings.refuse_document(error, yaml_hint(text, error.line - 1) if error.line else None)
        return None
    manifest = _Reader(root, values, findings).manifest()
    if manifest.plugin is None:  # which keys it has else, is the plug-in's
        unknown_keys(root, KEYS, "a manifest", findings, "W010")
    return manifest


class _Reader:
    """Reads the values of a manifest: texts as they are written, maps and lists as nodes."""

    def __init__(self, root: Any, values: dict[Any, Any], findings: Findings) -> None:
        self.root = root
        self.values = values
        self.findings = findings
        self.nodes = {name: value for name, _, value in entries(root)}
        self.places: dict[str, Any] = {}
        self.plugin: tuple[str, str] | None = None

    def manifest(self) -> Manifest:
        full_name, type_ = self.full_name(), self.type()
        description = self.text("Description", "E030")
        if self.nodes.get("Description") is None:
            self.missing("Description", "Description is not specified")
        name = self.text("Name", "E040") or full_name
        if len(name) > 80:
            self.findings.add("E041", "Name is longer than 80 characters", self.nodes.get("Name"))
        return Manifest(
            full_name=full_name,
            type=type_,
            format=self.format(),
            version=self.version(),
            name=name,
            description=description,
            author=self.text("Author", "E040"),
            tags=self.tags(),
            classes=self.classes(),
            requirements=self.requirements(),
            ui=self.file("UI", "E072") or "ui.yaml",
            logo=self.file("Logo", "E074") or "logo.png",
            supplier_logo=self.supplier_logo(),
            supplier=self.supplier(),
            meta=self.meta(),
            isolation=self.isolation(),
            plugin=self.plugin,
            places=self.places,
        )

    # -- values of any key -----------------------------------------------------------------------

    def text(self, key: str, code: str) -> str | None:
        """The text of a key as it is written. Numbers and such are reported, maps and lists refused."""
        node: Any = self.nodes.get(key)
        if is_text(node) and "\0" not in node.value:
            return node.value
        if is_null(node):
            return None
        text = text_of(node)
        if text is None:
            self.findings.refuse(code, f"{key} must be text", node)
        elif "\0" in text:
            self.findings.refuse(code, f"{key} has a NUL character", node)
        elif key not in ("Format", "Version"):
            self.findings.add(code, f"{key} must be text: quote it", node)
        return text

    def file(self, key: str, code: str) -> str | None:
        """The text of a key that names a file."""
        node = self.nodes.get(key)
        if is_null(node):
            return None
        if not is_text(node):
            self.findings.refuse(code, f"{key} must be the name of a file", node)
            return None
        self.places[key] = node
        return self.text(key, code)

    def map(self, key: str, code: str) -> list[tuple[str, Any, Any]]:
        """Key texts, key nodes and value nodes of a map; none if it is null."""
        node = self.nodes.get(key)
        if is_null(node):
            return []
        if not is_map(node):
            self.findings.refuse(code, f"{key} must be a map", node)
            return []
        return entries(node)

    def missing(self, key: str, message: str, *, refuse: bool = False) -> None:
        """Report that a key is missing, with the unknown key that may be meant."""
        unknown = [name for name in self.nodes if name not in KEYS]
        near = difflib.get_close_matches(key, unknown, 1)
        hint = f"; is {near[0]} a misspelling of it?" if near else ""
        report = self.findings.refuse if refuse else self.findings.add
        report("E020", message + hint, self.root)

    # -- the keys --------------------------------------------------------------------------------

    def full_name(self) -> str:
        text = self.text("FullName", "E073")
        if not text:
            self.missing("FullName", "FullName is not specified", refuse=True)
        elif not FULL_NAME.match(text):
            self.findings.refuse(
                "E073",
                f"Invalid FullName {text!r}: write words joined by dots",
                self.nodes["FullName"],
            )
            return ""
        return text or ""

    def type(self) -> str:
        text = self.text("Type", "E071")
        if text in TYPES:
            return text
        message = f"Invalid package Type {text!r}: use Application or Library"
        if text is None:
            self.missing("Type", message, refuse=True)
        else:
            self.findings.refuse("E071", message, self.nodes["Type"])
        return ""

    def meta(self) -> Any:
        node = self.nodes.get("Meta")
        if not (is_null(node) or is_map(node) or is_list(node)):
            self.findings.refuse("E004", "Meta is a map or a list of metadata", node)
        return self.values.get("Meta")

    def isolation(self) -> str:
        text = self.text("Isolation", "E071") or "required"
        if text not in ("required", "optional"):
            message = f"Invalid Isolation {text!r}: use required or optional"
            self.findings.refuse("E071", message, self.nodes["Isolation"])
        return text

    def format(self) -> str:
        text = self.text("Format", "W030") or "MuranoPL/1.0"
        if is_number(text[:1]):
            text = f"MuranoPL/{text}"
        kind, _, number = text.rpartition("/")
        if kind == "MuranoPL" and f"{number}.0" in MURANOPL_FORMATS:
            return number
        try:
            version = str(Version.parse(number))
        except ValueError:
            version = ""
        if kind == "MuranoPL" and version in MURANOPL_FORMATS:
            return version.removesuffix(".0")
        if kind != "Heat.HOT" or version != "1.0.0":
            if is_known(kind, version):
                self.plugin = (kind, version)
                return "1.4"
            added = "".join(f", or {one}" for one in known_formats())
            self.findings.refuse(
                "W030",
                f"Unsupported format {text!r}: use MuranoPL/1.0 to MuranoPL/1.5 or Heat.HOT/1.0{added}",
                self.nodes["Format"],
            )
        return "HOT" if kind == "Heat.HOT" and version else "1.0"

    def version(self) -> str:
        text = self.text("Version", "E071") or "0.0.0"
        try:
            return str(Version.parse(text))
        except ValueError as error:
            self.findings.refuse("E071", f"Version: {error}", self.nodes["Version"])
            return "0.0.0"

    def tags(self) -> list[str]:
        node = self.nodes.get("Tags")
        if is_null(node):
            return []
        if not is_list(node):
            self.findings.refuse("E070", "Tags must be a list of texts", node)
            return []
        for item in items(node):
            if not is_text(item):
                self.findings.refuse("E070", "Tags must be a list of texts: quote this", item)
            elif "\0" in (text_of(item) or ""):
                self.findings.refuse("E070", "a tag has a NUL character", item)
        return [text_of(item) or "" for item in items(node)]

    def classes(self) -> dict[str, str]:
        classes: dict[str, str] = {}
        for name, key, value in self.map("Classes", "E074"):
            self.class_name(name, key)
            if not is_text(value):
                self.findings.refuse("E040", f"the file of class {name} must be text", value)
            else:
                classes[name] = text_of(value) or ""
                self.places[f"Classes/{name}"] = value
        return classes

    def class_name(self, name: str, node: Any) -> None:
        """Report E011 for an invalid name, W011 for a name that is not CamelCase."""
        last = name.rpartition(".")[2]
        if not _CLASS_NAME.match(name):
            report = self.findings.add if FULL_NAME.match(name) else self.findings.refuse
            report("E011", f"{name!r} is not a class name", node)
        elif not _is_camel_case(last):
            self.findings.add("W011", f"{last} is not CamelCase", node)

    def requirements(self) -> dict[str, str | None]:
        requirements: dict[str, str | None] = {}
        for name, key, value in self.map("Require", "E005"):
            if not FULL_NAME.match(name):
                self.findings.refuse("E005", f"Require: {name!r} is not a package name", key)
                continue
            self.places[f"Require/{name}"] = key
            try:
                if not is_scalar(value):
                    raise ValueError("a version spec is text such as '>=1.2'")
                text = None if is_null(value) else text_of(value) or None
                version_spec(text)
                requirements[name] = text
            except ValueError as error:
                self.findings.refuse("E023", f"Require {name}: {error}", value)
        return requirements

    def supplier(self) -> dict[str, object]:
        if not self.map("Supplier", "E077"):
            return {}
        unknown_keys(self.nodes["Supplier"], _SUPPLIER, "Supplier", self.findings)
        found: dict[object, object] = self.values["Supplier"]
        return {str(key): value for key, value in found.items()}

    def supplier_logo(self) -> str:
        node = self.nodes.get("Supplier")
        named = [v for name, _, v in entries(node) if name == "Logo"] if is_map(node) else []
        if not named or is_null(named[-1]):
            return "supplier_logo.png"
        text = text_of(named[-1])
        if text is None:
            self.findings.refuse("E077", "the Logo of Supplier must be text", named[-1])
        self.places["Supplier/Logo"] = named[-1]
        return text or "supplier_logo.png"


def _is_camel_case(word: str) -> bool:
    shouting = word.isupper() and len(word) > 3
    return "_" not in word and word[:1].isupper() and not shouting
