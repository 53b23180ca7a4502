"""The caller of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Principal:
    """An authenticated caller, scoped to a project."""

    user_id: str
    user_name: str
    project_id: str
    project_name: str = ""
    domain_id: str = "default"
    roles: frozenset[str] = frozenset()
    token: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether the caller has the role ``admin``."""
        return "admin" in self.roles


class Authenticator(Protocol):
    """Turns a token into a principal."""

    async def authenticate(self, token: str) -> Principal | None:
        """The principal, or ``None`` for an unknown, expired or revoked token."""
        ...
