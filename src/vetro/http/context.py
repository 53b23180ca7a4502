"""What belongs to one request beyond its ASGI scope."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from litestar.connection import ASGIConnection

from vetro.http.faults import Unauthorized
from vetro.http.principal import Principal

SCOPE_KEY = "vetro"


@dataclass
class RequestContext:
    """Request id, caller, and the event that says the process is closing."""

    request_id: str
    closing: asyncio.Event
    principal: Principal | None = None
    route: str | None = None


def context_of(connection: ASGIConnection[Any, Any, Any, Any]) -> RequestContext:
    """The context of a request."""
    return cast("RequestContext", cast("Any", connection.scope)[SCOPE_KEY])


def principal_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    """The caller; ``Unauthorized`` on a path that is open to everybody."""
    principal = context_of(connection).principal
    if principal is None:
        raise Unauthorized("Authentication required")
    return principal
