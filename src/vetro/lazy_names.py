"""Names of a package that are imported when they are first used.

    if TYPE_CHECKING:
        from vetro.engine.pool import EnginePool

    __getattr__ = import_when_used(__name__)

A package's public names come from many modules, and most programs need few of them: the command line
that checks a package must not pay for a database (docs/decisions/0126). What the package imports under
`TYPE_CHECKING`, for type checkers and editors, says which names there are and where they come from.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any

_BLOCK = re.compile(r"^if TYPE_CHECKING:\n((?:[ ].*\n|\n)+)", re.M)
_IMPORT = re.compile(r"^    from (\S+) import (?:\(([^)]*)\)|(.+))", re.M)


def import_when_used(package: str) -> Callable[[str], object]:
    """The `__getattr__` of a package.

    A name that was used once is an attribute of the package from then on; `old as new` publishes the
    module's `old` as `new`. Raises AttributeError for a name that the package does not import under
    `TYPE_CHECKING`.
    """
    origins: dict[str, tuple[str, str]] = {}

    def get(name: str) -> Any:
        if not origins:
            origins.update(_names_for_type_checkers(package))
        origin = origins.get(name)
        if origin is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = origin
        value = getattr(importlib.import_module(module, package), original)
        setattr(sys.modules[package], name, value)
        return value

    return get


def _names_for_type_checkers(package: str) -> dict[str, tuple[str, str]]:
    """The module and the name there of each name that a package imports under `TYPE_CHECKING`."""
    module: Any = sys.modules[package]
    source = module.__loader__.get_data(module.__file__).decode().replace("\r\n", "\n")
    block = _BLOCK.search(source)
    found: dict[str, tuple[str, str]] = {}
    for origin, several, one in _IMPORT.findall(block[1] if block else ""):
        for entry in filter(None, (part.strip() for part in (several or one).split(","))):
            original, _, name = entry.partition(" as ")
            found[name or original] = (origin, original)
    return found
