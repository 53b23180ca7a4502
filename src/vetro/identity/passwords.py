"""Password and secret hashing.

Passwords are few and weak: argon2id, in a thread. Tokens and application credential secrets have
256 random bits: one SHA-256 is enough and can be looked up.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError

# About 30 ms and 19 MiB a login (OWASP's first option): expensive for an attacker, cheap for a
# user.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
# Verified when the user does not exist, so that both answers take equally long.
_DECOY = _HASHER.hash("no such user")


async def hash_password(password: str) -> str:
    """The text to store for a password."""
    return await asyncio.to_thread(_HASHER.hash, password)


async def verify_password(stored: str | None, password: str) -> bool:
    """Whether the password matches; takes equally long without a stored one."""

    def verify() -> bool:
        try:
            return _HASHER.verify(stored or _DECOY, password) and stored is not None
        except (VerifyMismatchError, InvalidHashError):
            return False

    return await asyncio.to_thread(verify)


def new_secret() -> str:
    """256 random bits as text, in hex: a word that begins with ``-`` is an option to commands of clients."""
    return secrets.token_hex(32)


def digest(secret: str) -> str:
    """The stored hash of a random secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
