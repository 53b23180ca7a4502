"""Ids of the objects that the API creates (catalog-api.md §3)."""

from __future__ import annotations

from vetro.random_ids import random_hex


def new_id() -> str:
    """A random id: 32 lower-case hex digits."""
    return random_hex()
