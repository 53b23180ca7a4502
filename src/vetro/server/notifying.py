"""Audit and notifications of one process: made from the settings and connected to the parts that have
something to report."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Generator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vetro.server.errors import StartError
from vetro.server.settings import Settings

if TYPE_CHECKING:
    from vetro.environments import Ending, Existing
    from vetro.http import Audit
    from vetro.messaging import Notifications
    from vetro.storage import Database

_EVENTS = {
    "deployment": "murano.environment.deploy.end",
    "deletion": "murano.environment.delete.end",
    "action": "murano.environment.action.end",
}


class Notifying:
    """``notifications`` is ``None`` unless they are sent to a broker. Errors: ``StartError``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.notifications = self._notifications()

    def _notifications(self) -> Notifications | None:
        from vetro.messaging import Notifications

        given, broker = self.settings.notifications, self.settings.rabbitmq
        if not given.broker:
            return None
        if not broker.host:
            raise StartError(
                "notifications.broker is set, but rabbitmq.host is not", "Set rabbitmq.host, too."
            )
        try:
            return Notifications(broker.reached(), exchange=given.exchange, topic=given.topic)
        except ValueError as error:
            raise StartError(str(error), "Correct the section [rabbitmq].") from error

    def audit(self) -> Audit | None:
        """The audit of the catalog API; ``None`` when it is switched off."""
        from vetro.http import Audit

        if not self.settings.notifications.audit:
            return None
        sinks = () if self.notifications is None else (self.notifications.notify,)
        return Audit("application-catalog", sinks)

    @contextlib.contextmanager
    def of_endings(self) -> Generator[None, None, None]:
        """Notify of ends of deployments for the duration of the block."""
        from vetro.environments import listening_for_endings

        if self.notifications is None:
            yield
            return
        with listening_for_endings(self._ended):
            yield

    def _ended(self, ending: Ending) -> None:
        if self.notifications is not None:
            kind = ending.identity.kind
            self.notifications.notify(_EVENTS[kind], ending_payload(ending, datetime.now(UTC)))

    def works(self, database: Database, owner: str) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs beside the service, by name: sending, and notifying which environments exist."""
        if self.notifications is None:
            return {}
        running: dict[str, Coroutine[object, object, None]] = {
            "notifications": self.notifications.run()
        }
        if self.settings.stats.env_audit_enabled:
            running["environments that exist"] = self._report_existing(database, owner)
        return running

    async def _report_existing(self, database: Database, owner: str) -> None:
        from vetro.environments import ExistingEnvironments

        period = self.settings.stats.env_audit_period
        existing = ExistingEnvironments(database, self._exists, period)
        await (await existing.worker(owner)).work()

    def _exists(self, found: Existing) -> None:
        if self.notifications is not None:
            payload = existing_payload(found, datetime.now(UTC))
            self.notifications.notify("murano.environment.exists", payload)


def ending_payload(ending: Ending, now: datetime) -> dict[str, object]:
    """The content of a notification about a task that ended ``now``."""
    identity = ending.identity
    started = now - timedelta(seconds=ending.seconds)
    return {
        "id": identity.deployment,
        "level": "info" if ending.outcome in ("success", "warnings") else "error",
        "environment_id": identity.environment,
        "environment_name": identity.environment_name,
        "tenant_id": identity.project,
        "user_id": identity.user,
        "outcome": ending.outcome,
        "reason": ending.reason,
        "created_at": None if identity.created is None else identity.created.isoformat(),
        "deleted_at": now.isoformat() if identity.kind == "deletion" else None,
        "launched_at": None,
        "timestamp": now.isoformat(),
        "deployment_started": started.isoformat(),
        "deployment_finished": now.isoformat(),
    }


def existing_payload(found: Existing, now: datetime) -> dict[str, object]:
    """The content of a notification about an environment that exists ``now``."""
    return {
        "id": found.deployment,
        "level": "info",
        "environment_id": found.environment,
        "environment_name": found.name,
        "tenant_id": found.project,
        "created_at": found.created.isoformat(),
        "deleted_at": None,
        "launched_at": None,
        "timestamp": now.isoformat(),
        "deployment_started": found.started.isoformat(),
        "deployment_finished": found.finished.isoformat(),
    }
