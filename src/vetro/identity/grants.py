"""Role assignments: the roles of users in projects and domains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from litestar import delete, get, put
from litestar.params import FromPath
from sqlalchemy import select

from vetro.http import NotFound, describes
from vetro.identity import store
from vetro.identity.callers import AnyRequest, Callers, links
from vetro.identity.tables import GRANTS, domains, projects, roles, users

_TEXT = {"type": "string"}
Rows = Iterable[tuple[str, str, str]]


def grant_handlers(callers: Callers) -> list[Any]:
    """The handlers of role assignments."""
    handlers: list[Any] = []
    for scope in GRANTS:
        handlers += _grants(callers, scope)

    @get(
        "/v3/role_assignments",
        operation_class=describes(
            query={
                "user.id": _TEXT,
                "scope.project.id": _TEXT,
                "scope.domain.id": _TEXT,
                "role.id": _TEXT,
                "include_names": _TEXT,
                "effective": _TEXT,
            }
        ),
    )
    async def listing(request: AnyRequest) -> dict[str, Any]:
        """Role assignments, filtered; with ``include_names`` also the names."""
        await callers.admin(request)
        return {"role_assignments": await _assignments(callers, request), "links": links(request)}

    return [*handlers, listing]


async def _assignments(callers: Callers, request: AnyRequest) -> list[dict[str, Any]]:
    given = request.query_params
    with_names = "include_names" in given and str(given["include_names"]).lower() not in (
        "0",
        "false",
    )
    rows: list[dict[str, Any]] = []
    async with callers.database.read() as tx:
        names = await _names(tx) if with_names else {}
        for scope, table in GRANTS.items():
            other = "domain" if scope == "project" else "project"
            if f"scope.{other}.id" in given:
                continue
            columns = (table.c.user_id, table.c[f"{scope}_id"], table.c.role_id)
            query = select(*columns)
            for parameter, column in zip(
                ("user.id", f"scope.{scope}.id", "role.id"), columns, strict=True
            ):
                if parameter in given:
                    query = query.where(column == given[parameter])
            for user_id, scope_id, role_id in cast("Rows", await tx.execute(query)):
                rows.append(
                    {
                        "user": {"id": user_id, **names.get(user_id, {})},
                        "scope": {scope: {"id": scope_id, **names.get(scope_id, {})}},
                        "role": {"id": role_id, **names.get(role_id, {})},
                        "links": {},
                    }
                )
    return rows


async def _names(tx: Any) -> dict[str, dict[str, Any]]:
    domain_names = {row.id: row.name for row in await tx.execute(select(domains))}
    names: dict[str, dict[str, Any]] = {id_: {"name": name} for id_, name in domain_names.items()}
    for table in (users, projects):
        for row in await tx.execute(select(table)):
            domain = {"id": row.domain_id, "name": domain_names.get(row.domain_id, "")}
            names[row.id] = {"name": row.name, "domain": domain}
    for row in await tx.execute(select(roles)):
        names[row.id] = {"name": row.name}
    return names


def _grants(callers: Callers, scope: str) -> list[Any]:
    base = f"/v3/{scope}s/{{scope_id:str}}/users/{{user_id:str}}/roles"

    @get(base, name=f"list {scope} grants")
    async def listing(
        request: AnyRequest, scope_id: FromPath[str], user_id: FromPath[str]
    ) -> dict[str, Any]:
        await callers.admin(request)
        async with callers.database.read() as tx:
            held = await store.roles_of(tx, user_id, scope_id, scope)
        return {"roles": held, "links": links(request)}

    @put(base + "/{role_id:str}", name=f"grant {scope} role", status_code=204)
    async def grant(
        request: AnyRequest,
        scope_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await callers.admin(request)
        async with callers.database.transaction() as tx:
            await store.grant(tx, user_id, scope_id, role_id, scope)

    @get(base + "/{role_id:str}", name=f"check {scope} grant", status_code=204)
    async def check(
        request: AnyRequest,
        scope_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await callers.admin(request)
        async with callers.database.read() as tx:
            if not await store.has_grant(tx, user_id, scope_id, role_id, scope):
                raise NotFound("Could not find this role assignment.")

    @delete(base + "/{role_id:str}", name=f"revoke {scope} role")
    async def ungrant(
        request: AnyRequest,
        scope_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await callers.admin(request)
        async with callers.database.transaction() as tx:
            await store.revoke(tx, user_id, scope_id, role_id, scope)
            # Tokens keep the roles they were issued with.
            await callers.tokens.revoke_of_user(tx, user_id)

    return [listing, grant, check, ungrant]
