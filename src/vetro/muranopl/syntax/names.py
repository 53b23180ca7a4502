"""Namespaces and type names (muranopl.md section 3)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from vetro.muranopl.values.errors import DslSyntaxError

from . import yamltree
from .findings import Sink

_PREFIX = re.compile(r"(?:[A-Za-z_]\w*|=)\Z")
_NAMESPACE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")
_TYPE_NAME = re.compile(r"(?:([A-Za-z_]\w*|=)?(:))?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\Z")


def _is_word(text: str) -> bool:
    """Whether a text is one name: most are, and a regular expression takes ten times as long to say so."""
    return text.isidentifier() and text.isascii()


class Namespaces:
    """Prefixes of one class source. An unnamed scope resolves names to themselves."""

    __slots__ = ("_map",)

    def __init__(self, prefixes: Mapping[str, str | None] | None = None) -> None:
        self._map: dict[str, str] = {}
        for prefix, namespace in (prefixes or {}).items():
            self.add(prefix, namespace or "")

    def add(self, prefix: str, namespace: str) -> None:
        """Add a prefix. Raises ValueError."""
        if prefix != "=" and not _PREFIX.match(prefix):
            raise ValueError(f"Invalid namespace prefix {prefix!r}")
        if namespace and not _is_word(namespace) and not _NAMESPACE.match(namespace):
            raise ValueError(f"Invalid namespace {namespace!r}")
        self._map[prefix] = namespace

    @property
    def default(self) -> str:
        """The namespace of bare names."""
        return self._map.get("=", "")

    def resolve(self, name: str) -> str:
        """A type name as written to a fully qualified one.

        Raises KeyError for an unknown prefix, ValueError for a malformed name.
        """
        if _is_word(name):
            return self.resolve_prefixed("=", name)
        match = _TYPE_NAME.match(name.strip())
        if match is None:
            raise ValueError(f'Invalid type name "{name}"')
        prefix, colon, identifier = match.groups()
        if colon is None:
            if "." in identifier:
                return identifier
            prefix = "="
        elif prefix is None:
            prefix = "="
        return self.resolve_prefixed(prefix, identifier)

    def resolve_prefixed(self, prefix: str, identifier: str) -> str:
        """`prefix:identifier` to a fully qualified name."""
        namespace = self._map.get(prefix)
        if namespace is None:
            if prefix != "=":
                raise KeyError(f"Unknown namespace prefix {prefix}")
            namespace = ""
        return f"{namespace}.{identifier}" if namespace else identifier


def argument_slot(name: str) -> str:
    """The Python name of an argument or a variable.

    Python unifies look-alike names (NFKC), so only ASCII names are used as they are.
    """
    return f"a_{name}" if name.isascii() else f"b_{name.encode().hex()}"


def argument_name(slot: str) -> str:
    """The name that has the Python name `slot`."""
    return slot[2:] if slot.startswith("a_") else bytes.fromhex(slot[2:]).decode()


def python_name(name: str) -> str:
    """A Python identifier that resembles a MuranoPL name."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


def read_namespaces(node: yamltree.Node, sink: Sink) -> Namespaces:
    """The value of `Namespaces` in a document; its mistakes go to the sink."""
    found = Namespaces()
    if isinstance(node, yamltree.Scalar) and node.value is None:
        return found
    if not isinstance(node, yamltree.Mapping):
        sink.fail("E044", "Namespaces must be a map from prefixes to namespaces", node.position)
        return found
    for prefix, key, value in node.entries():
        if not isinstance(value, yamltree.Scalar):
            sink.fail("E305", "a namespace must be a dotted name", value.position)
            continue
        name = "" if value.value is None else str(value.value)
        try:
            found.add(prefix, name)
        except ValueError as error:
            is_prefix = "prefix" in str(error)
            hint = "a prefix must be an identifier or =" if is_prefix else None
            sink.fail(
                "E060" if is_prefix else "E305",
                str(error),
                key.position if is_prefix else node.position,
                hint or "a namespace must be a dotted identifier",
                names=(*DslSyntaxError.own_names, "ValueError"),
            )
            if not is_prefix:
                sink.advise("W060", f"{name!r} is not a namespace", value.position)
    return found
