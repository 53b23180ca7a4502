"""Which lock a method takes (muranopl.md section 22)."""

from __future__ import annotations

from dataclasses import dataclass

from .types import Method


@dataclass(frozen=True, slots=True)
class LockPolicy:
    """`this`: one per receiver and method. `arguments`: keyed by argument values as well."""

    kind: str = "this"
    """`this`, `arguments` or `none`."""
    on_this: bool = True
    arguments: tuple[str, ...] = ()


DEFAULT = LockPolicy()
NONE = LockPolicy("none")


def lock_policy(method: Method, on_this: bool, names: tuple[str, ...]) -> LockPolicy:
    """The policy that a `Synchronize` item sets; unknown argument names are ignored."""
    known = {item.name for item in method.arguments or []}
    arguments = tuple(name for name in names if name in known)
    if arguments:
        return LockPolicy("arguments", on_this, arguments)
    return DEFAULT if on_this else NONE
