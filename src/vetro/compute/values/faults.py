"""The compute API's errors (compute-node-api.md §2).

All are `vetro.http.Fault`; the face writes them as ``{code, message, errors?}``. Their constructors:

======================== ====== ==================================================================
`invalid_parameters`        500 InvalidParameters: declared parameters that do not validate
`invalid_argument`          409 InvalidArgument: undeclared parameters, malformed uuids, ratios
`not_found`                 404 ResourceNotFound
`not_running`               409 ServerNotRunning
`not_allowed`               403 NotAuthorized
`precondition_failed`       412 PreconditionFailed: ``force`` is missing, the agent is too old
`task_failed`               500 InternalError with the node's words and details
`unavailable`               503 ServiceUnavailable
`conflict`                  409 Conflict: ours, for networks, images and addresses
======================== ====== ==================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from vetro.http import Fault
from vetro.http.parameters import FieldError

#: What validation failures are answered with unless the settings' ``validation_status`` says otherwise.
VALIDATION_STATUS = 500

not_found = partial(Fault, status=404, type_="ResourceNotFound")
invalid_argument = partial(Fault, status=409, type_="InvalidArgument")
not_allowed = partial(Fault, status=403, type_="NotAuthorized")
precondition_failed = partial(Fault, status=412, type_="PreconditionFailed")
unavailable = partial(Fault, status=503, type_="ServiceUnavailable")


def invalid_parameters(
    errors: Mapping[str, str] | Sequence[FieldError], *, status: int = VALIDATION_STATUS
) -> Fault:
    """500 InvalidParameters (yes, 500) with an entry for each field."""
    if isinstance(errors, Mapping):
        errors = [FieldError(name, text) for name, text in errors.items()]
    return Fault(
        "Request parameters failed validation",
        status=status,
        type_="InvalidParameters",
        extra={
            "errors": [
                {"field": one.field, "code": "Invalid", "message": one.message} for one in errors
            ]
        },
    )


def not_running(more: str = "") -> Fault:
    """409 ServerNotRunning; ``more``: what to do, behind the document's words."""
    words = "Operation attempted on server which is not running"
    return Fault(f"{words}: {more}" if more else words, status=409, type_="ServerNotRunning")


def internal_error(message: str, details: Any = None) -> Fault:
    """500 InternalError with words for the client."""
    extra = {"details": details} if details else {}
    return Fault(message, status=500, type_="InternalError", extra=extra)


#: Tasks' restCodes that have a status and code of their own on the service's side (§8).
TASK_CODES = {
    "VmNotFound": (404, "ResourceNotFound"),
    "ImageNotInstalled": (404, "ResourceNotFound"),
    "FileNotFound": (404, "FileNotFound"),
    "PathNotDirectory": (400, "PathNotDirectory"),
    "VmNotRunning": (409, "VmNotRunning"),
    "DockerCopyStoppedContainerNoPlatformSupport": (
        409,
        "DockerCopyStoppedContainerNoPlatformSupport",
    ),
    "FenceOvertaken": (409, "FenceOvertaken"),
}


def task_failed(message: str, details: Any = None, *, codes: Sequence[str] = ()) -> Fault:
    """A synchronous task's failure; the restCodes in ``codes`` get the status they stand for."""
    code: object = details.get("restCode") if isinstance(details, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(code, str) and code in codes and code in TASK_CODES:
        status, type_ = TASK_CODES[code]
        return Fault(message, status=status, type_=type_, extra={"details": details})
    return internal_error(message, details)


def conflict(message: str, **extra: object) -> Fault:
    """409 Conflict: ours, for networks, images and addresses."""
    return Fault(message, status=409, type_="Conflict", extra=extra)
