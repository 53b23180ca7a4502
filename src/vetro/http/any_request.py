"""The type of requests."""

from __future__ import annotations

from typing import Any

from litestar import Request

AnyRequest = Request[Any, Any, Any]
"""A request. No face uses Litestar's types for a request's user, session and application state."""
