"""The compute API's errors (compute-node-api.md §2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vetro.http import Fault


def not_found(message: str) -> Fault:
    """404 ResourceNotFound."""
    return Fault(message, status=404, type_="ResourceNotFound")


def invalid_argument(message: str) -> Fault:
    """409 InvalidArgument."""
    return Fault(message, status=409, type_="InvalidArgument")


def invalid_parameters(errors: Mapping[str, str]) -> Fault:
    """500 InvalidParameters (yes, 500) with an entry for each field."""
    return Fault(
        "Request parameters failed validation",
        status=500,
        type_="InvalidParameters",
        extra={
            "errors": [
                {"field": name, "code": "Invalid", "message": text} for name, text in errors.items()
            ]
        },
    )


def not_running() -> Fault:
    """409 ServerNotRunning."""
    return Fault(
        "Operation attempted on server which is not running", status=409, type_="ServerNotRunning"
    )


def conflict(message: str) -> Fault:
    """409 Conflict: ours, for networks, images and addresses."""
    return Fault(message, status=409, type_="Conflict")


def no_server(message: str, steps: list[Any]) -> Fault:
    """409 NoAllocatableServersError with the steps of the allocation."""
    return Fault(message, status=409, type_="NoAllocatableServersError", extra={"steps": steps})
