"""Failures of the engine itself, not of a program."""

from __future__ import annotations


class WorkerDied(Exception):
    """The worker process ended without a result."""


class EngineFailure(Exception):
    """Something broke inside a worker; ``details`` are for the log."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details
