"""Headers in ASGI's form, with names in lower case, and the message about too many."""

from __future__ import annotations

Headers = list[tuple[bytes, bytes]]


def header(headers: Headers, name: bytes) -> str:
    """The first header of this name, or ''."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return ""


def too_many_headers(most: int) -> str:
    """The message for a client whose headers are longer than ``most`` bytes together."""
    return f"The headers of a request can have at most {most} bytes together"
