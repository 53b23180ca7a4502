"""Tokens: issuing, validating, revoking; stored hashed, validated from a short-lived cache."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import delete, insert, select

from vetro.http import Principal
from vetro.identity.passwords import digest, new_secret
from vetro.identity.tables import domains, projects, tokens, users
from vetro.storage import Database, Transaction, watch

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
    ) -> str:
        """Issue a token. ``expires_at`` shortens its life (a token from a token)."""
        token = new_secret()
        now = self.database.clock.now()
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
        query = (
            select(
                tokens,
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
            .join(users, users.c.id == tokens.c.user_id)
            .join(_user_domain, _user_domain.c.id == users.c.domain_id)
            .outerjoin(projects, projects.c.id == tokens.c.project_id)
            .outerjoin(_project_domain, _project_domain.c.id == projects.c.domain_id)
            .outerjoin(_scope, _scope.c.id == tokens.c.domain_scope)
            .where(tokens.c.digest == key, tokens.c.expires_at > self.database.clock.now())
        )
        row = (await tx.execute(query)).first()
        if row is None or not row.user_enabled:
            return None
        enclosing = (
            row.project_enabled,
            row.user_domain_enabled,
            row.project_domain_enabled,
            row.domain_scope_enabled,
        )
        # Absent (no such scope) is accepted, disabled is not.
        if False in enclosing:
            return None
        return TokenData(
            user_id=row.user_id,
            user_name=row.user_name,
            user_domain_id=row.user_domain_id,
            project_id=row.project_id,
            project_name=row.project_name,
            domain_scope=row.domain_scope,
            roles=row.roles or [],
            methods=row.methods,
            audit_id=row.audit_id,
            application_credential_id=row.application_credential_id,
            issued_at=row.issued_at,
            expires_at=row.expires_at,
            domain_scope_name=row.domain_scope_name,
            project_domain=(row.project_domain_id, row.project_domain_name)
            if row.project_id
            else None,
            user_domain_name=row.user_domain_name,
        )

    async def revoke(self, token: str) -> bool:
        """End a token; ``False`` when it was not valid."""
        async with self.database.transaction() as tx:
            removed = await tx.execute(delete(tokens).where(tokens.c.digest == digest(token)))
            await self.forget(tx)
        return removed.rowcount == 1

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

        async def forget(_named: set[str] | None) -> None:
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
