"""Users, projects, roles, assignments and application credentials in the database."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

from sqlalchemy import Table, and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from vetro.http import BadRequest, Conflict, Forbidden, NotFound
from vetro.identity.tables import (
    DOMAIN_ID,
    GRANTS,
    application_credentials,
    domains,
    projects,
    roles,
    users,
)
from vetro.storage import Database, StoredRow, Transaction

KINDS: dict[str, Table] = {"user": users, "project": projects, "role": roles, "domain": domains}


def new_id() -> str:
    """A random id: 32 lower-case hex digits."""
    return uuid.uuid4().hex


async def find(tx: Transaction, kind: str, id_: str) -> StoredRow:
    """The row with this id. Errors: ``NotFound`` names kind and id."""
    table = KINDS[kind]
    row = (await tx.execute(select(table).where(table.c.id == id_))).first()
    if row is None:
        raise NotFound(f"Could not find {kind}: {id_}.")
    return row


async def find_by_name(
    tx: Transaction, kind: str, name: str, domain_id: str | None = None
) -> StoredRow | None:
    """The row with this name (in a domain), or ``None``.

    Names of domains are case-insensitive, as clients expect (their default is ``default``, the
    domain's name ``Default``); names of users, projects and roles are case-sensitive.
    """
    table = KINDS[kind]
    query = select(table).where(table.c.name == name)
    if domain_id is not None and "domain_id" in table.c:
        query = query.where(table.c.domain_id == domain_id)
    found = (await tx.execute(query)).first()
    if found is None and kind == "domain":
        # Not the database's lower(), which handles only ASCII in SQLite. Domains are few.
        wanted = name.casefold()
        everyone = await tx.execute(select(table).order_by(table.c.id))
        found = next((row for row in everyone if row.name.casefold() == wanted), None)
    return found


async def listing(tx: Transaction, kind: str, filters: Mapping[str, str]) -> list[StoredRow]:
    """The rows of a kind by name; filters are ``name``, ``domain_id`` and ``enabled``."""
    table = KINDS[kind]
    query = select(table).order_by(table.c.name)
    for name, value in filters.items():
        if name not in table.c:
            continue
        if kind == "domain" and name == "name":
            found = await find_by_name(tx, kind, value)
            query = query.where(table.c.id == (found.id if found else None))
        else:
            wanted = value.lower() in ("true", "1", "") if name == "enabled" else value
            query = query.where(table.c[name] == wanted)
    return list(await tx.execute(query))


async def scopes_of(tx: Transaction, user_id: str, kind: str) -> list[StoredRow]:
    """The enabled projects or domains in which a user has a role."""
    table, grants = KINDS[kind], GRANTS[kind]
    held = select(grants.c[f"{kind}_id"]).where(grants.c.user_id == user_id)
    query = select(table).where(table.c.id.in_(held), table.c.enabled).order_by(table.c.name)
    return list(await tx.execute(query))


async def create(tx: Transaction, kind: str, values: dict[str, Any]) -> StoredRow:
    """Insert a row. Errors: ``Conflict`` when the name is taken."""
    table = KINDS[kind]
    if await find_by_name(tx, kind, values["name"], values.get("domain_id")) is not None:
        raise Conflict(f"Conflict occurred: a {kind} named {values['name']} exists already.")
    try:
        await tx.execute(insert(table).values(**values))
    except IntegrityError as error:
        raise BadRequest(f"The {kind} refers to something that does not exist") from error
    return await find(tx, kind, values["id"])


async def change(tx: Transaction, kind: str, id_: str, values: dict[str, Any]) -> StoredRow:
    """Update a row. Errors: ``NotFound``, ``Conflict``."""
    row = await find(tx, kind, id_)
    if "name" in values and values["name"] != row.name:
        domain = getattr(row, "domain_id", None)
        taken = await find_by_name(tx, kind, values["name"], domain)
        if taken is not None and taken.id != id_:
            raise Conflict(f"Conflict occurred: a {kind} named {values['name']} exists already.")
    if values:
        table = KINDS[kind]
        await tx.execute(update(table).where(table.c.id == id_).values(**values))
    return await find(tx, kind, id_)


async def remove(tx: Transaction, kind: str, id_: str) -> None:
    """Delete a row and its dependants. Errors: ``NotFound``, ``Forbidden`` (a domain in use)."""
    await find(tx, kind, id_)
    table = KINDS[kind]
    if kind == "domain":
        for inner in ("user", "project"):
            query = select(KINDS[inner]).where(KINDS[inner].c.domain_id == id_).limit(1)
            if (await tx.execute(query)).first() is not None:
                raise Forbidden(f"The domain still has {inner}s; delete them first.")
    await tx.execute(delete(table).where(table.c.id == id_))


async def roles_of(
    tx: Transaction, user_id: str, scope_id: str, scope: str = "project"
) -> list[dict[str, str]]:
    """The roles a user has in a project (or domain), as ``{id, name}``."""
    table = GRANTS[scope]
    query = (
        select(roles)
        .join(table, table.c.role_id == roles.c.id)
        .where(table.c.user_id == user_id, table.c[f"{scope}_id"] == scope_id)
        .order_by(roles.c.name)
    )
    return [{"id": row.id, "name": row.name} for row in await tx.execute(query)]


async def grant(
    tx: Transaction, user_id: str, scope_id: str, role_id: str, scope: str = "project"
) -> None:
    """Give a user a role in a project (or domain); repeating it changes nothing."""
    for kind, id_ in (("user", user_id), (scope, scope_id), ("role", role_id)):
        await find(tx, kind, id_)
    if not await has_grant(tx, user_id, scope_id, role_id, scope):
        values = {"user_id": user_id, f"{scope}_id": scope_id, "role_id": role_id}
        await tx.execute(insert(GRANTS[scope]).values(**values))


async def has_grant(
    tx: Transaction, user_id: str, scope_id: str, role_id: str, scope: str = "project"
) -> bool:
    """Whether a user has a role in a project (or domain)."""
    query = select(GRANTS[scope]).where(_grant(user_id, scope_id, role_id, scope))
    return (await tx.execute(query)).first() is not None


async def revoke(
    tx: Transaction, user_id: str, scope_id: str, role_id: str, scope: str = "project"
) -> None:
    """Take a role away. Errors: ``NotFound`` when it was not given."""
    statement = delete(GRANTS[scope]).where(_grant(user_id, scope_id, role_id, scope))
    if (await tx.execute(statement)).rowcount == 0:
        raise NotFound("Could not find this role assignment.")


def _grant(user_id: str, scope_id: str, role_id: str, scope: str) -> Any:
    table = GRANTS[scope]
    return and_(
        table.c.user_id == user_id,
        table.c[f"{scope}_id"] == scope_id,
        table.c.role_id == role_id,
    )


async def grants_of(
    tx: Transaction, scope: str, user_id: str | None, scope_id: str | None, role_id: str | None
) -> list[tuple[str, str, str]]:
    """User, project (or domain) and role of the assignments with these ids; ``None``: any."""
    table = GRANTS[scope]
    columns = (table.c.user_id, table.c[f"{scope}_id"], table.c.role_id)
    query = select(*columns)
    for column, wanted in zip(columns, (user_id, scope_id, role_id), strict=True):
        if wanted is not None:
            query = query.where(column == wanted)
    rows = cast("Iterable[tuple[str, str, str]]", await tx.execute(query))
    return [(user, place, role) for user, place, role in rows]


async def names_of_all(tx: Transaction) -> dict[str, dict[str, object]]:
    """The names of users, projects, domains and roles by id, with the domain of users and projects."""
    domain_names = {row.id: row.name for row in await tx.execute(select(domains))}
    names: dict[str, dict[str, object]] = {
        id_: {"name": name} for id_, name in domain_names.items()
    }
    for table in (users, projects):
        for row in await tx.execute(select(table)):
            domain = {"id": row.domain_id, "name": domain_names.get(row.domain_id, "")}
            names[row.id] = {"name": row.name, "domain": domain}
    for row in await tx.execute(select(roles)):
        names[row.id] = {"name": row.name}
    return names


async def credentials_of(tx: Transaction, user_id: str, name: str | None = None) -> list[StoredRow]:
    """A user's application credentials (with this name), by name."""
    table = application_credentials
    query = select(table).where(table.c.user_id == user_id).order_by(table.c.name)
    if name is not None:
        query = query.where(table.c.name == name)
    return list(await tx.execute(query))


async def find_credential(tx: Transaction, user_id: str, id_: str) -> StoredRow:
    """A user's application credential. Errors: ``NotFound``."""
    table = application_credentials
    query = select(table).where(table.c.user_id == user_id, table.c.id == id_)
    row = (await tx.execute(query)).first()
    if row is None:
        raise NotFound(f"Could not find Application Credential: {id_}.")
    return row


async def create_credential(tx: Transaction, values: dict[str, Any]) -> StoredRow:
    """Insert an application credential. Errors: ``Conflict`` when the user has one of this name."""
    if await credentials_of(tx, values["user_id"], values["name"]):
        raise Conflict(f"An application credential named {values['name']} exists already")
    await tx.execute(insert(application_credentials).values(**values))
    return await find_credential(tx, values["user_id"], values["id"])


async def remove_credential(tx: Transaction, user_id: str, id_: str) -> None:
    """Delete a user's application credential. Errors: ``NotFound``."""
    await find_credential(tx, user_id, id_)
    table = application_credentials
    await tx.execute(delete(table).where(table.c.id == id_))


async def ensure_basics(database: Database) -> None:
    """Create the default domain and the standard roles; safe to repeat."""
    async with database.transaction() as tx:
        await tx.exclude("identity/bootstrap")
        if (await tx.execute(select(domains).where(domains.c.id == DOMAIN_ID))).first() is None:
            await tx.execute(
                insert(domains).values(
                    id=DOMAIN_ID, name="Default", enabled=True, description="The default domain"
                )
            )
        for name in ("admin", "member", "reader"):
            if await find_by_name(tx, "role", name) is None:
                await tx.execute(insert(roles).values(id=new_id(), name=name))
