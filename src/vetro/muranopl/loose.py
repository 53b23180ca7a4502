"""Loose class documents as a package: for tests, notebooks and programs that embed the language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import declarations
from .errors import DslSyntaxError, Position
from .sources import MemoryPackage
from .yamltree import load_documents


def loose_package(
    full_name: str,
    *texts: str,
    version: str = "0.0.0",
    format: str = "1.4",  # noqa: A002 - the manifest's word
    requirements: Mapping[str, str | None] | None = None,
    resources: Mapping[str, bytes] | None = None,
    meta: Any = None,
) -> MemoryPackage:
    """A package of the classes that the texts declare, each with a `Name`.

    A bare name without a `=` namespace is one of the package's: `Name: Main` in `loose_package("my.app", …)`
    is `my.app.Main`. Raises DslSyntaxError with the place `text N`.
    """
    from .catalogue import parse_expression

    files: dict[str, str] = {}
    classes: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        file = f"text {number}"
        documents = load_documents(text, file, parse_expression=parse_expression)
        for declaration in declarations.declare(documents, ""):
            name = declaration.name
            if not name:
                raise DslSyntaxError(
                    "a loose class document needs a Name",
                    position=declaration.position or Position(file, 1, 1),
                )
            if "." not in name:
                name = f"{full_name}.{name}"
            classes[name] = file
        files[file] = text
    return MemoryPackage(
        full_name,
        files,
        classes,
        version=version,
        format=format,
        requirements=dict(requirements or {}),
        resources=dict(resources or {}),
        meta=meta,
    )
