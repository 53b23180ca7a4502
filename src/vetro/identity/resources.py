"""Users, projects, roles and domains, with five calls each."""

from __future__ import annotations

from functools import partial
from typing import Any

from vetro.http import BadRequest, Forbidden, Unauthorized, an_object, listed
from vetro.http.endpoint import Answer, Body
from vetro.http.parameters import STRING, query
from vetro.identity import store
from vetro.identity.answers import HOLDINGS, LEAVING, SHOWN, inside, page
from vetro.identity.endpoint import Call, Endpoint
from vetro.identity.login import mapping, text
from vetro.identity.passwords import hash_password, verify_password
from vetro.identity.tables import DOMAIN_ID
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
FILTERS = ("name", "domain_id", "enabled")
LIMITS = {"name": 255, "description": 1000, "email": 255}


def view(call: Call, kind: str, row: Any) -> dict[str, Any]:
    """A row as the API shows it."""
    plural = next(name for name, one in PLURALS.items() if one == kind)
    value: dict[str, Any] = {
        "id": row.id,
        "name": row.name,
        "links": {"self": f"{call.base}/{plural}/{row.id}"},
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


def checked(kind: str, body: object) -> dict[str, object]:
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


async def _password(kind: str, body: object, values: dict[str, object]) -> None:
    if kind != "user":
        return
    password = mapping(body, "/")["user"].get("password")
    if password is not None:
        values["password_hash"] = await hash_password(text(password, "/user/password"))


async def create(kind: str, call: Call) -> dict[str, object]:
    """Create one; for administrators."""
    await call.admin()
    body = await call.json()
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
    await _password(kind, body, values)
    async with call.database.transaction() as tx:
        row = await store.create(tx, kind, values)
    return {kind: view(call, kind, row)}


async def update(kind: str, call: Call) -> dict[str, Any]:
    """Change one; for administrators. A new password or `enabled: false` ends the user's tokens."""
    await call.admin()
    body, id_ = await call.json(), call.path["id_"]
    values = checked(kind, body)
    values.pop("domain_id", None)
    await _password(kind, body, values)
    async with call.database.transaction() as tx:
        row = await store.change(tx, kind, id_, values)
        if kind == "user" and ("password_hash" in values or values.get("enabled") is False):
            await call.tokens.revoke_of_user(tx, id_)
        await call.tokens.forget(tx)
    return {kind: view(call, kind, row)}


async def _removable(kind: str, call: Call) -> TokenData:
    """The caller, whose own user, project and domain cannot be deleted. Errors: 403."""
    caller = await call.admin()
    if call.path["id_"] in (caller.user_id, DOMAIN_ID, caller.project_id):
        raise Forbidden(f"This {kind} is in use by the caller")
    return caller


async def remove(kind: str, call: Call) -> None:
    """Delete one; for administrators. 403 for the caller's own user or domain."""
    await _removable(kind, call)
    async with call.database.transaction() as tx:
        await store.remove(tx, kind, call.path["id_"])
        await call.tokens.forget(tx)


async def remove_project(call: Call) -> Answer:
    """Delete a project without resources; with `force` also its resources, in the background (202).

    403 for the caller's own project; 409 for one with resources, without `force`.
    """
    caller, id_ = await _removable("project", call), call.path["id_"]
    force = call.query("force").lower() in ("true", "1")
    if await call.service.removal.delete(id_, caller.user_id, caller.user_name, force=force):
        return Answer(204)
    async with call.database.read() as tx:
        row = await store.find(tx, "project", id_)
    return Answer(202, {"project": view(call, "project", row)})


async def holdings(call: Call) -> dict[str, Any]:
    """What a project has in the other services: names, by kind."""
    await call.admin()
    async with call.database.read() as tx:
        await store.find(tx, "project", call.path["id_"])
        found = await call.service.removal.holdings.names(tx, call.path["id_"])
    return {"holdings": {kind: list(names) for kind, names in found.items()}}


async def show(kind: str, call: Call) -> dict[str, Any]:
    """One; users may see themselves and their project, everyone sees roles and domains."""
    caller, id_ = await call.caller(), call.path["id_"]
    if id_ not in (caller.user_id, caller.project_id) and kind not in ("role", "domain"):
        await call.admin()
    async with call.database.read() as tx:
        row = await store.find(tx, kind, id_)
    return {kind: view(call, kind, row)}


async def listing(plural: str, call: Call) -> dict[str, Any]:
    """All, filtered by `name`, `domain_id` and `enabled`; users and projects: for administrators."""
    kind = PLURALS[plural]
    await (call.admin() if kind in ("user", "project") else call.caller())
    given = call.request.query_params
    async with call.database.read() as tx:
        rows = await store.listing(
            tx, kind, {name: given[name] for name in FILTERS if name in given}
        )
    return {plural: [view(call, kind, row) for row in rows], "links": call.links}


async def _scopes_of(plural: str, call: Call, user_id: str) -> dict[str, object]:
    kind = PLURALS[plural]
    async with call.database.read() as tx:
        rows = await store.scopes_of(tx, user_id, kind)
    return {plural: [view(call, kind, row) for row in rows], "links": call.links}


async def own_scopes(plural: str, call: Call) -> dict[str, object]:
    """Those in which the caller has a role."""
    return await _scopes_of(plural, call, (await call.caller()).user_id)


async def projects_of_user(call: Call) -> dict[str, object]:
    """The projects in which a user has a role; for the user and for administrators."""
    if (await call.caller()).user_id != call.path["user_id"]:
        await call.admin()
    return await _scopes_of("projects", call, call.path["user_id"])


async def change_password(call: Call) -> None:
    """Change the caller's password; all tokens of the user become invalid."""
    await call.own()
    user_id = call.path["user_id"]
    body = mapping(mapping(await call.json(), "/").get("user"), "/user")
    old = text(body.get("original_password"), "/user/original_password")
    new = text(body.get("password"), "/user/password")
    async with call.database.read() as tx:
        row = await store.find(tx, "user", user_id)
    if not await verify_password(row.password_hash, old):
        raise Unauthorized("The original password is wrong")
    hashed = await hash_password(new)
    async with call.database.transaction() as tx:
        await store.change(tx, "user", user_id, {"password_hash": hashed})
        await call.tokens.revoke_of_user(tx, user_id)


def _five(plural: str, kind: str) -> list[Endpoint]:
    takes = Body(an_object({kind: an_object(SCHEMAS[kind])}, [kind]))
    all_, one = f"/v3/{plural}", f"/v3/{plural}/{{id_}}"
    shown = inside(kind, SHOWN[plural])
    removal = (
        Endpoint("delete_project", "DELETE", one, remove_project, query(STRING, "force"),
                 reply=LEAVING, errors=(409,))
        if kind == "project"
        else Endpoint(f"delete_{kind}", "DELETE", one, partial(remove, kind), status=204,
                      errors=(409,))
    )  # fmt: skip
    return [
        Endpoint(f"create_{kind}", "POST", all_, partial(create, kind), takes=takes, status=201,
                 reply=shown, errors=(404, 409)),
        Endpoint(f"list_{plural}", "GET", all_, partial(listing, plural), query(STRING, *FILTERS),
                 reply=_page(plural)),
        Endpoint(f"show_{kind}", "GET", one, partial(show, kind), reply=shown),
        Endpoint(f"change_{kind}", "PATCH", one, partial(update, kind), takes=takes, reply=shown,
                 errors=(409,)),
        removal,
    ]  # fmt: skip


def _page(plural: str) -> dict[str, object]:
    return page(plural, listed(SHOWN[plural]))


_PASSWORDS = an_object({"password": _TEXT, "original_password": _TEXT})
ENDPOINTS = [
    *(
        Endpoint(f"list_own_{one}", "GET", f"/v3/auth/{one}", partial(own_scopes, one),
                 reply=_page(one))
        for one in ("projects", "domains")
    ),
    Endpoint("list_projects_of_user", "GET", "/v3/users/{user_id}/projects", projects_of_user,
             reply=_page("projects")),
    Endpoint(
        "change_password", "POST", "/v3/users/{user_id}/password", change_password, status=204,
        takes=Body(an_object({"user": _PASSWORDS}, ["user"])), errors=(409,),
    ),
    Endpoint("list_project_holdings", "GET", "/v3/projects/{id_}/holdings", holdings,
             reply=HOLDINGS),
    *(one for plural, kind in PLURALS.items() for one in _five(plural, kind)),
]  # fmt: skip
