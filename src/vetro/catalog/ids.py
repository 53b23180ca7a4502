"""Ids of the objects that the API creates (catalog-api.md §3)."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """A random id: 32 lower-case hex digits."""
    return uuid.uuid4().hex
