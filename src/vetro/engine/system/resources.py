"""``io.murano.system.Resources``: files of packages (core-library.md §4.1)."""

from __future__ import annotations

import json
from typing import Any, cast

import yaml

from vetro.muranopl import CallContext, MuranoPackage, MuranoType


class _Loader(yaml.CSafeLoader):
    """Safe YAML whose unquoted timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read(package: MuranoPackage, name: str) -> bytes:
    """A file below ``Resources/``. Errors: ``FileNotFoundError`` naming package and file."""
    return package.source.read_resource(name)


def text_of(content: bytes) -> str:
    """Text with ``\\n`` between lines."""
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


class Resources:
    """Bound to the package of the class that made it."""

    def __init__(self, ctx: CallContext) -> None:
        package = ctx.caller_package
        if package is None:
            raise ValueError("Resources are read by classes of a package")
        self.package = package

    def _package(self, owner: MuranoType | None) -> MuranoPackage:
        return owner.package if owner is not None else self.package

    def string(self, name: str, owner: MuranoType | None = None, binary: bool = False) -> Any:
        """A file as text, or as bytes."""
        content = read(self._package(owner), name)
        return content if binary else text_of(content)

    def json(self, name: str, owner: MuranoType | None = None) -> Any:
        """A JSON file's value."""
        return json.loads(read(self._package(owner), name))

    def yaml(self, name: str, owner: MuranoType | None = None) -> Any:
        """A YAML file's value."""
        content = text_of(read(self._package(owner), name))
        return cast("Any", yaml).load(content, Loader=_Loader)
