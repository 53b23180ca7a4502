"""The HTTP face of the identity service: Keystone v3, as its clients use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar

from vetro.http import Face, Fault, FaultStyle, NotFound, an_object, make_face
from vetro.http.endpoint import Answer, Body, routes, serving
from vetro.http.parameters import STRING, Param, query
from vetro.identity import answers, credentials, endpoints, grants, resources
from vetro.identity.endpoint import Call, Endpoint, Services
from vetro.identity.leaving import ProjectRemoval
from vetro.identity.login import Login

LOGIN_LIMIT = 65_536
_SUBJECT = (Param("X-Subject-Token", STRING, where="header"),)
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


def _fault_body(fault: Fault, _request_id: str) -> object:
    return {
        "error": {
            "code": fault.status,
            "title": fault.title,
            "message": fault.message,
            **fault.extra,
        }
    }


IDENTITY_FAULTS = FaultStyle(_fault_body)


def _version(call: Call) -> dict[str, object]:
    """The version document; its link has the address at which the client reached the service."""
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": f"{call.base}/"}],
        "media-types": [
            {
                "base": "application/json",
                "type": "application/vnd.openstack.identity-v3+json",
            }
        ],
    }


async def versions(call: Call) -> Answer:
    """The versions there are."""
    return Answer(300, {"versions": {"values": [_version(call)]}})


async def version(call: Call) -> dict[str, Any]:
    """This version."""
    return {"version": _version(call)}


async def issue(call: Call) -> Answer:
    """Log in."""
    client = call.request.client
    body = await call.json(limit_bytes=LOGIN_LIMIT)
    token, data = await call.login.log_in(body, client.host if client else "")
    catalog = "nocatalog" not in call.request.query_params
    headers = {"X-Subject-Token": token, "Vary": "X-Auth-Token"}
    return Answer(201, call.login.body(data, catalog=catalog), headers)


async def validate(call: Call) -> Answer:
    """What a token is good for."""
    token, data = await call.subject()
    return Answer(200, call.login.body(data), {"X-Subject-Token": token})


async def revoke(call: Call) -> None:
    """End a token."""
    token, _ = await call.subject()
    if not await call.tokens.revoke(token):
        raise NotFound("Could not find token.")  # another call revoked it meanwhile


async def catalog(call: Call) -> dict[str, Any]:
    """The service catalog."""
    await call.caller()
    return {
        "catalog": call.login.catalog(),
        "links": {"self": str(call.request.url), "next": None},
    }


_TOKENS = "/v3/auth/tokens"
_TOKEN = answers.inside("token", answers.TOKEN_BODY)
ENDPOINTS = [
    Endpoint("list_versions", "GET", "/", versions, status=300, reply=answers.VERSIONS),
    Endpoint("show_version", "GET", "/v3", version,
             reply=answers.inside("version", answers.VERSION)),
    Endpoint("log_in", "POST", _TOKENS, issue, query(STRING, "nocatalog"), takes=Body(_LOGIN),
             status=201, reply=_TOKEN, errors=(401, 403, 404, 429)),
    Endpoint("show_token", "GET", _TOKENS, validate, _SUBJECT, reply=_TOKEN, errors=(404,)),
    Endpoint("revoke_token", "DELETE", _TOKENS, revoke, _SUBJECT, status=204, errors=(404,)),
    Endpoint("show_catalog", "GET", "/v3/auth/catalog", catalog,
             reply=answers.page("catalog", answers.CATALOG)),
    *resources.ENDPOINTS,
    *grants.ENDPOINTS,
    *credentials.ENDPOINTS,
    *endpoints.ENDPOINTS,
]  # fmt: skip


def identity_face(login: Login, prefix: str, removal: ProjectRemoval) -> Face:
    """The identity face at ``prefix``."""
    services = Services(login, removal)

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
        handlers=routes(ENDPOINTS, serving(lambda request: Call(services, request))),
        # Every call but discovery and login checks the token itself: unscoped tokens are valid here.
        authenticator=None,
        faults=IDENTITY_FAULTS,
        lifespan=[revocations],
        security=answers.SECURITY,
    )
