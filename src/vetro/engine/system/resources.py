"""``io.murano.system.Resources``: files of packages (core-library.md §4.1)."""

from __future__ import annotations

import json
from typing import Any, cast

import yaml

from vetro.muranopl import CallContext, MuranoPackage, MuranoType, native


class _Loader(yaml.CSafeLoader):
    """Safe YAML whose unquoted timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in resolvers if pair[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def text_of(content: bytes) -> str:
    """Text with ``\n`` between lines."""
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


class Resources:
    """Files of the package of the class that made the object.

    The methods are static as well: then they read the package of the class that calls, and with
    ``owner``, a type, that type's package. A type as ``name`` is the file named like the class.
    """

    def __init__(self, ctx: CallContext) -> None:
        package = ctx.caller_package
        if package is None:
            raise ValueError("Resources are read by classes of a package")
        self.package = package

    @staticmethod
    def string(
        ctx: CallContext,
        name: str | MuranoType,
        owner: MuranoType | None = None,
        binary: bool = False,
    ) -> Any:
        """A file as text, or as bytes."""
        content = _read(ctx, name, owner)
        return content if binary else text_of(content)

    @staticmethod
    def json(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None = None) -> Any:
        """A JSON file's value."""
        return json.loads(_read(ctx, name, owner))

    @staticmethod
    def yaml(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None = None) -> Any:
        """A YAML file's value."""
        content = text_of(_read(ctx, name, owner))
        return cast("Any", yaml).load(content, Loader=_Loader)

    @native(hidden=True)
    def read(self, name: str) -> bytes:
        """A file, for native code."""
        return self.package.source.read_resource(name)


def _read(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None) -> bytes:
    package = _package(ctx, owner)
    return package.source.read_resource(name.name if isinstance(name, MuranoType) else name)


def _package(ctx: CallContext, owner: MuranoType | None) -> MuranoPackage:
    if owner is not None:
        return owner.package
    if ctx.this is not None:
        return ctx.this.native(Resources).package
    if ctx.caller_package is None:
        raise ValueError("Resources are read by classes of a package")
    return ctx.caller_package
