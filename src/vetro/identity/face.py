"""The HTTP face of the identity service: Keystone v3, as its clients use it."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, delete, get, patch, post, put
from litestar.params import FromPath
from sqlalchemy import delete as delete_from
from sqlalchemy import insert, select

from vetro.http import (
    BadRequest,
    Conflict,
    Face,
    FaultStyle,
    Forbidden,
    NotFound,
    Unauthorized,
    make_face,
    read_json,
)
from vetro.http.faults import Fault
from vetro.identity import store
from vetro.identity.login import Login, mapping, stamp, text
from vetro.identity.passwords import digest, hash_password, new_secret, verify_password
from vetro.identity.tables import DOMAIN_ID, application_credentials, assignments
from vetro.identity.tokens import TokenData
from vetro.storage import Transaction

AnyRequest = Request[Any, Any, Any]
PLURALS = {"users": "user", "projects": "project", "roles": "role", "domains": "domain"}
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


def _fault_body(fault: Fault, _request_id: str) -> Any:
    return {"error": {"code": fault.status, "title": fault.title, "message": fault.message}}


IDENTITY_FAULTS = FaultStyle(_fault_body)


class Handlers:
    """The handlers of the face, around one ``Login``."""

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
        if not any(role["name"] == "admin" for role in data.roles):
            raise Forbidden("You are not authorized to perform the requested action.")
        return data

    # Discovery

    def version(self, request: AnyRequest) -> dict[str, Any]:
        """The version document; its link is where the client reached us."""
        base = f"{request.url.scheme}://{request.headers.get('host', '')}/identity/v3/"
        return {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": base}],
            "media-types": [
                {
                    "base": "application/json",
                    "type": "application/vnd.openstack.identity-v3+json",
                }
            ],
        }

    # Tokens

    async def issue(self, request: AnyRequest) -> Response[Any]:
        """Log in."""
        client = request.client
        body = await read_json(request, limit_bytes=65_536)
        token, data = await self.login.log_in(body, client.host if client else "")
        catalog = "nocatalog" not in request.query_params
        return Response(
            self.login.body(data, catalog=catalog),
            status_code=201,
            headers={"X-Subject-Token": token, "Vary": "X-Auth-Token"},
        )

    async def subject(self, request: AnyRequest) -> tuple[str, TokenData]:
        """The token the request is about. Errors: 401, 403, 404."""
        caller = await self.caller(request)
        token = request.headers.get("x-subject-token", "")
        data = await self.tokens.get(token)
        if data is None:
            raise NotFound("Could not find token.")
        if data.user_id != caller.user_id and not any(r["name"] == "admin" for r in caller.roles):
            raise Forbidden("You are not authorized to perform the requested action.")
        return token, data

    # Users, projects, roles

    def view(self, request: AnyRequest, kind: str, row: Any) -> dict[str, Any]:
        """A row as the API shows it."""
        plural = next(name for name, one in PLURALS.items() if one == kind)
        base = f"{request.url.scheme}://{request.headers.get('host', '')}/identity/v3"
        value: dict[str, Any] = {
            "id": row.id,
            "name": row.name,
            "links": {"self": f"{base}/{plural}/{row.id}"},
        }
        for name in ("description", "enabled", "domain_id", "email", "default_project_id"):
            if name in row._mapping and (row._mapping[name] is not None or name == "domain_id"):
                value[name] = row._mapping[name]
        if kind == "project":
            value.update(is_domain=False, parent_id=row.domain_id, tags=[], options={})
        if kind == "user":
            value.update(password_expires_at=None, options={})
        if kind == "role":
            value.update(domain_id=None, options={})
        return value

    def values(self, kind: str, body: object) -> dict[str, Any]:
        """The fields of a create or update request, checked."""
        given = mapping(mapping(body, "/").get(kind), f"/{kind}")
        values: dict[str, Any] = {}
        for name, type_ in FIELDS[kind].items():
            if name in given:
                if given[name] is None and name in ("email", "default_project_id"):
                    values[name] = None
                    continue
                if not isinstance(given[name], type_):
                    raise BadRequest(f"/{kind}/{name} must be {type_.__name__}")
                values[name] = given[name]
        if "name" in values and not 0 < len(values["name"].strip()) <= 255:
            raise BadRequest(f"/{kind}/name must have 1 to 255 characters")
        if kind == "project" and len(values.get("name", "")) > 64:
            raise BadRequest("/project/name must have at most 64 characters")
        return values

    async def create(self, request: AnyRequest, kind: str) -> dict[str, Any]:
        """Create one."""
        await self.admin(request)
        body = await read_json(request)
        values = self.values(kind, body)
        if "name" not in values:
            raise BadRequest(f"/{kind}/name is required")
        values["id"] = store.new_id()
        if kind in ("user", "project"):
            values.setdefault("domain_id", DOMAIN_ID)
        if kind in ("user", "project", "domain"):
            values.setdefault("enabled", True)
        if kind in ("project", "domain"):
            values.setdefault("description", "")
        if kind == "user":
            password = mapping(body, "/")["user"].get("password")
            if password is not None:
                values["password_hash"] = await hash_password(text(password, "/user/password"))
        async with self.database.transaction() as tx:
            row = await store.create(tx, kind, values)
        return {kind: self.view(request, kind, row)}

    async def update(self, request: AnyRequest, kind: str, id_: str) -> dict[str, Any]:
        """Change one."""
        await self.admin(request)
        body = await read_json(request)
        values = self.values(kind, body)
        values.pop("domain_id", None)
        if kind == "user":
            password = mapping(body, "/")["user"].get("password")
            if password is not None:
                values["password_hash"] = await hash_password(text(password, "/user/password"))
        async with self.database.transaction() as tx:
            row = await store.change(tx, kind, id_, values)
            if kind == "user" and ("password_hash" in values or values.get("enabled") is False):
                await self.tokens.revoke_of_user(tx, id_)
        self.tokens.forget_cached()
        return {kind: self.view(request, kind, row)}

    async def remove(self, request: AnyRequest, kind: str, id_: str) -> None:
        """Delete one."""
        caller = await self.admin(request)
        if id_ in (caller.user_id, DOMAIN_ID, caller.project_id):
            raise Forbidden(f"This {kind} is in use by the caller")
        async with self.database.transaction() as tx:
            await store.remove(tx, kind, id_)
        self.tokens.forget_cached()

    async def show(self, request: AnyRequest, kind: str, id_: str) -> dict[str, Any]:
        """One; users may see themselves and their project, roles and domains are open to all."""
        caller = await self.caller(request)
        if id_ not in (caller.user_id, caller.project_id) and kind not in ("role", "domain"):
            await self.admin(request)
        async with self.database.read() as tx:
            row = await store.find(tx, kind, id_)
        return {kind: self.view(request, kind, row)}

    async def listing(self, request: AnyRequest, plural: str) -> dict[str, Any]:
        """All, filtered by ``name`` and ``domain_id``."""
        kind = PLURALS[plural]
        if kind in ("user", "project"):
            await self.admin(request)
        else:
            await self.caller(request)
        table = store.KINDS[kind]
        query = select(table).order_by(table.c.name)
        for name in ("name", "domain_id", "enabled"):
            value = request.query_params.get(name)
            if value is not None and name in table.c:
                wanted = value.lower() == "true" if name == "enabled" else value
                query = query.where(table.c[name] == wanted)
        async with self.database.read() as tx:
            rows = [self.view(request, kind, row) for row in await tx.execute(query)]
        return {plural: rows, "links": {"next": None, "previous": None, "self": str(request.url)}}

    async def projects_of(self, request: AnyRequest, user_id: str) -> dict[str, Any]:
        """The projects a user has a role in."""
        table = store.KINDS["project"]
        query = (
            select(table)
            .where(
                table.c.id.in_(
                    select(assignments.c.project_id).where(assignments.c.user_id == user_id)
                )
            )
            .order_by(table.c.name)
        )
        async with self.database.read() as tx:
            rows = [self.view(request, "project", row) for row in await tx.execute(query)]
        return {"projects": rows, "links": {"next": None, "previous": None, "self": ""}}

    # Application credentials

    async def own(self, request: AnyRequest, user_id: str) -> TokenData:
        """The caller, who must be the user the path names."""
        caller = await self.caller(request)
        if caller.user_id != user_id:
            raise Forbidden("You are not authorized to perform the requested action.")
        return caller

    def credential(self, row: Any) -> dict[str, Any]:
        """An application credential as the API shows it, without its secret."""
        return {
            "id": row.id,
            "name": row.name,
            "description": row.description,
            "project_id": row.project_id,
            "roles": row.roles,
            "expires_at": stamp(row.expires_at) if row.expires_at else None,
            "unrestricted": False,
        }

    async def create_credential(self, request: AnyRequest, user_id: str) -> dict[str, Any]:
        """Make one; its secret is shown this once."""
        caller = await self.own(request, user_id)
        if caller.project_id is None or caller.application_credential_id:
            raise Forbidden("An application credential is made with a token scoped to a project")
        body = await read_json(request)
        given = mapping(mapping(body, "/").get("application_credential"), "/application_credential")
        name = text(given.get("name"), "/application_credential/name")
        secret = given.get("secret") or new_secret()
        roles = caller.roles
        if given.get("roles"):
            wanted = {
                str(mapping(role, "role").get("id") or mapping(role, "role").get("name"))
                for role in given["roles"]
            }
            roles = [role for role in caller.roles if wanted & {role["id"], role["name"]}]
            if len(roles) != len(wanted):
                raise BadRequest("An application credential has only roles that its maker has")
        values = {
            "id": store.new_id(),
            "user_id": user_id,
            "project_id": caller.project_id,
            "name": name,
            "description": str(given.get("description") or ""),
            "secret_hash": digest(text(secret, "/application_credential/secret")),
            "roles": roles,
            "expires_at": _moment(given.get("expires_at")),
        }
        table = application_credentials
        async with self.database.transaction() as tx:
            taken = await tx.execute(
                select(table).where(table.c.user_id == user_id, table.c.name == name)
            )
            if taken.first() is not None:
                raise Conflict(f"An application credential named {name} exists already")
            await tx.execute(insert(table).values(**values))
            row = await self.find_credential(tx, user_id, str(values["id"]))
        return {"application_credential": {**self.credential(row), "secret": secret}}

    async def find_credential(self, tx: Transaction, user_id: str, id_: str) -> Any:
        """A user's application credential. Errors: 404."""
        table = application_credentials
        row = (
            await tx.execute(select(table).where(table.c.user_id == user_id, table.c.id == id_))
        ).first()
        if row is None:
            raise NotFound(f"Could not find Application Credential: {id_}.")
        return row


