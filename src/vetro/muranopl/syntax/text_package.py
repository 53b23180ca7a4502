"""Loose class documents as a package: for tests, notebooks and programs that embed the language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vetro.muranopl.values.errors import DslSyntaxError, Position

from . import class_reader
from .expressions import parse_expression
from .sources import MemoryPackage
from .yamltree import Node, load_documents


def loose_package(
    full_name: str,
    *texts: str,
    version: str = "0.0.0",
    format: str = "1.4",  # noqa: A002 - the manifest's word
    requirements: Mapping[str, str | None] | None = None,
    resources: Mapping[str, bytes] | None = None,
    meta: object = None,
    files: Mapping[str, str] | None = None,
) -> MemoryPackage:
    """A package of the classes that the texts declare, each with a `Name`.

    Without a `=` namespace, a bare name belongs to the package: `Name: Main` in
    `loose_package("my.app", …)` is `my.app.Main`. `files`: further texts by file name; errors and
    traces use these names and call the `texts` `text N`. Raises DslSyntaxError with the place.
    """
    named = {f"text {number}": text for number, text in enumerate(texts, 1)} | dict(files or {})
    classes: dict[str, str] = {}
    for file, text in named.items():
        documents = load_documents(text, file, parse_expression=parse_expression)
        for declaration in class_reader.declare(documents, ""):
            name = declaration.name
            if not name:
                raise DslSyntaxError(
                    "a class document needs a Name",
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


def parents_of(text: str, file: str, name: str) -> list[str]:
    """The full names that a class extends, in the order of its text; none when it is not in the file.

    Raises DslSyntaxError with the place.
    """
    return _parents(load_documents(text, file, parse_expression=parse_expression), name)


def parents_of_all(text: str, file: str, names: Sequence[str]) -> dict[str, list[str]]:
    """What each of several classes of a text extends, as `parents_of`; empty when the text is.

    A class that cannot be read has no parents. Raises DslSyntaxError for a text that cannot be read.
    """
    documents = load_documents(text, file, parse_expression=parse_expression)
    found: dict[str, list[str]] = {}
    for name in names if documents else ():
        try:
            found[name] = _parents(documents, name)
        except DslSyntaxError:
            found[name] = []
    return found


def _parents(documents: list[Node], name: str) -> list[str]:
    for one in class_reader.declare(documents, name):
        if one.name in (name, name.rpartition(".")[2]):
            return list(one.extends)
    return []
