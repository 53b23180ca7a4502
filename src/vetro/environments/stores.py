"""The stores of the room on one database."""

from __future__ import annotations

from vetro.environments.form_secrets import FormSecrets
from vetro.environments.preparing import EnvironmentSettings
from vetro.environments.sessions import SessionStore
from vetro.environments.static_calls import CallStore
from vetro.environments.store import EnvironmentStore
from vetro.environments.task_values import Delegations
from vetro.environments.tasks import TaskStore
from vetro.storage import Database, Transaction


class Environments:
    """The stores of the room on one database."""

    def __init__(
        self,
        database: Database,
        settings: EnvironmentSettings | None = None,
        delegations: Delegations | None = None,
    ) -> None:
        self.store = EnvironmentStore(database, settings or EnvironmentSettings())
        self.sessions = SessionStore(self.store)
        self.tasks = TaskStore(database, self.sessions, delegations)
        self.calls = CallStore(database)
        self.form_secrets = FormSecrets(database)

    async def read_stored(self, tx: Transaction) -> None:
        """Set the metrics of what the database holds."""
        await self.tasks.read_stored(tx, self.calls.queue)
