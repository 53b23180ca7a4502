"""The log lines of a process at its start and its end, of which its supervisor is notified."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version
from urllib.parse import urlsplit

import structlog

from vetro.server.settings import Settings
from vetro.server.supervisor import READY, STOPPING, notify_supervisor

log = structlog.get_logger("vetro.server")


class RunLog:
    """Logs when the process starts, and why it stops."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.reason = ""
        self._since = time.monotonic()

    def started(self, **known: object) -> None:
        """Log that the service runs; ``known``: where it listens and what it uses."""
        log.info(
            f"{self.part}_started",
            vetro=version("vetro"),
            python=platform.python_version(),
            **{name: value for name, value in known.items() if value not in ("", None, [])},
        )
        notify_supervisor(READY)

    def stopping(self, reason: str) -> None:
        """Log that the service is going to stop; only the first reason is logged."""
        if not self.reason:
            self.reason = reason
            log.info(f"{self.part}_stopping", reason=reason)
            notify_supervisor(STOPPING)

    def stopped(self) -> None:
        """Log that the service has stopped."""
        log.info(
            f"{self.part}_stopped",
            reason=self.reason or "an error",
            seconds=round(time.monotonic() - self._since, 1),
        )


def database_of(settings: Settings) -> str:
    """The database's URL without the password."""
    kind, _, file = settings.database_url.partition(":///")
    if kind == "sqlite":  # not by `sqlite_file`: a node loads no storage
        return f"sqlite {file}"
    url = urlsplit(settings.database_url)
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme} {url.hostname or ''}{port}{url.path}"
