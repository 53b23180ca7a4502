"""Users, projects, roles and domains, with five calls each."""

from __future__ import annotations

from typing import Any

from litestar import Response, delete, get, patch, post
from litestar.params import FromPath
from sqlalchemy import select

from vetro.http import BadRequest, Forbidden, Unauthorized, an_object, describes, read_json
from vetro.identity import store
from vetro.identity.callers import AnyRequest, Callers, base_of, links
from vetro.identity.leaving import ProjectRemoval
from vetro.identity.login import mapping, text
from vetro.identity.passwords import hash_password, verify_password
from vetro.identity.tables import DOMAIN_ID, assignments, domain_assignments
from vetro.identity.tokens import TokenData

PLURALS = {"users": "user", "projects": "project", "roles": "role", "domains": "domain"}
_TEXT, _FLAG = {"type": "string"}, {"type": "boolean"}
_EMPTY = {"type": ["string", "null"]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "user": {
        "name": _TEXT,
        "email": _EMPTY,
        "enabled": _FLAG,
        "default_project_id": _EMPTY,
        "domain_id": _TEXT,
        "description": _EMPTY,
        "password": _EMPTY,
    },
    "project": {"name": _TEXT, "description": _EMPTY, "enabled": _FLAG, "domain_id": _TEXT},
    "role": {"name": _TEXT, "description": _EMPTY},
    "domain": {"name": _TEXT, "description": _EMPTY, "enabled": _FLAG},
}
# The members that have a column; null means the same as an absent member.
FIELDS = {
    "user": {
        "name": str,
        "email": str,
        "enabled": bool,
        "default_project_id": str,
        "domain_id": str,
    },
    "project": {"name": str, "description": str, "enabled": bool, "domain_id": str},
    "role": {"name": str},
    "domain": {"name": str, "description": str, "enabled": bool},
}
LIMITS = {"name": 255, "description": 1000, "email": 255}


def view(request: AnyRequest, kind: str, row: Any) -> dict[str, Any]:
    """A row as the API shows it."""
    plural = next(name for name, one in PLURALS.items() if one == kind)
    value: dict[str, Any] = {
        "id": row.id,
        "name": row.name,
        "links": {"self": f"{base_of(request)}/{plural}/{row.id}"},
        "options": {},
    }
    for name in ("description", "enabled", "domain_id", "email", "default_project_id"):
        if name in row._mapping and (row._mapping[name] is not None or name == "domain_id"):
            value[name] = row._mapping[name]
    if kind == "project":
        value.update(is_domain=False, parent_id=row.domain_id, tags=[])
    if kind == "user":
        value.update(password_expires_at=None)
    if kind == "role":
        value.update(domain_id=None, description=None)
    if kind == "domain":
        value.update(tags=[])
    return value


def checked(kind: str, body: object) -> dict[str, Any]:
    """The columns of a create or update request. Errors: 400 names the member."""
    given = mapping(mapping(body, "/").get(kind), f"/{kind}")
    values: dict[str, Any] = {}
    for name, type_ in FIELDS[kind].items():
        if name not in given:
            continue
        value = given[name]
        if value is None and name in ("email", "default_project_id"):
            values[name] = None
            continue
        if value is None and name == "description":
            value = ""
        if not isinstance(value, type_):
            raise BadRequest(f"/{kind}/{name} must be {type_.__name__}")
        limit = 64 if (kind, name) == ("project", "name") else LIMITS.get(name, 64)
        if isinstance(value, str) and len(value) > limit:
            raise BadRequest(f"/{kind}/{name} must have at most {limit} characters")
        if isinstance(value, str) and "\0" in value:
            raise BadRequest(f"/{kind}/{name} has a character that cannot be stored")
        values[name] = value
    if "name" in values and not values["name"].strip():
        raise BadRequest(f"/{kind}/name must not be blank")
    return values


