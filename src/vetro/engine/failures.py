"""Failures of the engine itself, and of programs that it stops from outside."""

from __future__ import annotations

import errno


class WorkerDied(Exception):
    """The worker process ended without a result."""


class EngineFailure(Exception):
    """An error inside a worker; ``details`` are for the log."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


class OverLimit(Exception):
    """A program exceeded a limit; the message is for its user and names the setting."""


def is_full(error: BaseException) -> bool:
    """Whether an error, or one of its causes, says that a disk is full."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def disk_is_full(error: BaseException) -> str:
    """The message about such an error for the user."""
    return f"The service's disk is full ({error}): free space there, then deploy again"
