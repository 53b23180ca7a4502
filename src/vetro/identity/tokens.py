"""Tokens: issuing, validating, revoking; stored hashed, validated from a short-lived cache."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import FromClause, Select, String, delete, insert, literal, select

from vetro.http import Principal
from vetro.identity import store, unstored
from vetro.identity.passwords import digest, new_secret
from vetro.identity.tables import application_credentials, domains, projects, tokens, users
from vetro.storage import Database, StoredRow, Transaction, watch

CACHE_SECONDS = 5.0
CACHE_ENTRIES = 2000
CHANNEL = "identity/revoked"

_user_domain = domains.alias("user_domain")
_project_domain = domains.alias("project_domain")
_scope = domains.alias("domain_scope")


@dataclass(frozen=True)
class TokenData:
    """A valid token, joined with its user and project."""

    user_id: str
    user_name: str
    user_domain_id: str
    project_id: str | None
    project_name: str | None
    domain_scope: str | None
    roles: list[dict[str, str]]
    methods: list[str]
    audit_id: str
    application_credential_id: str | None
    issued_at: datetime
    expires_at: datetime
    domain_scope_name: str | None = None
    project_domain: tuple[str, str] | None = None
    user_domain_name: str = "Default"

    @cached_property
    def role_names(self) -> frozenset[str]:
        """The names of its roles."""
        return frozenset(role["name"] for role in self.roles)

    @property
    def is_admin(self) -> bool:
        """Whether the token carries the role ``admin``."""
        return any(role["name"] == "admin" for role in self.roles)


class TokenStore:
    """Issues and looks up tokens.

    A valid token is cached for ``CACHE_SECONDS``; a revocation takes effect in this process at
    once, in other processes with the notification (``watch``), at the latest after that time.
    """

    def __init__(self, database: Database, lifetime: timedelta) -> None:
        self.database = database
        self.lifetime = lifetime
        self._cache: OrderedDict[str, tuple[float, TokenData]] = OrderedDict()
        """By the digest: until when it may be used, by the monotonic clock."""
        self._generation = 0
        self._ended: dict[str, datetime] = {}
        """Unstored tokens that were revoked, by the digest: until when they would be good."""

    async def issue(
        self,
        tx: Transaction,
        *,
        user_id: str,
        project_id: str | None,
        domain_scope: str | None,
        roles: list[dict[str, str]],
        methods: list[str],
        expires_at: datetime | None = None,
        application_credential_id: str | None = None,
        keep: bool = True,
    ) -> str:
        """Issue a token. ``expires_at`` shortens its life (a token from a token).

        ``keep`` false: in a reading unit, where nothing can be stored (`vetro.identity.unstored`).
        """
        now = self.database.clock.now()
        if not keep:
            assert self.database.keyring is not None
            latest = now + min(self.lifetime, unstored.LIFETIME)
            said = unstored.Unstored(
                user_id=user_id,
                project_id=project_id,
                domain_scope=domain_scope,
                roles=roles,
                methods=methods,
                audit_id=uuid.uuid4().hex[:22],
                application_credential_id=application_credential_id,
                password=await self._password_of(tx, user_id),
                issued_at=now,
                expires_at=min(expires_at, latest) if expires_at else latest,
            )
            return unstored.sealed(self.database.keyring, said)
        token = new_secret()
        latest = now + self.lifetime
        await tx.execute(delete(tokens).where(tokens.c.expires_at < now))
        await tx.execute(
            insert(tokens).values(
                digest=digest(token),
                user_id=user_id,
                project_id=project_id,
                domain_scope=domain_scope,
                roles=roles,
                methods=methods,
                audit_id=uuid.uuid4().hex[:22],
                application_credential_id=application_credential_id,
                issued_at=now,
                expires_at=min(expires_at, latest) if expires_at else latest,
            )
        )
        return token

    async def get(self, token: str) -> TokenData | None:
        """The token's data while it is valid and its user and project are enabled."""
        key = digest(token)
        clock = self.database.clock
        cached = self._cache.get(key)
        if cached is not None and clock.monotonic() < cached[0]:
            return cached[1]
        generation = self._generation
        async with self.database.read() as tx:
            if unstored.is_unstored(token):
                data = await self._open(tx, token, key)
            else:
                data = await self._load(tx, key)
        if data is None:
            self._cache.pop(key, None)
            return None
        if generation != self._generation:
            return data  # a revocation came while this was read: do not cache it
        left = (data.expires_at - clock.now()).total_seconds()
        self._cache[key] = (clock.monotonic() + min(left, CACHE_SECONDS), data)
        self._cache.move_to_end(key)
        if len(self._cache) > CACHE_ENTRIES:
            self._cache.popitem(last=False)
        return data

    async def _load(self, tx: Transaction, key: str) -> TokenData | None:
        query = _with_owner(tokens).where(
            tokens.c.digest == key, tokens.c.expires_at > self.database.clock.now()
        )
        row = (await tx.execute(query)).first()
        if row is None or not _is_enabled(row):
            return None
        return _data(row, row)

    async def _open(self, tx: Transaction, token: str, key: str) -> TokenData | None:
        """What an unstored token is good for now."""
        keyring = self.database.keyring
        said = keyring and unstored.opened(keyring, token, self.database.clock.now())
        if not said or key in self._ended:
            return None
        given = select(
            literal(said.user_id, String).label("user_id"),
            literal(said.project_id, String).label("project_id"),
            literal(said.domain_scope, String).label("domain_scope"),
        ).subquery("token")
        row = (await tx.execute(_with_owner(given))).first()
        if row is None or not _is_enabled(row):
            return None
        if said.password != await self._password_of(tx, said.user_id):
            return None
        if said.application_credential_id is not None:
            credential = application_credentials.c.id
            there = select(credential).where(credential == said.application_credential_id)
            if (await tx.execute(there)).first() is None:
                return None
        held: list[dict[str, str]] = []
        for scope, id_ in (("project", said.project_id), ("domain", said.domain_scope)):
            if id_ is not None:
                held += await store.roles_of(tx, said.user_id, id_, scope)
        if not {role["id"] for role in said.roles} <= {role["id"] for role in held}:
            return None
        return _data(row, said)

    async def _password_of(self, tx: Transaction, user_id: str) -> str:
        query = select(users.c.password_hash).where(users.c.id == user_id)
        return digest((await tx.execute(query)).scalar_one_or_none() or "")

    async def revoke(self, token: str) -> bool:
        """End a token; ``False`` when it was not valid."""
        if unstored.is_unstored(token):
            return await self._revoke_unstored(token)
        async with self.database.transaction() as tx:
            removed = await tx.execute(delete(tokens).where(tokens.c.digest == digest(token)))
            await self.forget(tx)
        return removed.rowcount == 1

    async def _revoke_unstored(self, token: str) -> bool:
        """End a token for the processes that run now; it ends by itself soon."""
        data = await self.get(token)
        if data is None:
            return False
        self._end(digest(token))
        await self.database.notify(CHANNEL, digest(token))
        return True

    def _end(self, key: str) -> None:
        now = self.database.clock.now()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        self._ended[key] = now + unstored.LIFETIME
        self._generation += 1
        self._cache.pop(key, None)

    async def revoke_of_user(self, tx: Transaction, user_id: str) -> None:
        """End all tokens of a user (password changed, disabled, deleted)."""
        await tx.execute(delete(tokens).where(tokens.c.user_id == user_id))
        await self.forget(tx)

    async def revoke_of_credential(self, tx: Transaction, credential_id: str) -> None:
        """End all tokens made with an application credential."""
        await tx.execute(delete(tokens).where(tokens.c.application_credential_id == credential_id))
        await self.forget(tx)

    async def forget(self, tx: Transaction) -> None:
        """Make every process re-read the database for every token, once this is committed."""
        self._generation += 1
        self._cache.clear()
        tx.notify(CHANNEL)

    async def watch(self) -> None:
        """Clear the cache whenever a process has revoked tokens; runs until cancelled."""

        async def forget(named: set[str] | None) -> None:
            for key in named or ():
                if key:
                    self._end(key)
            self._generation += 1
            self._cache.clear()

        await watch(self.database, CHANNEL, forget)

    async def authenticate(self, token: str) -> Principal | None:
        """The ``Authenticator`` of the other faces, for tokens scoped to a project."""
        data = await self.get(token)
        if data is None or data.project_id is None:
            return None
        return Principal(
            user_id=data.user_id,
            user_name=data.user_name,
            project_id=data.project_id,
            project_name=data.project_name or "",
            domain_id=data.user_domain_id,
            roles=data.role_names,
            token=token,
        )


