"""One request of the identity face: the services, the caller and the caller's rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vetro.http import Forbidden, NotFound, Unauthorized
from vetro.http import endpoint as http
from vetro.identity.leaving import ProjectRemoval
from vetro.identity.login import Login
from vetro.identity.tokens import TokenData, TokenStore
from vetro.storage import Database

_REFUSED = "You are not authorized to perform the requested action."


@dataclass(frozen=True)
class Services:
    """What the calls work with."""

    login: Login
    removal: ProjectRemoval


@dataclass
class Call(http.Call[Services]):
    """A request. Unscoped tokens are valid here, unlike on the other faces."""

    @property
    def login(self) -> Login:
        """Logins and the service catalog."""
        return self.service.login

    @property
    def database(self) -> Database:
        """The database of the identity service."""
        return self.login.database

    @property
    def tokens(self) -> TokenStore:
        """The issued tokens."""
        return self.login.tokens

    @property
    def base(self) -> str:
        """The root of the v3 API as the client reached it."""
        return f"{self.request.url.scheme}://{self.header('host')}/identity/v3"

    @property
    def links(self) -> dict[str, Any]:
        """The links of a list that is never paged."""
        return {"next": None, "previous": None, "self": str(self.request.url)}

    async def caller(self) -> TokenData:
        """The token that makes the request. Errors: 401."""
        data = await self.tokens.get(self.header("x-auth-token"))
        if data is None:
            raise Unauthorized("The request you have made requires authentication.")
        return data

    async def admin(self) -> TokenData:
        """The caller, who must be an administrator. Errors: 401, 403."""
        data = await self.caller()
        if not data.is_admin:
            raise Forbidden(_REFUSED)
        return data

    async def own(self) -> TokenData:
        """The caller, who must be the user in the path. Errors: 401, 403."""
        caller = await self.caller()
        if caller.user_id != self.path["user_id"]:
            raise Forbidden(_REFUSED)
        return caller

    async def subject(self) -> tuple[str, TokenData]:
        """The token that the request is about (``X-Subject-Token``). Errors: 401, 403, 404."""
        caller = await self.caller()
        token = self.header("x-subject-token")
        data = await self.tokens.get(token)
        if data is None:
            raise NotFound("Could not find token.")
        if data.user_id != caller.user_id and not caller.is_admin:
            raise Forbidden(_REFUSED)
        return token, data


Endpoint = http.Endpoint[Call]
