"""One web socket: RFC 6455 by the websockets library in uvicorn, after `protocol` gave it its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class SocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol, which says when its connection has ended: connections are counted."""

    def __init__(self, *given: Any, on_end: Callable[[], None], **named: Any) -> None:
        super().__init__(*given, **named)
        self._on_end = on_end

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._on_end()
        super().connection_lost(exc)
