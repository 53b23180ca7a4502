"""Operations."""

from __future__ import annotations

from vetro.compute.calls import Endpoint

ENDPOINTS: list[Endpoint] = []
