"""The engine: takes deployments from the queue and runs each; the system classes behind programs.

``EnginePool`` runs tasks in worker processes; ``EngineSettings`` tells it how; ``library_path()`` is
where the packages are that ship with Vetro.

Names are loaded when they are used: whoever runs programs on a cloud in memory needs no database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vetro.engine.pool import EnginePool
    from vetro.engine.services import library_path
    from vetro.engine.settings import EngineSettings
    from vetro.storage import MigrationSet

    MIGRATIONS: MigrationSet

_WHERE = {
    "pool": "EnginePool",
    "services": "library_path",
    "settings": "EngineSettings",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "MIGRATIONS":
        from pathlib import Path

        from vetro.engine.tables import metadata
        from vetro.storage import MigrationSet

        made = MigrationSet("engine", Path(__file__).parent / "migrations", metadata)
        globals()[name] = made
        return made
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


__all__ = [
    "MIGRATIONS",
    "EnginePool",
    "EngineSettings",
    "library_path",
]
