"""Secrets in what people and logs see (§13.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from vetro.json_values import Json

MASK = "*** SANITIZED ***"
SHORTEST = 4
"""Shorter texts under a secret key are not searched for: they occur everywhere."""


def is_secret(key: object) -> bool:
    """Whether values under a key are secret."""
    lowered = str(key).lower()
    return "token" in lowered or "pass" in lowered


def sanitised(value: Json, secret: bool = False) -> Json:
    """A copy with the texts under secret keys masked."""
    if isinstance(value, dict):
        return {
            key: sanitised(item, is_secret(key))
            for key, item in cast("dict[str, Json]", value).items()
        }
    if isinstance(value, list):
        return [sanitised(item, secret) for item in cast("list[Json]", value)]
    return MASK if secret and isinstance(value, str) and value else value


def secret_texts(value: Json, secret: bool = False) -> Iterator[str]:
    """The texts under secret keys."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Json]", value).items():
            yield from secret_texts(item, is_secret(key))
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from secret_texts(item, secret)
    elif secret and isinstance(value, str) and len(value) >= SHORTEST:
        yield value


def scrubbed(text: str, secrets: set[str]) -> str:
    """A text without the secrets, longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, MASK)
    return text
