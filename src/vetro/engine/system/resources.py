"""``io.murano.system.Resources``: files of packages (core-library.md §4.1)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from vetro.muranopl import CallContext, MuranoPackage, MuranoType, Session, freeze, native
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
        package, file = _package(ctx, owner), _file(name)
        known = _KNOWN.setdefault(ctx.session, {})
        if (package, "yaml", file) not in known:
            value = read_yaml(_content(ctx, package, file), _place(name))
            known[package, "yaml", file] = freeze(value)
        return known[package, "yaml", file]

    @native(hidden=True)
    def read(self, ctx: CallContext, name: str) -> bytes:
        """A file, for native code."""
        return _content(ctx, self.package, name)


def _place(name: str | MuranoType) -> str:
    return f"Resources/{name.name if isinstance(name, MuranoType) else name}"


def _read(ctx: CallContext, name: str | MuranoType, owner: MuranoType | None) -> bytes:
    return _content(ctx, _package(ctx, owner), _file(name))


def _file(name: str | MuranoType) -> str:
    return name.name if isinstance(name, MuranoType) else name


def _content(ctx: CallContext, package: MuranoPackage, name: str) -> bytes:
    # Once in a session: every machine of a group asks for the same files.
    known = _KNOWN.setdefault(ctx.session, {})
    if (package, "", name) not in known:
        known[package, "", name] = package.source.read_resource(name)
    return known[package, "", name]


_KNOWN: WeakKeyDictionary[Session, dict[tuple[MuranoPackage, str, str], Any]] = WeakKeyDictionary()
"""What was read in a session, by package, kind and name."""


def _package(ctx: CallContext, owner: MuranoType | None) -> MuranoPackage:
    if owner is not None:
        return owner.package
    if ctx.this is not None:
        return ctx.this.native(Resources).package
    if ctx.caller_package is None:
        raise ValueError("Only classes of a package can read resources")
    return ctx.caller_package
