"""Role assignments: the roles of users in projects and domains."""

from __future__ import annotations

from functools import partial
from typing import Any

from vetro.http import NotFound, listed
from vetro.http.parameters import STRING, query
from vetro.identity import answers, store
from vetro.identity.endpoint import Call, Endpoint
from vetro.identity.tables import GRANTS


async def assignments(call: Call) -> dict[str, object]:
    """Role assignments, filtered; with `include_names` also the names."""
    await call.admin()
    given = call.request.query_params
    with_names = "include_names" in given and call.query("include_names").lower() not in (
        "0",
        "false",
    )
    rows: list[dict[str, object]] = []
    async with call.database.read() as tx:
        names = await store.names_of_all(tx) if with_names else {}
        for scope in GRANTS:
            other = "domain" if scope == "project" else "project"
            if f"scope.{other}.id" in given:
                continue
            wanted = (given.get(one) for one in ("user.id", f"scope.{scope}.id", "role.id"))
            for user_id, scope_id, role_id in await store.grants_of(tx, scope, *wanted):
                rows.append(
                    {
                        "user": {"id": user_id, **names.get(user_id, {})},
                        "scope": {scope: {"id": scope_id, **names.get(scope_id, {})}},
                        "role": {"id": role_id, **names.get(role_id, {})},
                        "links": {},
                    }
                )
    return {"role_assignments": rows, "links": call.links}


def _grant(call: Call) -> tuple[str, str, str]:
    """User, project (or domain) and role in the path."""
    return call.path["user_id"], call.path["scope_id"], call.path["role_id"]


async def listing(scope: str, call: Call) -> dict[str, Any]:
    """The roles of a user there."""
    await call.admin()
    async with call.database.read() as tx:
        held = await store.roles_of(tx, call.path["user_id"], call.path["scope_id"], scope)
    return {"roles": held, "links": call.links}


async def grant(scope: str, call: Call) -> None:
    """Give a user a role there; repeating it changes nothing."""
    await call.admin()
    async with call.database.transaction() as tx:
        await store.grant(tx, *_grant(call), scope)


async def check(scope: str, call: Call) -> None:
    """Whether a user has a role there: 204, or 404."""
    await call.admin()
    async with call.database.read() as tx:
        if not await store.has_grant(tx, *_grant(call), scope):
            raise NotFound("Could not find this role assignment.")


async def ungrant(scope: str, call: Call) -> None:
    """Take a role away; the user's tokens end."""
    await call.admin()
    async with call.database.transaction() as tx:
        await store.revoke(tx, *_grant(call), scope)
        # Tokens keep the roles they were issued with.
        await call.tokens.revoke_of_user(tx, call.path["user_id"])


def _grants(scope: str) -> list[Endpoint]:
    all_ = f"/v3/{scope}s/{{scope_id}}/users/{{user_id}}/roles"
    one = all_ + "/{role_id}"
    return [
        Endpoint(f"list_{scope}_grants", "GET", all_, partial(listing, scope),
                 reply=answers.NAMED_ROLES),
        Endpoint(f"grant_{scope}_role", "PUT", one, partial(grant, scope), status=204),
        Endpoint(f"check_{scope}_grant", "GET", one, partial(check, scope), status=204),
        Endpoint(f"revoke_{scope}_role", "DELETE", one, partial(ungrant, scope), status=204),
    ]  # fmt: skip


_FILTERS = (
    "user.id", "scope.project.id", "scope.domain.id", "role.id", "include_names", "effective",
)  # fmt: skip
ENDPOINTS = [
    *(one for scope in GRANTS for one in _grants(scope)),
    Endpoint(
        "list_role_assignments", "GET", "/v3/role_assignments", assignments,
        query(STRING, *_FILTERS), reply=answers.page("role_assignments", listed(answers.ASSIGNMENT)),
    ),
]  # fmt: skip
