"""Random ids: UUIDs of version 4 (RFC 9562, section 5.4) as texts."""

import os

_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The hex digit that says the variant, by a random one: two of its four bits are fixed."""


def random_uuid() -> str:
    """A random UUID: 36 characters, lower-case. The same as ``str(uuid.uuid4())`` in 1.5 µs instead of 6.

    A change makes three of them: its request, its audit event, what it creates.
    """
    digits = os.urandom(16).hex()
    return (
        f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
        f"-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:]}"
    )


def random_hex() -> str:
    """A random UUID without its dashes: 32 characters, as ``uuid.uuid4().hex``."""
    digits = os.urandom(16).hex()
    return f"{digits[:12]}4{digits[13:16]}{_VARIANTS[digits[16]]}{digits[17:]}"
