"""Names of a package that are imported when they are first used.

    __getattr__ = import_when_used(__name__, {"vetro.engine.pool": "EnginePool"})

A package's public names come from many modules, and most programs need few of them: the command line
that checks a package must not pay for a database (docs/decisions/0126). The package also imports the
names under `TYPE_CHECKING`, so that type checkers and editors see them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def import_when_used(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package.

    `modules` says which names each module gives, with spaces between them; `new=old` publishes the
    module's `old` as `new`. Modules have their full names. A name that was used once is an
    attribute of the package from then on. Raises AttributeError for any other name.
    """
    origins: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for entry in names.split():
            name, _, original = entry.partition("=")
            origins[name] = (module, original or name)

    def get(name: str) -> Any:
        origin = origins.get(name)
        if origin is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = origin
        value = getattr(importlib.import_module(module), original)
        setattr(sys.modules[package], name, value)
        return value

    return get
