"""Translates a handler's exception to the fault that the client gets."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import structlog
from litestar.exceptions import HTTPException

from vetro.http.faults import (
    FAULT_OF_STATUS,
    BadRequest,
    Fault,
    InsufficientStorage,
    InternalError,
    MalformedBody,
    NoSuchPath,
    ServiceUnavailable,
)

log = structlog.get_logger("vetro.http")
RETRY_SECONDS = "1"
_OF_DISKS = (errno.EIO, errno.ESTALE)
"""What reading and writing an open file answers when its disk or its server fails."""


def to_fault(error: Exception, request_id: str, path: str) -> Fault:
    """The fault for an exception; unexpected ones are logged and give only the request id."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, HTTPException):
        return _of_framework(error, path)
    if isinstance(error, msgspec.ValidationError):
        return BadRequest(str(error))
    if isinstance(error, msgspec.DecodeError):
        return MalformedBody("Malformed request body")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        log.error("disk_full", request_id=request_id, error=str(error))
        return InsufficientStorage(
            "The service's disk is full, or its store of files; nothing of this request was stored"
        )
    if isinstance(error, OSError) and (error.filename or error.errno in _OF_DISKS):
        return _of_file(error, request_id)
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        log.error("nothing_is_kept", request_id=request_id, error=str(error))
        return ServiceUnavailable(
            "The service's database keeps nothing at the moment, so nothing of this request was stored;"
            " its operator sees why at /readyz"
        )
    if isinstance(error, ConnectionError | TimeoutError):
        # The database or another service failed; storage's errors have these base classes too.
        # Without a traceback: meanwhile every request ends here, and the reason is sufficient.
        log.error(
            "dependency_unavailable",
            request_id=request_id,
            error=f"{type(error).__name__}: {error}",
        )
        return ServiceUnavailable(
            "A service that this call depends on does not answer at the moment; try again",
            headers={"Retry-After": RETRY_SECONDS},
        )
    log.error("request_failed", request_id=request_id, exc_info=error)
    return InternalError(
        f"An unexpected error occurred; the log of the service has details under {request_id}"
    )


def _of_file(error: OSError, request_id: str) -> Fault:
    """A file or directory of the service that is gone, not ours, read-only or on a disk with errors."""
    # With the traceback: a mistake in the service may end here as well.
    log.error("files_unusable", request_id=request_id, exc_info=error)
    named = error.filename
    where = f" in {Path(named).parent.name}" if isinstance(named, str) else ""
    return ServiceUnavailable(
        f"The service cannot use its files{where} ({error.strerror}), so nothing of this request was stored;"
        " its operator sees why at /readyz"
    )


def _of_framework(error: HTTPException, path: str) -> Fault:
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return NoSuchPath(f"{path} does not exist", headers=headers)
    message = error.detail or ""
    if error.status_code == 405:
        message = f"{path} does not have this method"
        allowed = {one.strip() for one in headers.pop("Allow", headers.pop("allow", "")).split(",")}
        if "GET" in allowed:
            allowed.add("HEAD")
        headers["Allow"] = ", ".join(sorted(allowed - {""}))
    extra = getattr(error, "extra", None)
    if extra and error.status_code == 400:
        message = f"{message}: {extra}"
    kind = FAULT_OF_STATUS.get(error.status_code)
    if kind is not None:
        return kind(message, headers=headers)
    return Fault(message, status=error.status_code, headers=headers)
