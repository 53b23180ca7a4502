"""Application credentials: a secret of a user for one project, without the user's password."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from vetro.http import BadRequest, Forbidden, an_object
from vetro.http.endpoint import Body
from vetro.http.parameters import STRING, query
from vetro.identity import answers, store
from vetro.identity.endpoint import Call, Endpoint
from vetro.identity.login import mapping, stamp, text
from vetro.identity.passwords import digest, new_secret

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


async def create(call: Call) -> dict[str, object]:
    """Create an application credential; its secret is shown only now."""
    caller = await call.own()
    if caller.project_id is None or caller.application_credential_id:
        raise Forbidden(
            "An application credential can only be created with a token scoped to a project"
        )
    where = "/application_credential"
    given = mapping(mapping(await call.json(), "/").get("application_credential"), where)
    name = text(given.get("name"), f"{where}/name")
    if not 0 < len(name.strip()) <= 255 or "\0" in name:
        raise BadRequest(f"{where}/name must have 1 to 255 characters")
    description = text(given.get("description") or "", f"{where}/description")
    if len(description) > 1000 or "\0" in description:
        raise BadRequest(f"{where}/description must have at most 1000 characters")
    secret = text(given.get("secret") or new_secret(), f"{where}/secret")
    values = {
        "id": store.new_id(),
        "user_id": caller.user_id,
        "project_id": caller.project_id,
        "name": name,
        "description": description,
        "secret_hash": digest(secret),
        "roles": _roles(given.get("roles"), caller.roles, where),
        "expires_at": moment(given.get("expires_at"), f"{where}/expires_at"),
    }
    async with call.database.transaction() as tx:
        row = await store.create_credential(tx, values)
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


async def listing(call: Call) -> dict[str, Any]:
    """The caller's application credentials."""
    caller = await call.own()
    async with call.database.read() as tx:
        name = call.request.query_params.get("name")
        rows = await store.credentials_of(tx, caller.user_id, name)
    return {"application_credentials": [view(row) for row in rows], "links": call.links}


async def show(call: Call) -> dict[str, Any]:
    """One application credential."""
    caller = await call.own()
    async with call.database.read() as tx:
        row = await store.find_credential(tx, caller.user_id, call.path["id_"])
    return {"application_credential": view(row)}


async def remove(call: Call) -> None:
    """Delete an application credential; the tokens made with it end."""
    caller, id_ = await call.own(), call.path["id_"]
    async with call.database.transaction() as tx:
        await store.remove_credential(tx, caller.user_id, id_)
        await call.tokens.revoke_of_credential(tx, id_)


_ALL = "/v3/users/{user_id}/application_credentials"
_ONE = _ALL + "/{id_}"
ENDPOINTS = [
    Endpoint("create_credential", "POST", _ALL, create, takes=Body(_BODY), status=201,
             reply=answers.ONE_CREDENTIAL, errors=(409,)),
    Endpoint("list_credentials", "GET", _ALL, listing, query(STRING, "name"),
             reply=answers.CREDENTIALS),
    Endpoint("show_credential", "GET", _ONE, show, reply=answers.ONE_CREDENTIAL),
    Endpoint("delete_credential", "DELETE", _ONE, remove, status=204),
]  # fmt: skip
