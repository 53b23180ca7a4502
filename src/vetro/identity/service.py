"""The identity service: its face, its authenticator, its accounts; or a Keystone in its place."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import select

from vetro.http import Authenticator, Face, NotFound
from vetro.identity import store
from vetro.identity.face import identity_face
from vetro.identity.keystone import keystone_of
from vetro.identity.leaving import ProjectHoldings, ProjectRemoval
from vetro.identity.login import CatalogEndpoint, Login
from vetro.identity.passwords import hash_password
from vetro.identity.settings import IdentitySection
from vetro.identity.tables import DOMAIN_ID, users
from vetro.identity.tokens import TokenStore
from vetro.storage import Database, Transaction


@dataclass(frozen=True)
class AdminCredentials:
    """How the first administrator logs in."""

    user: str
    password: str
    project: str


class Identity:
    """The built-in identity service on a database; with ``settings.url`` a Keystone decides who
    callers are (``keystone``), and nobody can log in here.
    """

    def __init__(
        self,
        database: Database,
        settings: IdentitySection | None = None,
        holdings: ProjectHoldings | None = None,
    ) -> None:
        self.database = database
        self.settings = settings or IdentitySection()
        self.tokens = TokenStore(database, timedelta(hours=self.settings.token_hours))
        self.removal = ProjectRemoval(database, self.tokens, holdings)
        self.keystone = keystone_of(self.settings)

    def face(self, endpoints: Sequence[CatalogEndpoint]) -> Face:
        """The HTTP face; ``endpoints`` make the service catalog."""
        login = Login(self.database, self.tokens, endpoints)
        return identity_face(login, "/identity", self.removal)

    def authenticator(self) -> Authenticator:
        """What other faces check tokens with."""
        return self.tokens if self.keystone is None else self.keystone

    async def bootstrap_admin(self) -> AdminCredentials | None:
        """Make domain, roles, project and user ``admin`` at the first start; later: ``None``."""
        await store.ensure_basics(self.database)
        async with self.database.read() as tx:
            if await _has_users(tx):
                return None
        password = self.settings.admin_password or secrets.token_hex(12)
        hashed = await hash_password(password)
        async with self.database.transaction() as tx:
            # Services that start together on one database: one of them makes the account.
            await tx.exclude("identity/bootstrap")
            if await _has_users(tx):
                return None
            await add_user(tx, "admin", hashed, "admin", ("admin", "member"))
        return AdminCredentials("admin", password, "admin")

    async def user(self, id_: str) -> dict[str, object] | None:
        """What programs may know of a user, with Keystone's keys; ``None`` when there is none."""
        return await self._shown("user", id_, ("id", "name", "email", "default_project_id"))

    async def project(self, id_: str) -> dict[str, object] | None:
        """What programs may know of a project, with Keystone's keys; ``None`` when there is none."""
        return await self._shown("project", id_, ("id", "name", "description"))

    async def _shown(self, kind: str, id_: str, keys: Sequence[str]) -> dict[str, object] | None:
        async with self.database.read() as tx:
            try:
                row = await store.find(tx, kind, id_)
                domain = await store.find(tx, "domain", row.domain_id)
            except NotFound:
                return None
        return {**{key: getattr(row, key) for key in keys}, "domain": domain.name}


async def _has_users(tx: Transaction) -> bool:
    return (await tx.execute(select(users.c.id).limit(1))).first() is not None


async def add_user(
    tx: Transaction, name: str, password_hash: str, project: str, roles: Sequence[str]
) -> tuple[str, str]:
    """Make a user with roles in a project (made when absent); returns their ids."""
    found = await store.find_by_name(tx, "project", project, DOMAIN_ID)
    if found is None:
        found = await store.create(
            tx,
            "project",
            {
                "id": store.new_id(),
                "domain_id": DOMAIN_ID,
                "name": project,
                "description": "",
                "enabled": True,
            },
        )
    user = await store.create(
        tx,
        "user",
        {
            "id": store.new_id(),
            "domain_id": DOMAIN_ID,
            "name": name,
            "enabled": True,
            "password_hash": password_hash,
            "default_project_id": found.id,
        },
    )
    for role in roles:
        row = await store.find_by_name(tx, "role", role)
        if row is None:
            raise LookupError(f"there is no role {role}")
        await store.grant(tx, user.id, found.id, row.id)
    return user.id, found.id
