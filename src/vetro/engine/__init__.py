"""The engine: takes deployments from the queue and runs each; the system classes behind programs.

``EnginePool`` runs tasks in worker processes; ``EngineSettings`` tells it how; ``library_path()`` is
where the packages are that ship with Vetro.
"""

from __future__ import annotations

from pathlib import Path

from vetro.engine.pool import EnginePool
from vetro.engine.services import library_path
from vetro.engine.settings import EngineSettings
from vetro.storage import MigrationSet

MIGRATIONS = MigrationSet("engine", Path(__file__).parent / "migrations")

__all__ = ["MIGRATIONS", "EnginePool", "EngineSettings", "library_path"]
