"""The data of one request beyond its ASGI scope."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from litestar.connection import ASGIConnection

from vetro.http.conventions import Conventions
from vetro.http.faults import Unauthorized
from vetro.http.principal import Principal

SCOPE_KEY = "vetro"
PREFIX_KEY = "vetro_prefix"


@dataclass
class RequestContext:
    """Request id, caller, and the event that is set when the process is closing.

    ``created``: the id of what the call made, as its answer names it; '' otherwise.
    """

    request_id: str
    closing: asyncio.Event
    conventions: Conventions
    principal: Principal | None = None
    created: str = ""


def context_of(connection: ASGIConnection[Any, Any, Any, Any]) -> RequestContext:
    """The context of a request."""
    scope: Any = connection.scope
    return scope[SCOPE_KEY]


def principal_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    """The caller; ``Unauthorized`` on a public path without a token."""
    principal = context_of(connection).principal
    if principal is None:
        raise Unauthorized("Authentication required")
    return principal


def base_url(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """The service's address as this client reached it, without a trailing slash.

    Behind a proxy (and only when proxies are trusted) it is the proxy's.
    """
    scope = cast("dict[str, object]", connection.scope)
    host = connection.headers.get("host", "")
    return f"{scope['scheme']}://{host}{scope.get(PREFIX_KEY, '')}"
