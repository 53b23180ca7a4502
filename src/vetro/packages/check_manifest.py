"""Lint of `manifest.yaml` (packages-and-forms.md A2, A8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vetro.muranopl import Version, version_spec
from vetro.packages.check_yaml import (
    Findings,
    entries,
    get,
    is_list,
    is_map,
    is_null,
    is_scalar,
    is_text,
    items,
    read_documents,
    suggestion,
    text_of,
    unknown_keys,
)
from vetro.packages.manifest import FULL_NAME, KEYS, MURANOPL_FORMATS

_SUPPLIER = ("Name", "CompanyUrl", "Logo", "Summary", "Description")
_WORD = re.compile(r"[^\W\d]\w*\Z")


@dataclass
class Declared:
    """The facts of the manifest that the other passes need; texts as written."""

    full_name: str = ""
    type: str = ""
    format: tuple[int, int] = (1, 0)
    is_hot: bool = False
    is_known: bool = True
    """Whether classes of the format can be compiled."""
    classes: dict[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])
    """Class name to file below `Classes/` and the node that names it."""
    ui: str = "ui.yaml"
    ui_node: Any = None
    logo: str = "logo.png"
    logo_node: Any = None
    supplier_logo: str = "supplier_logo.png"
    supplier_logo_node: Any = None
    requirements: dict[str, Any] = field(default_factory=dict[str, Any])
    """Package name to the node that names it."""
    specs: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """Package name to version spec, for valid requirements."""


def check_manifest(content: bytes, findings: Findings) -> Declared | None:
    """Report all findings of a manifest; returns None when it is not a YAML map."""
    documents = read_documents(content, findings)
    if documents is None:
        return None
    if len(documents) > 1:
        findings.add("E005", "a manifest is one document", documents[1])
    if not documents or not is_map(documents[0]):
        findings.add("E004", "the manifest is a map", documents[0] if documents else None)
        return None
    root = documents[0]
    unknown_keys(root, KEYS, "a manifest", findings, "W010")
    declared = Declared()
    for key in ("FullName", "Type", "Description"):
        if get(root, key) is None:
            names = [name for name, _, _ in entries(root) if name not in KEYS]
            findings.add("E020", f"{key} is missing{_meant(key, names)}", root)
    for name, _, value in entries(root):
        check = _CHECKS.get(name)
        if check is not None:
            check(value, declared, findings)
    return declared


def _meant(key: str, names: list[str]) -> str:
    hint = suggestion(key, names)
    return hint.replace("did you mean", "is it meant by") if hint else ""


def _full_name(node: Any, declared: Declared, findings: Findings) -> None:
    text = text_of(node)
    if not is_text(node) or text is None or not FULL_NAME.match(text):
        findings.add("E073", f"FullName {text!r} is not write words joined by dots", node)
    else:
        declared.full_name = text


def _type(node: Any, declared: Declared, findings: Findings) -> None:
    text = text_of(node)
    if text not in ("Application", "Library"):
        findings.add("E071", f"Type is Application or Library, not {text!r}", node)
    else:
        declared.type = text


def _version(node: Any, declared: Declared, findings: Findings) -> None:
    text = text_of(node)
    try:
        if text is None:
            raise ValueError("a version is text such as 1.2.3")
        if not is_null(node):
            Version.parse(text)
    except ValueError as error:
        findings.add("E071", f"Version: {error}", node)


def _format(node: Any, declared: Declared, findings: Findings) -> None:
    text = "" if is_null(node) else text_of(node) or "?"
    text = text or "MuranoPL/1.0"
    if text[:1].isdigit():
        text = f"MuranoPL/{text}"
    kind, _, number = text.rpartition("/")
    try:
        version = Version.parse(number)
    except ValueError:
        declared.is_known = False
        findings.add("W030", f"the format {text} is not known", node)
        return
    if kind == "Heat.HOT":
        declared.is_hot = True
    elif kind == "MuranoPL" and str(version) in MURANOPL_FORMATS:
        declared.format = (version.major, version.minor)
        return
    if kind != "Heat.HOT" or str(version) != "1.0.0":
        declared.is_known = False
        findings.add(
            "W030",
            f"the format {text} is not known: MuranoPL/1.0 to 1.4 and Heat.HOT/1.0 are",
            node,
        )


def _text(code: str, name: str) -> Callable[[Any, Declared, Findings], None]:
    def check(node: Any, declared: Declared, findings: Findings) -> None:
        if not is_null(node) and not is_text(node):
            findings.add(code, f"{name} is text", node)

    return check


def _name(node: Any, declared: Declared, findings: Findings) -> None:
    _text("E040", "Name")(node, declared, findings)
    if len(text_of(node) or "") > 80:
        findings.add("E041", "Name is longer than 80 characters", node)


def _tags(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_list(node):
        findings.add("E070", "Tags is a list of texts", node)
        return
    for item in items(node):
        if not is_text(item):
            findings.add("E070", "a tag is text: quote it", item)


def _classes(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_map(node):
        findings.add("E074", "Classes is a map from class names to files", node)
        return
    for name, key, value in entries(node):
        check_class_name(name, key, findings)
        if not is_text(value):
            findings.add("E040", f"the file of class {name} is text", value)
        else:
            declared.classes[name] = (text_of(value) or "", value)


def check_class_name(name: str, node: Any, findings: Findings) -> None:
    """Report E011 for an invalid name, W011 for a name that is not CamelCase."""
    parts = name.rpartition(":")[2].split(".")
    if not all(_WORD.match(part) for part in parts):
        findings.add("E011", f"{name!r} is not a class name", node)
        return
    last = parts[-1]
    shouting = last.isupper() and len(last) > 3
    if "_" in last or not last[:1].isupper() or shouting:
        findings.add("W011", f"{last} is not CamelCase", node)


def _require(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_map(node):
        findings.add("E005", "Require is a map from package names to version specs", node)
        return
    for name, key, value in entries(node):
        if not FULL_NAME.match(name):
            findings.add("E005", f"{name!r} is not a package name", key)
            continue
        declared.requirements[name] = key
        try:
            if not is_scalar(value):
                raise ValueError("a version spec is text such as '>=1.2'")
            spec = None if is_null(value) else text_of(value)
            version_spec(spec)
            declared.specs[name] = spec
        except ValueError as error:
            findings.add("E023", f"Require {name}: {error}", value)


def _ui(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_text(node):
        findings.add("E072", "UI is the name of a file below UI/", node)
        return
    declared.ui, declared.ui_node = text_of(node) or "", node


def _logo(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_text(node):
        findings.add("E074", "Logo is the name of a file", node)
        return
    declared.logo, declared.logo_node = text_of(node) or "", node


def _supplier(node: Any, declared: Declared, findings: Findings) -> None:
    if is_null(node):
        return
    if not is_map(node):
        findings.add("E077", "Supplier is a map", node)
        return
    unknown_keys(node, _SUPPLIER, "Supplier", findings)
    logo = get(node, "Logo")
    if logo is not None and is_text(logo):
        declared.supplier_logo, declared.supplier_logo_node = text_of(logo) or "", logo


_CHECKS: dict[str, Callable[[Any, Declared, Findings], None]] = {
    "FullName": _full_name,
    "Type": _type,
    "Version": _version,
    "Format": _format,
    "Name": _name,
    "Description": _text("E030", "Description"),
    "Author": _text("E040", "Author"),
    "Tags": _tags,
    "Classes": _classes,
    "Require": _require,
    "UI": _ui,
    "Logo": _logo,
    "Supplier": _supplier,
}
