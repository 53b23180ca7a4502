"""Credentials, as Keystone's ``POST /v3/auth/tokens`` takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


class Credential(Protocol):
    """Something that Keystone gives a token for."""

    @property
    def who(self) -> str:
        """Whose it is, for error messages; no secret."""
        ...

    def auth(self) -> dict[str, Any]:
        """The value of ``auth`` in the request."""
        ...


@dataclass(frozen=True)
class PasswordCredential:
    """A user's name and password, scoped to a project."""

    user: str
    password: str = field(repr=False)
    project: str
    user_domain: str = "Default"
    project_domain: str = "Default"

    @property
    def who(self) -> str:
        """The user and the domain."""
        return f"user {self.user} of the domain {self.user_domain}"

    def auth(self) -> dict[str, Any]:
        """See `Credential`."""
        user = {
            "name": self.user,
            "domain": {"name": self.user_domain},
            "password": self.password,
        }
        scope = {"project": {"name": self.project, "domain": {"name": self.project_domain}}}
        return {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}


@dataclass(frozen=True)
class ApplicationCredential:
    """An application credential: it carries its user, project and roles."""

    id: str
    secret: str = field(repr=False)

    @property
    def who(self) -> str:
        """The credential's id."""
        return f"application credential {self.id}"

    def auth(self) -> dict[str, Any]:
        """See `Credential`."""
        given = {"id": self.id, "secret": self.secret}
        return {
            "identity": {"methods": ["application_credential"], "application_credential": given}
        }


@dataclass(frozen=True)
class TokenCredential:
    """A token, exchanged for another of the same user in a project."""

    token: str = field(repr=False)
    project_id: str

    @property
    def who(self) -> str:
        """The project."""
        return f"token for the project {self.project_id}"

    def auth(self) -> dict[str, Any]:
        """See `Credential`."""
        return {
            "identity": {"methods": ["token"], "token": {"id": self.token}},
            "scope": {"project": {"id": self.project_id}},
        }
