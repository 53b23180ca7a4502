"""Application credentials: a secret of a user for one project, without the user's password."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from litestar import delete, get, post
from litestar.params import FromPath
from sqlalchemy import delete as delete_from
from sqlalchemy import insert, select

from vetro.http import BadRequest, Conflict, Forbidden, NotFound, an_object, describes, read_json
from vetro.identity import store
from vetro.identity.callers import AnyRequest, Callers, links
from vetro.identity.login import mapping, stamp, text
from vetro.identity.passwords import digest, new_secret
from vetro.identity.tables import application_credentials
from vetro.storage import Transaction

_TEXT = {"type": "string"}
_BODY = an_object(
    {
        "application_credential": an_object(
            {
                "name": _TEXT,
                "description": {"type": ["string", "null"]},
                "secret": {"type": ["string", "null"]},
                "expires_at": {"type": ["string", "null"]},
                "roles": {"type": "array", "items": an_object({"id": _TEXT, "name": _TEXT})},
            },
            ["name"],
        )
    },
    ["application_credential"],
)


def view(row: Any) -> dict[str, Any]:
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


async def find(tx: Transaction, user_id: str, id_: str) -> Any:
    """A user's application credential. Errors: 404."""
    table = application_credentials
    query = select(table).where(table.c.user_id == user_id, table.c.id == id_)
    row = (await tx.execute(query)).first()
    if row is None:
        raise NotFound(f"Could not find Application Credential: {id_}.")
    return row


async def create(callers: Callers, request: AnyRequest, user_id: str) -> dict[str, Any]:
    """Create an application credential; its secret is shown only now. Errors: 400, 403, 409."""
    caller = await callers.own(request, user_id)
    if caller.project_id is None or caller.application_credential_id:
        raise Forbidden(
            "An application credential can only be created with a token scoped to a project"
        )
    where = "/application_credential"
    given = mapping(mapping(await read_json(request), "/").get("application_credential"), where)
    name = text(given.get("name"), f"{where}/name")
    if not 0 < len(name.strip()) <= 255 or "\0" in name:
        raise BadRequest(f"{where}/name must have 1 to 255 characters")
    description = text(given.get("description") or "", f"{where}/description")
    if len(description) > 1000 or "\0" in description:
        raise BadRequest(f"{where}/description must have at most 1000 characters")
    secret = text(given.get("secret") or new_secret(), f"{where}/secret")
    values = {
        "id": store.new_id(),
        "user_id": user_id,
        "project_id": caller.project_id,
        "name": name,
        "description": description,
        "secret_hash": digest(secret),
        "roles": _roles(given.get("roles"), caller.roles, where),
        "expires_at": moment(given.get("expires_at"), f"{where}/expires_at"),
    }
    table = application_credentials
    async with callers.database.transaction() as tx:
        query = select(table).where(table.c.user_id == user_id, table.c.name == name)
        if (await tx.execute(query)).first() is not None:
            raise Conflict(f"An application credential named {name} exists already")
        await tx.execute(insert(table).values(**values))
        row = await find(tx, user_id, str(values["id"]))
    return {"application_credential": {**view(row), "secret": secret}}


def _roles(given: object, held: list[dict[str, str]], where: str) -> list[dict[str, str]]:
    if not given:
        return held
    if not isinstance(given, list):
        raise BadRequest(f"Expecting a list at {where}/roles")
    wanted: set[str] = set()
    for role in cast("list[object]", given):
        one = mapping(role, f"{where}/roles")
        wanted.add(text(one.get("id") or one.get("name"), f"{where}/roles"))
    roles = [role for role in held if wanted & {role["id"], role["name"]}]
    if len(roles) != len(wanted):
        raise BadRequest("An application credential can only have roles that its creator has")
    return roles


def moment(value: object, where: str) -> datetime | None:
    """The time in a request, UTC unless it has a zone. Errors: 400 names the member."""
    if value is None:
        return None
    try:
        parsed = datetime.fromisoformat(text(value, where).replace("Z", "+00:00"))
    except ValueError as error:
        raise BadRequest(f"{where} must be an ISO 8601 time") from error
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def credential_handlers(callers: Callers) -> list[Any]:
    """The handlers of application credentials."""
    path = "/v3/users/{user_id:str}/application_credentials"
    table = application_credentials

    @post(path, operation_class=describes(body=_BODY))
    async def create_credential(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        """Make an application credential."""
        return await create(callers, request, user_id)

    @get(path, operation_class=describes(query={"name": _TEXT}))
    async def list_credentials(request: AnyRequest, user_id: FromPath[str]) -> dict[str, Any]:
        """The caller's application credentials."""
        await callers.own(request, user_id)
        query = select(table).where(table.c.user_id == user_id).order_by(table.c.name)
        if "name" in request.query_params:
            query = query.where(table.c.name == request.query_params["name"])
        async with callers.database.read() as tx:
            rows = [view(row) for row in await tx.execute(query)]
        return {"application_credentials": rows, "links": links(request)}

    @get(path + "/{id_:str}")
    async def show_credential(
        request: AnyRequest, user_id: FromPath[str], id_: FromPath[str]
    ) -> dict[str, Any]:
        """One application credential."""
        await callers.own(request, user_id)
        async with callers.database.read() as tx:
            row = await find(tx, user_id, id_)
        return {"application_credential": view(row)}

    @delete(path + "/{id_:str}")
    async def delete_credential(
        request: AnyRequest, user_id: FromPath[str], id_: FromPath[str]
    ) -> None:
        """Delete an application credential; the tokens made with it end."""
        await callers.own(request, user_id)
        async with callers.database.transaction() as tx:
            await find(tx, user_id, id_)
            await tx.execute(delete_from(table).where(table.c.id == id_))
            await callers.tokens.revoke_of_credential(tx, id_)

    return [create_credential, list_credentials, show_credential, delete_credential]
