"""Guest credentials: random-looking tokens that need not be stored.

A token is a keyed digest of the queue's name and a generation number. So every issue for the same
queue returns the same token (a redeployed instance keeps its user data), a new generation makes a
new token, and the mailbox row holds only the token's hash.

The key is stored in the database, sealed with the installation's keys, which are outside of it.
Earlier versions stored a key in clear, where others could have read it: that key serves only to
derive the tokens of guests from those versions; every new token is derived from the new key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from sqlalchemy import select, update

from vetro.messaging import tables
from vetro.messaging.errors import UnknownMailbox
from vetro.storage import Database, Transaction, insert_if_new

_SECRET_NAME = "guests"  # noqa: S105 the name of a row
_FORMER_NAME = (
    "credentials"  # of versions that kept it in clear: only guests they made have its tokens
)


def token_hash(token: str) -> str:
    """The stored hash of a token. Tokens have 256 bits, so a plain digest is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Guest:
    """The guest that a valid credential belongs to."""

    queue: str


class Credentials:
    """Issues and checks the guests' tokens."""

    def __init__(self, db: Database, secret: bytes | None = None) -> None:
        self._db = db
        self._secret = secret
        self._configured = secret is not None

    async def issue(self, queue: str) -> str:
        """The token of a declared queue; the same until it is rotated or revoked."""
        async with self._db.transaction() as tx:
            row = await self._row(tx, queue)
            token = _derive(await self.key(tx), queue, row.generation)
            if row.token_hash != token_hash(token):
                former = await self._former(tx, queue, row)
                if former is not None:
                    return former
                await self._store(tx, queue, row.generation, token_hash(token))
        return token

    async def _former(self, tx: Transaction, queue: str, row: _Row) -> str | None:
        """The valid token of a guest from an earlier version, or ``None``."""
        if row.token_hash is None or self._configured:
            return None
        found = await tx.execute(
            select(tables.secrets.c.value).where(tables.secrets.c.name == _FORMER_NAME)
        )
        key = found.scalar_one_or_none()
        if key is None:
            return None
        token = _derive(bytes(key), queue, row.generation)
        return token if token_hash(token) == row.token_hash else None

    async def rotate(self, queue: str) -> str:
        """A new token; the old one is refused from now on."""
        async with self._db.transaction() as tx:
            row = await self._row(tx, queue)
            token = _derive(await self.key(tx), queue, row.generation + 1)
            await self._store(tx, queue, row.generation + 1, token_hash(token))
        return token

    async def revoke(self, queue: str) -> None:
        """Refuse the queue's token from now on; the next `issue` returns a new one."""
        async with self._db.transaction() as tx:
            await tx.execute(
                update(tables.mailboxes)
                .where(
                    tables.mailboxes.c.queue == queue, tables.mailboxes.c.token_hash.is_not(None)
                )
                .values(token_hash=None, generation=tables.mailboxes.c.generation + 1)
            )

    async def check(self, token: str) -> Guest | None:
        """The guest a token belongs to; None for an unknown or revoked one."""
        async with self._db.read() as tx:
            found = await tx.execute(
                select(tables.mailboxes.c.queue).where(
                    tables.mailboxes.c.token_hash == token_hash(token)
                )
            )
            queue = found.scalar_one_or_none()
        return None if queue is None else Guest(queue)

    async def _row(self, tx: Transaction, queue: str) -> _Row:
        found = await tx.execute(
            select(tables.mailboxes.c.generation, tables.mailboxes.c.token_hash)
            .where(tables.mailboxes.c.queue == queue)
            .with_for_update()
        )
        row = found.first()
        if row is None:
            raise UnknownMailbox(queue)
        return _Row(row.generation, row.token_hash)

    async def _store(self, tx: Transaction, queue: str, generation: int, digest: str) -> None:
        await tx.execute(
            update(tables.mailboxes)
            .where(tables.mailboxes.c.queue == queue)
            .values(generation=generation, token_hash=digest)
        )

    async def key(self, tx: Transaction) -> bytes:
        """The key that tokens are derived from: the configured one, or the one in the database."""
        if self._secret is None:
            fresh = {"name": _SECRET_NAME, "value": secrets.token_bytes(32)}
            await insert_if_new(tx, tables.secrets, fresh)
            found = await tx.execute(
                select(tables.secrets.c.value).where(tables.secrets.c.name == _SECRET_NAME)
            )
            self._secret = bytes(found.scalar_one())
        return self._secret


@dataclass(frozen=True, slots=True)
class _Row:
    generation: int
    token_hash: str | None


def _derive(key: bytes, queue: str, generation: int) -> str:
    text = f"mailbox\n{generation}\n{queue}".encode()
    digest = hmac.new(key, text, hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
