"""The HTTP face of the identity service: Keystone v3, as its clients use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Response, delete, get, post

from vetro.http import (
    Face,
    Fault,
    FaultStyle,
    NotFound,
    an_object,
    describes,
    make_face,
    read_json,
)
from vetro.identity import answers
from vetro.identity.callers import AnyRequest, Callers, base_of
from vetro.identity.credentials import credential_handlers
from vetro.identity.endpoints import endpoint_handlers
from vetro.identity.grants import grant_handlers
from vetro.identity.leaving import ProjectRemoval
from vetro.identity.login import Login
from vetro.identity.resources import resource_handlers

LOGIN_LIMIT = 65_536
_SUBJECT = describes(headers={"X-Subject-Token": {"type": "string"}})
_LOGIN = an_object(
    {
        "auth": an_object(
            {
                "identity": an_object(
                    {
                        "methods": {"type": "array", "items": {"type": "string"}},
                        "password": {"type": "object"},
                        "token": {"type": "object"},
                        "application_credential": {"type": "object"},
                    },
                    ["methods"],
                ),
                "scope": {"type": ["object", "string", "null"]},
            },
            ["identity"],
        )
    },
    ["auth"],
)


def _fault_body(fault: Fault, _request_id: str) -> Any:
    return {
        "error": {
            "code": fault.status,
            "title": fault.title,
            "message": fault.message,
            **fault.extra,
        }
    }


IDENTITY_FAULTS = FaultStyle(_fault_body)


def _version(request: AnyRequest) -> dict[str, Any]:
    """The version document; its link has the address at which the client reached the service."""
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{base_of(request)}/"}],
        "media-types": [
            {
                "base": "application/json",
                "type": "application/vnd.openstack.identity-v3+json",
            }
        ],
    }


def token_handlers(callers: Callers) -> list[Any]:
    """The handlers of discovery, tokens and the catalog."""
    login = callers.login

    @get("/")
    async def versions(request: AnyRequest) -> Response[Any]:
        """The versions there are."""
        return Response({"versions": {"values": [_version(request)]}}, status_code=300)

    @get("/v3")
    async def version(request: AnyRequest) -> dict[str, Any]:
        """This version."""
        return {"version": _version(request)}

    @post(
        "/v3/auth/tokens",
        operation_class=describes(body=_LOGIN, query={"nocatalog": {"type": "string"}}),
    )
    async def issue(request: AnyRequest) -> Response[Any]:
        """Log in."""
        client = request.client
        body = await read_json(request, limit_bytes=LOGIN_LIMIT)
        token, data = await login.log_in(body, client.host if client else "")
        catalog = "nocatalog" not in request.query_params
        return Response(
            login.body(data, catalog=catalog),
            status_code=201,
            headers={"X-Subject-Token": token, "Vary": "X-Auth-Token"},
        )

    @get("/v3/auth/tokens", operation_class=_SUBJECT)
    async def validate(request: AnyRequest) -> Response[Any]:
        """What a token is good for."""
        token, data = await callers.subject(request)
        return Response(login.body(data), headers={"X-Subject-Token": token})

    @delete("/v3/auth/tokens", operation_class=_SUBJECT)
    async def revoke(request: AnyRequest) -> None:
        """End a token."""
        token, _ = await callers.subject(request)
        if not await callers.tokens.revoke(token):
            raise NotFound("Could not find token.")  # somebody else ended it meanwhile

    @get("/v3/auth/catalog")
    async def catalog(request: AnyRequest) -> dict[str, Any]:
        """The service catalog."""
        await callers.caller(request)
        return {"catalog": login.catalog(), "links": {"self": str(request.url), "next": None}}

    return [versions, version, issue, validate, revoke, catalog]


def identity_face(login: Login, prefix: str, removal: ProjectRemoval) -> Face:
    """The identity face at ``prefix``."""
    callers = Callers(login)

    @asynccontextmanager
    async def revocations(_app: Litestar) -> AsyncGenerator[None, None]:
        """Forget cached tokens as soon as another process revokes one."""
        watching = asyncio.create_task(login.tokens.watch(), name="revoked tokens")
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    return make_face(
        name="identity",
        prefix=prefix,
        title="Vetro identity (Keystone v3)",
        version="3.14",
        handlers=[
            *token_handlers(callers),
            *resource_handlers(callers, removal),
            *grant_handlers(callers),
            *credential_handlers(callers),
            *endpoint_handlers(callers),
        ],
        # Every handler but discovery and login checks the token itself: unscoped tokens are valid here.
        authenticator=None,
        faults=IDENTITY_FAULTS,
        lifespan=[revocations],
        replies=answers.REPLIES,
        security=answers.SECURITY,
    )