def _with_owner(token: FromClause) -> Select[Any]:
    """Tokens with their users, projects and domains."""
    return (
        select(
            token,
            users.c.name.label("user_name"),
            users.c.domain_id.label("user_domain_id"),
            users.c.enabled.label("user_enabled"),
            projects.c.name.label("project_name"),
            projects.c.enabled.label("project_enabled"),
            projects.c.domain_id.label("project_domain_id"),
            _user_domain.c.name.label("user_domain_name"),
            _user_domain.c.enabled.label("user_domain_enabled"),
            _project_domain.c.name.label("project_domain_name"),
            _project_domain.c.enabled.label("project_domain_enabled"),
            _scope.c.name.label("domain_scope_name"),
            _scope.c.enabled.label("domain_scope_enabled"),
        )
        .join(users, users.c.id == token.c.user_id)
        .join(_user_domain, _user_domain.c.id == users.c.domain_id)
        .outerjoin(projects, projects.c.id == token.c.project_id)
        .outerjoin(_project_domain, _project_domain.c.id == projects.c.domain_id)
        .outerjoin(_scope, _scope.c.id == token.c.domain_scope)
    )


def _is_enabled(row: StoredRow) -> bool:
    """Whether a token's user and all that it is scoped to may be used."""
    enclosing = (
        row.project_enabled,
        row.user_domain_enabled,
        row.project_domain_enabled,
        row.domain_scope_enabled,
    )
    # Absent (no such scope) is accepted, disabled is not.
    return bool(row.user_enabled) and False not in enclosing


def _data(row: StoredRow, token: StoredRow | unstored.Unstored) -> TokenData:
    return TokenData(
        user_id=row.user_id,
        user_name=row.user_name,
        user_domain_id=row.user_domain_id,
        project_id=row.project_id,
        project_name=row.project_name,
        domain_scope=row.domain_scope,
        roles=token.roles or [],
        methods=token.methods,
        audit_id=token.audit_id,
        application_credential_id=token.application_credential_id,
        issued_at=token.issued_at,
        expires_at=token.expires_at,
        domain_scope_name=row.domain_scope_name,
        project_domain=(row.project_domain_id, row.project_domain_name) if row.project_id else None,
        user_domain_name=row.user_domain_name,
    )
