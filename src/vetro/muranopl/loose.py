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
    files: Mapping[str, str] | None = None,
) -> MemoryPackage:
    """A package of the classes that the texts declare, each with a `Name`.

    A bare name without a `=` namespace is one of the package's: `Name: Main` in `loose_package("my.app", …)`
    is `my.app.Main`. `files`: further texts by the names that places in errors and traces give them;
    `texts` are called `text N`. Raises DslSyntaxError with the place.
    """
    from .catalogue import parse_expression

    named = {f"text {number}": text for number, text in enumerate(texts, 1)} | dict(files or {})
    classes: dict[str, str] = {}
    for file, text in named.items():
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
    return MemoryPackage(
        full_name,
        named,
        classes,
        version=version,
        format=format,
        requirements=dict(requirements or {}),
        resources=dict(resources or {}),
        meta=meta,
    )