class Resources:
    """Users, projects, roles and domains in the database."""

    def __init__(self, callers: Callers, removal: ProjectRemoval) -> None:
        self.callers = callers
        self.removal = removal
        self.database = callers.database
        self.tokens = callers.tokens

    async def _password(self, kind: str, body: object, values: dict[str, Any]) -> None:
        if kind != "user":
            return
        password = mapping(body, "/")["user"].get("password")
        if password is not None:
            values["password_hash"] = await hash_password(text(password, "/user/password"))

    async def create(self, request: AnyRequest, kind: str) -> dict[str, Any]:
        """Create one row."""
        await self.callers.admin(request)
        body = await read_json(request)
        values = checked(kind, body)
        if "name" not in values:
            raise BadRequest(f"/{kind}/name is required")
        values["id"] = store.new_id()
        if kind in ("user", "project"):
            values.setdefault("domain_id", DOMAIN_ID)
        if kind in ("user", "project", "domain"):
            values.setdefault("enabled", True)
        if kind in ("project", "domain"):
            values.setdefault("description", "")
        await self._password(kind, body, values)
        async with self.database.transaction() as tx:
            row = await store.create(tx, kind, values)
        return {kind: view(request, kind, row)}

    async def update(self, request: AnyRequest, kind: str, id_: str) -> dict[str, Any]:
        """Change one row."""
        await self.callers.admin(request)
        body = await read_json(request)
        values = checked(kind, body)
        values.pop("domain_id", None)
        await self._password(kind, body, values)
        async with self.database.transaction() as tx:
            row = await store.change(tx, kind, id_, values)
            if kind == "user" and ("password_hash" in values or values.get("enabled") is False):
                await self.tokens.revoke_of_user(tx, id_)
            await self.tokens.forget(tx)
        return {kind: view(request, kind, row)}

    async def remove(self, request: AnyRequest, kind: str, id_: str) -> None:
        """Delete one row. Errors: 403 for the caller's own user, project or domain."""
        await self._removable(request, kind, id_)
        async with self.database.transaction() as tx:
            await store.remove(tx, kind, id_)
            await self.tokens.forget(tx)

    async def _removable(self, request: AnyRequest, kind: str, id_: str) -> TokenData:
        caller = await self.callers.admin(request)
        if id_ in (caller.user_id, DOMAIN_ID, caller.project_id):
            raise Forbidden(f"This {kind} is in use by the caller")
        return caller

    async def remove_project(self, request: AnyRequest, id_: str) -> dict[str, Any] | None:
        """Delete an empty project, or with ``force=true`` also its resources.

        ``None`` when it is deleted, else the project as it is until then. Errors: 403, 404, 409.
        """
        caller = await self._removable(request, "project", id_)
        force = request.query_params.get("force", "").lower() in ("true", "1")
        if await self.removal.delete(id_, caller.user_id, caller.user_name, force=force):
            return None
        async with self.database.read() as tx:
            row = await store.find(tx, "project", id_)
        return {"project": view(request, "project", row)}

    async def holdings(self, request: AnyRequest, id_: str) -> dict[str, Any]:
        """The names of a project's resources, by kind. Errors: 403, 404."""
        await self.callers.admin(request)
        async with self.database.read() as tx:
            await store.find(tx, "project", id_)
            found = await self.removal.holdings.names(tx, id_)
        return {"holdings": {kind: list(names) for kind, names in found.items()}}

    async def show(self, request: AnyRequest, kind: str, id_: str) -> dict[str, Any]:
        """One row; users may see themselves and their project, everyone sees roles and domains."""
        caller = await self.callers.caller(request)
        if id_ not in (caller.user_id, caller.project_id) and kind not in ("role", "domain"):
            await self.callers.admin(request)
        async with self.database.read() as tx:
            row = await store.find(tx, kind, id_)
        return {kind: view(request, kind, row)}

    async def listing(self, request: AnyRequest, plural: str) -> dict[str, Any]:
        """All rows, filtered by ``name``, ``domain_id`` and ``enabled``."""
        kind = PLURALS[plural]
        if kind in ("user", "project"):
            await self.callers.admin(request)
        else:
            await self.callers.caller(request)
        table = store.KINDS[kind]
        query = select(table).order_by(table.c.name)
        for name in ("name", "domain_id", "enabled"):
            value = request.query_params.get(name)
            if value is None or name not in table.c:
                continue
            if kind == "domain" and name == "name":
                async with self.database.read() as tx:
                    found = await store.find_by_name(tx, kind, value)
                query = query.where(table.c.id == (found.id if found else None))
            else:
                wanted = value.lower() in ("true", "1", "") if name == "enabled" else value
                query = query.where(table.c[name] == wanted)
        async with self.database.read() as tx:
            rows = [view(request, kind, row) for row in await tx.execute(query)]
        return {plural: rows, "links": links(request)}

    async def scopes_of(self, request: AnyRequest, user_id: str, plural: str) -> dict[str, Any]:
        """The projects or domains in which a user has a role."""
        kind = PLURALS[plural]
        table = store.KINDS[kind]
        grants = assignments if kind == "project" else domain_assignments
        query = (
            select(table)
            .where(
                table.c.id.in_(select(grants.c[f"{kind}_id"]).where(grants.c.user_id == user_id)),
                table.c.enabled,
            )
            .order_by(table.c.name)
        )
        async with self.database.read() as tx:
            rows = [view(request, kind, row) for row in await tx.execute(query)]
        return {plural: rows, "links": links(request)}

    async def change_password(self, request: AnyRequest, user_id: str) -> None:
        """Change a user's own password; all the user's tokens end."""
        await self.callers.own(request, user_id)
        body = mapping(mapping(await read_json(request), "/").get("user"), "/user")
        old = text(body.get("original_password"), "/user/original_password")
        new = text(body.get("password"), "/user/password")
        async with self.database.read() as tx:
            row = await store.find(tx, "user", user_id)
        if not await verify_password(row.password_hash, old):
            raise Unauthorized("The original password is wrong")
        hashed = await hash_password(new)
        async with self.database.transaction() as tx:
            await store.change(tx, "user", user_id, {"password_hash": hashed})
            await self.tokens.revoke_of_user(tx, user_id)