def _moment(value: object) -> Any:
    if value is None:
        return None
    from datetime import UTC, datetime

    try:
        parsed = datetime.fromisoformat(text(value, "expires_at").replace("Z", "+00:00"))
    except ValueError as error:
        raise BadRequest("expires_at must be an ISO 8601 time") from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def identity_face(login: Login, prefix: str) -> Face:
    """The identity face at ``prefix``."""
    h = Handlers(login)

    @get("/")
    async def versions(request: AnyRequest) -> Response[Any]:
        return Response({"versions": {"values": [h.version(request)]}}, status_code=300)

    @get("/v3")
    async def version(request: AnyRequest) -> dict[str, Any]:
        return {"version": h.version(request)}

    @post("/v3/auth/tokens")
    async def issue(request: AnyRequest) -> Response[Any]:
        return await h.issue(request)

    @get("/v3/auth/tokens")
    async def validate(request: AnyRequest) -> Response[Any]:
        token, data = await h.subject(request)
        return Response(h.login.body(data), headers={"X-Subject-Token": token})

    @delete("/v3/auth/tokens")
    async def revoke(request: AnyRequest) -> None:
        token, _ = await h.subject(request)
        await h.tokens.revoke(token)

    @get("/v3/auth/catalog")
    async def catalog(request: AnyRequest) -> dict[str, Any]:
        await h.caller(request)
        return {"catalog": h.login.catalog(), "links": {"self": str(request.url), "next": None}}

    @get("/v3/auth/projects")
    async def my_projects(request: AnyRequest) -> dict[str, Any]:
        return await h.projects_of(request, (await h.caller(request)).user_id)

    @get("/v3/users/{user_id:str}/projects")
    async def user_projects(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        if (await h.caller(request)).user_id != user_id:
            await h.admin(request)
        return await h.projects_of(request, user_id)

    @post("/v3/users/{user_id:str}/password", status_code=204)
    async def change_password(request: AnyRequest, user_id: FromPath[str]) -> None:
        await h.own(request, user_id)
        body = mapping(mapping(await read_json(request), "/").get("user"), "/user")
        old = text(body.get("original_password"), "/user/original_password")
        new = text(body.get("password"), "/user/password")
        async with h.database.read() as tx:
            row = await store.find(tx, "user", user_id)
        if not await verify_password(row.password_hash, old):
            raise Unauthorized("The original password is wrong")
        hashed = await hash_password(new)
        async with h.database.transaction() as tx:
            await store.change(tx, "user", user_id, {"password_hash": hashed})
            await h.tokens.revoke_of_user(tx, user_id)

    role_path = "/v3/projects/{project_id:str}/users/{user_id:str}/roles"

    @get(role_path)
    async def list_grants(
        request: AnyRequest, project_id: FromPath[str], user_id: FromPath[str]
    ) -> dict[str, Any]:
        await h.admin(request)
        async with h.database.read() as tx:
            return {"roles": await store.roles_of(tx, user_id, project_id), "links": {}}

    @put(role_path + "/{role_id:str}", status_code=204)
    async def grant(
        request: AnyRequest,
        project_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await h.admin(request)
        async with h.database.transaction() as tx:
            await store.grant(tx, user_id, project_id, role_id)

    @get(role_path + "/{role_id:str}", status_code=204)
    async def check_grant(
        request: AnyRequest,
        project_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await h.admin(request)
        async with h.database.read() as tx:
            if not await store.has_grant(tx, user_id, project_id, role_id):
                raise NotFound("Could not find this role assignment.")

    @delete(role_path + "/{role_id:str}")
    async def ungrant(
        request: AnyRequest,
        project_id: FromPath[str],
        user_id: FromPath[str],
        role_id: FromPath[str],
    ) -> None:
        await h.admin(request)
        async with h.database.transaction() as tx:
            await store.revoke(tx, user_id, project_id, role_id)
            await h.tokens.revoke_of_user(tx, user_id)

    @get("/v3/role_assignments")
    async def list_assignments(request: AnyRequest) -> dict[str, Any]:
        await h.admin(request)
        query = select(assignments)
        for parameter, column in (
            ("user.id", assignments.c.user_id),
            ("scope.project.id", assignments.c.project_id),
            ("role.id", assignments.c.role_id),
        ):
            value = request.query_params.get(parameter)
            if value is not None:
                query = query.where(column == value)
        async with h.database.read() as tx:
            rows = [
                {
                    "user": {"id": row.user_id},
                    "scope": {"project": {"id": row.project_id}},
                    "role": {"id": row.role_id},
                    "links": {},
                }
                for row in await tx.execute(query)
            ]
        return {"role_assignments": rows, "links": {}}

    credentials_path = "/v3/users/{user_id:str}/application_credentials"

    @post(credentials_path)
    async def create_credential(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        return await h.create_credential(request, user_id)

    @get(credentials_path)
    async def list_credentials(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        await h.own(request, user_id)
        table = application_credentials
        async with h.database.read() as tx:
            found = await tx.execute(select(table).where(table.c.user_id == user_id))
            rows = [h.credential(row) for row in found]
        return {"application_credentials": rows, "links": {}}

    @get(credentials_path + "/{id_:str}")
    async def show_credential(
        request: AnyRequest, user_id: FromPath[str], id_: FromPath[str]
    ) -> dict[str, Any]:
        await h.own(request, user_id)
        async with h.database.read() as tx:
            row = await h.find_credential(tx, user_id, id_)
        return {"application_credential": h.credential(row)}

    @delete(credentials_path + "/{id_:str}")
    async def delete_credential(
        request: AnyRequest, user_id: FromPath[str], id_: FromPath[str]
    ) -> None:
        await h.own(request, user_id)
        table = application_credentials
        async with h.database.transaction() as tx:
            await h.find_credential(tx, user_id, id_)
            await tx.execute(delete_from(table).where(table.c.id == id_))
            # Tokens made with it end with it.
            await h.tokens.revoke_of_credential(tx, id_)

    resources: list[Any] = []
    for plural, kind in PLURALS.items():
        resources += _resource(h, plural, kind)
    return make_face(
        name="identity",
        prefix=prefix,
        title="Vetro identity (Keystone v3)",
        version="3.14",
        handlers=[
            versions,
            version,
            issue,
            validate,
            revoke,
            catalog,
            my_projects,
            user_projects,
            change_password,
            list_grants,
            grant,
            check_grant,
            ungrant,
            list_assignments,
            create_credential,
            list_credentials,
            show_credential,
            delete_credential,
            *resources,
        ],
        # Every handler but discovery and login checks the token itself: unscoped tokens are valid here.
        authenticator=None,
        faults=IDENTITY_FAULTS,
    )


def _resource(h: Handlers, plural: str, kind: str) -> list[Any]:
    """The five calls of a kind of resource."""

    @post(f"/v3/{plural}", name=f"create {kind}")
    async def create(request: AnyRequest) -> dict[str, Any]:
        return await h.create(request, kind)

    @get(f"/v3/{plural}", name=f"list {plural}")
    async def listing(request: AnyRequest) -> dict[str, Any]:
        return await h.listing(request, plural)

    path = f"/v3/{plural}/{{id_:str}}"

    @get(path, name=f"show {kind}")
    async def show(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        return await h.show(request, kind, id_)

    @patch(path, name=f"update {kind}")
    async def update(request: AnyRequest, id_: FromPath[str]) -> dict[str, Any]:
        return await h.update(request, kind, id_)

    @delete(path, name=f"delete {kind}")
    async def remove(request: AnyRequest, id_: FromPath[str]) -> None:
        await h.remove(request, kind, id_)

    return [create, listing, show, update, remove]
