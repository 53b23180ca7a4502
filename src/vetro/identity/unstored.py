"""Tokens that nobody stores: while the database takes nothing, people still log in and read.

The disk is full, the database's file is gone, or its server is read-only. A token then says itself what it
is good for, sealed with the keys of the installation, so every process with these keys knows it. It is
good for minutes, and for what its user may at the moment: its user and project are looked up as for any
other token, and it ends with another password, with a role, and with its application credential.
"""

from __future__ import annotations

import binascii
from datetime import datetime, timedelta

import msgspec

from vetro.storage import Keyring, StorageError

LIFETIME = timedelta(minutes=15)
"""How long one is good: what was revoked meanwhile is known to running processes only."""
_MARK = "unstored."
_PURPOSE = "token"


class Unstored(msgspec.Struct, frozen=True):
    """What such a token says. ``password``: a digest of the user's password hash, '' for no password."""

    user_id: str
    project_id: str | None
    domain_scope: str | None
    roles: list[dict[str, str]]
    methods: list[str]
    audit_id: str
    application_credential_id: str | None
    password: str
    issued_at: datetime
    expires_at: datetime


def is_unstored(token: str) -> bool:
    """Whether a token is of this kind."""
    return token.startswith(_MARK)


def sealed(keyring: Keyring, said: Unstored) -> str:
    """The token. Errors: ``StorageError`` without keys."""
    return _MARK + keyring.seal(msgspec.json.encode(said), _PURPOSE)


def opened(keyring: Keyring, token: str, now: datetime) -> Unstored | None:
    """What a token says; ``None`` when it is over, or was not sealed with these keys."""
    try:
        said = msgspec.json.decode(keyring.open(token.removeprefix(_MARK), _PURPOSE), type=Unstored)
    except (StorageError, msgspec.MsgspecError, binascii.Error, ValueError):
        return None
    return said if said.expires_at > now else None