def resource_handlers(callers: Callers, removal: ProjectRemoval) -> list[Any]:
    """The handlers of users, projects, roles and domains."""
    resources = Resources(callers, removal)

    @get("/v3/auth/projects")
    async def my_projects(request: AnyRequest) -> dict[str, Any]:
        """The projects the caller has a role in."""
        user = (await callers.caller(request)).user_id
        return await resources.scopes_of(request, user, "projects")

    @get("/v3/auth/domains")
    async def my_domains(request: AnyRequest) -> dict[str, Any]:
        """The domains the caller has a role in."""
        user = (await callers.caller(request)).user_id
        return await resources.scopes_of(request, user, "domains")

    @get("/v3/users/{user_id:str}/projects")
    async def user_projects(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        """The projects a user has a role in."""
        if (await callers.caller(request)).user_id != user_id:
            await callers.admin(request)
        return await resources.scopes_of(request, user_id, "projects")

    passwords = an_object({"password": _TEXT, "original_password": _TEXT})

    @post(
        "/v3/users/{user_id:str}/password",
        status_code=204,
        operation_class=describes(body=an_object({"user": passwords}, ["user"])),
    )
    async def change_password(request: AnyRequest, user_id: FromPath[str]) -> None:
        """Change one's own password."""
        await resources.change_password(request, user_id)

    @get("/v3/projects/{id_:str}/holdings")
    async def holdings(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        """What a project has in the other services."""
        return await resources.holdings(request, id_)

    handlers: list[Any] = [my_projects, my_domains, user_projects, change_password, holdings]
    for plural, kind in PLURALS.items():
        handlers += _five(resources, plural, kind)
    return handlers


def _five(resources: Resources, plural: str, kind: str) -> list[Any]:
    takes = describes(body=an_object({kind: an_object(SCHEMAS[kind])}, [kind]))
    filters = describes(query={"name": _TEXT, "domain_id": _TEXT, "enabled": _TEXT})
    path = f"/v3/{plural}/{{id_:str}}"

    @post(f"/v3/{plural}", name=f"create {kind}", operation_class=takes)
    async def create(request: AnyRequest) -> dict[str, Any]:
        return await resources.create(request, kind)

    @get(f"/v3/{plural}", name=f"list {plural}", operation_class=filters)
    async def listing(request: AnyRequest) -> dict[str, Any]:
        return await resources.listing(request, plural)

    @get(path, name=f"show {kind}")
    async def show(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        return await resources.show(request, kind, id_)

    @patch(path, name=f"update {kind}", operation_class=takes)
    async def update(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        return await resources.update(request, kind, id_)

    @delete(path, name=f"delete {kind}")
    async def remove(request: AnyRequest, id_: FromPath[str]) -> None:
        await resources.remove(request, kind, id_)

    forced = describes(query={"force": _TEXT})

    @delete(path, name=f"delete {kind}", status_code=202, operation_class=forced)
    async def remove_project(request: AnyRequest, id_: FromPath[str]) -> Response[Any]:
        """Delete a project; ``force``: with all that it has, in the background (202)."""
        left = await resources.remove_project(request, id_)
        return Response(left, status_code=204 if left is None else 202)

    return [create, listing, show, update, remove_project if kind == "project" else remove]
