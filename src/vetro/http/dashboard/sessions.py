"""Sessions of browsers: a token, sealed in a cookie with this installation's key.

Nothing is stored here, so a session survives a restart, and every process with the same key knows it.
It ends when its token does.
"""

from __future__ import annotations

import base64
import hashlib
import time
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeVar

import msgspec

COOKIE = "vetro_session"
PATH = "/dashboard"
LINK_SECONDS = 600.0
T = TypeVar("T")


class Session(msgspec.Struct, frozen=True):
    """A browser's session. ``expires``: when its token does, in seconds since 1970."""

    token: str
    expires: float


class Link(msgspec.Struct, frozen=True):
    """A one-time sign-in: the session that it begins, and the token that is spent with its use."""

    session: Session
    once: str
    expires: float


class Sealer:
    """Seals sessions and links with a key; what is sealed as one cannot be opened as the other."""

    def __init__(self, key: str) -> None:
        # Here, not above: what only describes this face needs no cryptography.
        from cryptography.fernet import Fernet

        def derived(purpose: str) -> object:
            digest = hashlib.sha256(f"vetro dashboard {purpose} {key}".encode()).digest()
            return Fernet(base64.urlsafe_b64encode(digest))

        self._keys: dict[type, Any] = {Session: derived("session"), Link: derived("link")}

    def seal(self, value: Session | Link) -> str:
        """A text for a cookie or an address."""
        return self._keys[type(value)].encrypt(msgspec.json.encode(value)).decode()

    def open(self, kind: type[T], text: str) -> T | None:
        """What was sealed; ``None`` when it is over, or was not sealed with this key as this kind."""
        from cryptography.fernet import InvalidToken

        try:
            value: Any = msgspec.json.decode(self._keys[kind].decrypt(text.encode()), type=kind)
        except (InvalidToken, msgspec.MsgspecError, ValueError):
            return None
        return value if value.expires > time.time() else None

    def session_of(self, cookies: str) -> Session | None:
        """The session in a ``Cookie`` header."""
        try:
            found = SimpleCookie(cookies).get(COOKIE)
        except CookieError:
            return None
        return self.open(Session, found.value) if found is not None else None


def cookie(text: str, *, expires: float, secure: bool) -> str:
    """The ``Set-Cookie`` header that begins a session; an empty ``text`` ends it."""
    seconds = max(0, int(expires - time.time())) if text else 0
    parts = [
        f"{COOKIE}={text}",
        f"Path={PATH}",
        f"Max-Age={seconds}",
        "HttpOnly",
        "SameSite=Strict",
    ]
    return "; ".join([*parts, "Secure"] if secure else parts)
