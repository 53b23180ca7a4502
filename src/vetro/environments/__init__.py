"""Environments, sessions, the services tree, deployments, actions, tasks (catalog-api.md §5, §8).

``Environments`` holds the stores: ``.store`` for the API, ``.tasks`` and ``.calls`` for engines. ``face``
serves them, together with the catalog's packages, as the ``/v1`` API.
"""

from __future__ import annotations

from pathlib import Path

from vetro.environments.face import face
from vetro.environments.leaving import destroy_of_project, names_of_project
from vetro.environments.pruning import HistoryPruning, HistorySettings
from vetro.environments.static_calls import CallAnswer, CallStore, EngineCall
from vetro.environments.store import EnvironmentSettings, EnvironmentStore
from vetro.environments.tables import metadata
from vetro.environments.task_values import EngineTask, TaskResult, shortened, task_channel
from vetro.environments.tasks import TaskStore
from vetro.environments.upgrades import make_moves
from vetro.environments.uses import EnvironmentUses, pinned_packages
from vetro.storage import Database, MigrationSet, Transaction

MIGRATIONS = MigrationSet("environments", Path(__file__).parent / "migrations", metadata)


class Environments:
    """The stores of the room on one database."""

    def __init__(self, database: Database, settings: EnvironmentSettings | None = None) -> None:
        self.store = EnvironmentStore(database, settings or EnvironmentSettings())
        self.tasks = TaskStore(database, self.store)
        self.calls = CallStore(database)

    async def read_stored(self, tx: Transaction) -> None:
        """Set the metrics of what the database holds."""
        await self.tasks.read_stored(tx, self.calls.queue)


__all__ = [
    "MIGRATIONS",
    "CallAnswer",
    "CallStore",
    "EngineCall",
    "EngineTask",
    "EnvironmentSettings",
    "EnvironmentUses",
    "Environments",
    "HistoryPruning",
    "HistorySettings",
    "TaskResult",
    "TaskStore",
    "destroy_of_project",
    "face",
    "make_moves",
    "names_of_project",
    "pinned_packages",
    "shortened",
    "task_channel",
]
