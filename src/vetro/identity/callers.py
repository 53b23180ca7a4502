"""The caller of a request and the caller's rights, for every handler of the identity face."""

from __future__ import annotations

from typing import Any

from litestar import Request

from vetro.http import Forbidden, NotFound, Unauthorized
from vetro.identity.login import Login
from vetro.identity.tokens import TokenData

AnyRequest = Request[Any, Any, Any]
_REFUSED = "You are not authorized to perform the requested action."


def links(request: AnyRequest) -> dict[str, Any]:
    """The links of a list that is never paged."""
    return {"next": None, "previous": None, "self": str(request.url)}


def base_of(request: AnyRequest) -> str:
    """The root of the v3 API as the client reached it."""
    return f"{request.url.scheme}://{request.headers.get('host', '')}/identity/v3"


class Callers:
    """Reads the token of a request. Unscoped tokens are valid here, unlike on the other faces."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.database = login.database
        self.tokens = login.tokens

    async def caller(self, request: AnyRequest) -> TokenData:
        """The token that makes the request. Errors: 401."""
        data = await self.tokens.get(request.headers.get("x-auth-token", ""))
        if data is None:
            raise Unauthorized("The request you have made requires authentication.")
        return data

    async def admin(self, request: AnyRequest) -> TokenData:
        """The caller, who must be an administrator. Errors: 401, 403."""
        data = await self.caller(request)
        if not data.is_admin:
            raise Forbidden(_REFUSED)
        return data

    async def own(self, request: AnyRequest, user_id: str) -> TokenData:
        """The caller, who must be the user in the path. Errors: 401, 403."""
        caller = await self.caller(request)
        if caller.user_id != user_id:
            raise Forbidden(_REFUSED)
        return caller

    async def subject(self, request: AnyRequest) -> tuple[str, TokenData]:
        """The token that the request is about (``X-Subject-Token``). Errors: 401, 403, 404."""
        caller = await self.caller(request)
        token = request.headers.get("x-subject-token", "")
        data = await self.tokens.get(token)
        if data is None:
            raise NotFound("Could not find token.")
        if data.user_id != caller.user_id and not caller.is_admin:
            raise Forbidden(_REFUSED)
        return token, data
