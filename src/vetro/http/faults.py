"""Errors for clients, and the bodies they become (catalog-api.md §4, compute-node-api.md §2).

::

    Fault                     any status, with a title and a type
    ├── BadRequest        400
    │   └── MalformedBody 400  the body is not what its content type says
    ├── Unauthorized      401
    ├── Forbidden         403
    ├── NotFound          404
    │   └── NoSuchPath    404  no call has this path
    ├── MethodNotAllowed  405
    ├── NotAcceptable     406
    ├── Conflict          409
    ├── PreconditionFailed 412
    ├── PayloadTooLarge   413
    │   └── PartTooLarge   413  one part of a form
    ├── UnsupportedMediaType 415
    ├── TooManyRequests   429
    ├── InternalError     500
    ├── ServiceUnavailable 503
    ├── GatewayTimeout    504
    └── InsufficientStorage 507
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from vetro.http.media_types import JSON, prefers_html, quality
from vetro.secrecy import without_credentials


class Fault(Exception):
    """An error with an HTTP status; ``message`` is for the client: no secrets, no object model."""

    status = 500

    def __init__(
        self,
        message: str,
        *,
        type_: str | None = None,
        title: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        # Addresses of other services stand in many of them.
        message = without_credentials(message)
        super().__init__(message)
        if status is not None:
            self.status = status
        self.message = message
        self.type = type_ or type(self).__name__
        self.title = title or HTTPStatus(self.status).phrase
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


class BadRequest(Fault):
    """400: the request is malformed or a value is not acceptable."""

    status = 400


class MalformedBody(BadRequest):
    """400: the body does not match its content type."""


class Unauthorized(Fault):
    """401: no token, or an invalid one."""

    status = 401


class Forbidden(Fault):
    """403: the caller is known, but not allowed."""

    status = 403


class NotFound(Fault):
    """404: the object does not exist."""

    status = 404


class NoSuchPath(NotFound):
    """404: no call has this path."""


class MethodNotAllowed(Fault):
    """405: the path exists, the method does not."""

    status = 405


class NotAcceptable(Fault):
    """406: no representation that the client accepts."""

    status = 406


class Conflict(Fault):
    """409: the state or an existing name prevents the change."""

    status = 409


class PreconditionFailed(Fault):
    """412: a condition of the request does not hold."""

    status = 412


class PayloadTooLarge(Fault):
    """413: the body is larger than allowed."""

    status = 413


class PartTooLarge(PayloadTooLarge):
    """413: one part of a form is larger than allowed, whatever the size of the whole."""


class UnsupportedMediaType(Fault):
    """415: the call does not accept the content type."""

    status = 415


class TooManyRequests(Fault):
    """429: too many requests; ``Retry-After`` has the time to wait."""

    status = 429


class InternalError(Fault):
    """500: an error in Vetro; the log has the request id."""

    status = 500


class ServiceUnavailable(Fault):
    """503: temporarily unavailable."""

    status = 503


class GatewayTimeout(Fault):
    """504: a service behind this one did not answer in time."""

    status = 504


class InsufficientStorage(Fault):
    """507: the disk is full; nothing of the request was kept."""

    status = 507


#: Without 500, which stays a plain `Fault` (`vetro.http.translation`).
FAULT_OF_STATUS = {one.status: one for one in Fault.__subclasses__() if one is not InternalError}


@dataclass(frozen=True)
class FaultStyle:
    """How a face writes its error bodies: ``body(fault, request_id)`` is the JSON value."""

    body: Callable[[Fault, str], Any]
    html: bool = False
    #: Plain text with the message for clients that do not accept JSON.
    text: bool = False
    #: The JSON Schema of ``body``; ``None``: the catalog's.
    schema: Mapping[str, Any] | None = None

    def render(self, fault: Fault, request_id: str, accept: str) -> tuple[bytes, str]:
        """The body and its content type."""
        if self.html and prefers_html(accept):
            page = (
                f"<html><head><title>{fault.status} {html.escape(fault.title)}</title></head>"
                f"<body><h1>{fault.status} {html.escape(fault.title)}</h1>"
                f"{html.escape(fault.message)}<br /><br /></body></html>"
            )
            return page.encode(), "text/html; charset=utf-8"
        if self.text and not quality(accept, JSON):
            return fault.message.encode(), "text/plain; charset=utf-8"
        return msgspec.json.encode(self.body(fault, request_id)), "application/json"


def _catalog_body(fault: Fault, request_id: str) -> object:
    return {
        "error": {
            "code": fault.status,
            "title": fault.title,
            "message": fault.message,
            "type": fault.type,
            "request_id": request_id,
            **fault.extra,
        }
    }


def _compute_body(fault: Fault, _request_id: str) -> object:
    code = COMPUTE_CODES.get(fault.type, fault.type)
    return {"code": code, "message": fault.message, **fault.extra}


def _repository_body(fault: Fault, _request_id: str) -> object:
    return {"error": {"code": fault.status, "message": fault.message}}


#: The compute API's names for faults that its handlers did not raise themselves.
COMPUTE_CODES = {
    "BadRequest": "InvalidArgument",
    "MalformedBody": "InvalidContent",
    "NotFound": "ResourceNotFound",
    "NoSuchPath": "ResourceNotFound",
    "Unauthorized": "InvalidCredentials",
    "Forbidden": "NotAuthorized",
    "PayloadTooLarge": "RequestEntityTooLarge",
}

CATALOG_FAULTS = FaultStyle(_catalog_body, html=True)
COMPUTE_FAULTS = FaultStyle(
    _compute_body,
    schema={
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "errors": {"type": "array", "items": {"type": "object"}},
        },
        "required": ["code", "message"],
    },
)
REPOSITORY_FAULTS = FaultStyle(
    _repository_body,
    text=True,
    schema={
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
                "required": ["code", "message"],
            }
        },
        "required": ["error"],
    },
)
