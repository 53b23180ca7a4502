"""The part of a package manifest that the language needs (muranopl.md section 1.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from vetro.muranopl.values.errors import PackageFormatError, Position

from .versions import Version, version_spec
from .yamltree import Mapping, Node, Scalar, load_documents, plain_value

_FULL_NAME = re.compile(r"\w+(?:\.\w+)*\Z")
FORMATS = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")


def parse_format(value: object) -> tuple[int, int]:
    """`1.4`, `MuranoPL/1.4`, None (1.0) to (1, 4). Raises PackageFormatError."""
    text = "1.0" if value is None else str(value).strip()
    number = text.removeprefix("MuranoPL/")
    if number == "1":
        number = "1.0"
    if number not in FORMATS:
        raise PackageFormatError(
            f"Unsupported format {text}", hint=f"known formats: {', '.join(FORMATS)}"
        )
    major, minor = number.split(".")
    return int(major), int(minor)


@dataclass(slots=True)
class Manifest:
    """The language part of a manifest."""

    full_name: str
    version: str = "0.0.0"
    format: str = "1.0"
    requirements: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    classes: dict[str, str] = field(default_factory=dict[str, str])
    meta: Any = None


def read_manifest(path: Path) -> Manifest:
    """Read `manifest.yaml`. Raises PackageFormatError, YamlSyntaxError, FileNotFoundError."""
    text = path.read_text(encoding="utf-8")
    documents = load_documents(text, str(path), parse_expression=None)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise PackageFormatError("a manifest must be one map", position=Position(str(path), 1, 1))
    top = documents[0]
    values = cast("dict[str, object]", plain_value(top))

    def place(key: str) -> Position:
        for name, node, _ in top.entries():
            if name == key:
                return node.position
        return top.position

    name = values.get("FullName")
    if not isinstance(name, str) or not _FULL_NAME.match(name):
        raise PackageFormatError(
            f"FullName {name!r} is not a dotted name", position=place("FullName")
        )
    nodes = {key: node for key, _, node in top.entries()}
    requirements: dict[str, str | None] = {}
    try:
        format_ = _written(nodes.get("Format")) or "1.0"
        parse_format(format_)
        version = Version.parse(_written(nodes.get("Version")) or "0.0.0")
        required = nodes.get("Require")
        for key, _, node in required.entries() if isinstance(required, Mapping) else ():
            requirements[key] = _written(node)
            version_spec(requirements[key])
    except ValueError as error:
        raise PackageFormatError(str(error), position=place("Version")) from error
    except PackageFormatError as error:
        error.position = place("Format")
        raise
    return Manifest(
        name,
        str(version),
        format_,
        requirements,
        dict(cast("dict[str, str]", values.get("Classes") or {})),
        values.get("Meta"),
    )


def _written(node: Node | None) -> str | None:
    """The text of a scalar: the version 1.10 is not the number 1.1. None for null."""
    if not isinstance(node, Scalar) or node.value is None:
        return None
    if isinstance(node.value, str):
        return node.value
    return node.source.text[node.start : node.end].strip()
