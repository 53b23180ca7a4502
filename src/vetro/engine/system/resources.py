"""``io.murano.system.Resources``: files of packages (core-library.md §4.1)."""

from __future__ import annotations

from typing import Any

from vetro.muranopl import CallContext, MuranoPackage, MuranoType, native
from vetro.packages import read_json, read_yaml, text_of


class Resources:
    """Files of the package of the class that made the object.

    The methods are static as well: then they read the package of the class that calls, and with
    ``owner``, a type, that type's package. A type as ``name`` is the file named like the class.
    """

    def __init__(self, ctx: CallContext) -> None:
        package = ctx.caller_package
        if package is None:
            raise ValueError("Only classes of a package can read resources")
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
        return content if binary else text_of(content, _place(name))

    @staticmethod
    def json(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None = None) -> Any:
        """A JSON file's value."""
        return read_json(_read(ctx, name, owner), _place(name))

    @staticmethod
    def yaml(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None = None) -> Any:
        """A YAML file's value."""
        return read_yaml(_read(ctx, name, owner), _place(name))

    @native(hidden=True)
    def read(self, name: str) -> bytes:
        """A file, for native code."""
        return self.package.source.read_resource(name)


def _place(name: str | MuranoType) -> str:
    return f"Resources/{name.name if isinstance(name, MuranoType) else name}"


def _read(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None) -> bytes:
    package = _package(ctx, owner)
    return package.source.read_resource(name.name if isinstance(name, MuranoType) else name)


def _package(ctx: CallContext, owner: MuranoType | None) -> MuranoPackage:
    if owner is not None:
        return owner.package
    if ctx.this is not None:
        return ctx.this.native(Resources).package
    if ctx.caller_package is None:
        raise ValueError("Only classes of a package can read resources")
    return ctx.caller_package
