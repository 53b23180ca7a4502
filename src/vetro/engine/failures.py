"""Failures of the engine itself, and of programs that it has to end from outside."""

from __future__ import annotations


class WorkerDied(Exception):
    """The worker process ended without a result."""


class EngineFailure(Exception):
    """Something broke inside a worker; ``details`` are for the log."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


class OverLimit(Exception):
    """A program went beyond what it may use; the message is for its user, and names the setting."""
