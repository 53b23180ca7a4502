"""Environment templates: applications kept aside, from which environments are made (catalog-api.md §6.1).

A template belongs to a project. A public one can be read, cloned and used by every project; only
its own project (or an administrator) changes or deletes it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

from sqlalchemy import and_, delete, insert, or_, select, update

from vetro.catalog import api_time
from vetro.environments.model import (
    check_model,
    check_services,
    delete_path,
    get_path,
    header,
    new_id,
    put_path,
)
from vetro.environments.paging import ALL, Listing, Order, page
from vetro.environments.sessions import SessionStore
from vetro.environments.store import checked_name
from vetro.environments.tables import templates
from vetro.http import (
    UNCONDITIONAL,
    BadRequest,
    Condition,
    Conflict,
    Forbidden,
    NotFound,
    Principal,
)
from vetro.storage import StoredRow, Transaction

WITHOUT_SERVICES = [column for column in templates.c if column.name != "services"]


def _body(body: object, what: str = "An environment template") -> dict[str, Any]:
    if not isinstance(body, dict) or "name" not in body:
        raise BadRequest(f"{what} must be an object with a name")
    return cast("dict[str, object]", body)


def _flag(given: dict[str, object]) -> bool:
    value = given.get("is_public", False)
    if not isinstance(value, bool):
        raise BadRequest("is_public must be true or false")
    return value


def _text(given: dict[str, object]) -> str:
    value = given.get("description_text", "")
    if not isinstance(value, str):
        raise BadRequest("description_text must be text")
    return value


def checked_components(value: object) -> list[object]:
    """The components of a template, with ids. Errors: 400."""
    found = cast("list[object]", [] if value is None else value)
    check_services(found)
    check_model({"services": found})
    return found


class TemplateStore:
    """Environment templates of all projects."""

    def __init__(self, sessions: SessionStore) -> None:
        self.sessions = sessions
        self.store = sessions.store
        self.database = sessions.database

    def view(self, row: StoredRow) -> dict[str, Any]:
        """The column fields of a template."""
        return {
            "id": row.id,
            "name": row.name,
            "tenant_id": row.tenant_id,
            "description_text": row.description_text,
            "version": row.version,
            "is_public": row.is_public,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
        }

    async def _row(
        self, tx: Transaction, principal: Principal, id_: str, *, own: bool, lock: bool = False
    ) -> StoredRow:
        """A template that the caller may read, or with ``own`` change. Errors: 403, 404."""
        query = select(templates).where(templates.c.id == id_)
        row = (await tx.execute(query.with_for_update() if lock else query)).first()
        if row is None:
            raise NotFound(f"Environment template {id_} does not exist", type_="TemplateNotFound")
        mine = row.tenant_id == principal.project_id or principal.is_admin
        if not mine and (own or not row.is_public):
            raise Forbidden(f"Environment template {id_} belongs to another project")
        return row

    async def _refuse_name(self, tx: Transaction, name: str, project_id: str) -> None:
        await tx.exclude(f"environments/templates/{project_id}")
        same = and_(templates.c.name == name, templates.c.tenant_id == project_id)
        if (await tx.execute(select(templates.c.id).where(same))).first() is not None:
            raise Conflict(f"Environment template with specified name already exists: {name}")

    async def _insert(
        self,
        tx: Transaction,
        principal: Principal,
        *,
        name: str,
        text: str,
        is_public: bool,
        services: list[object],
    ) -> StoredRow:
        await self._refuse_name(tx, name, principal.project_id)
        id_, now = new_id(), self.database.clock.now()
        await tx.execute(
            insert(templates).values(
                id=id_,
                name=name,
                tenant_id=principal.project_id,
                description_text=text,
                version=0,
                is_public=is_public,
                services=services,
                created=now,
                updated=now,
            )
        )
        return await self._row(tx, principal, id_, own=True)

    async def listing(
        self, principal: Principal, is_public: str | None, listing: Listing = ALL
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Own and public templates, oldest first; ``is_public``: only public (``true``), or only
        own private ones (any other text). With the marker of the next page. Errors: 404."""
        own = templates.c.tenant_id == principal.project_id
        public = templates.c.is_public
        if is_public is None:
            wanted = or_(own, public)
        elif is_public.lower() == "true":
            wanted = public
        else:
            wanted = and_(own, ~public)
        query = select(*WITHOUT_SERVICES).where(wanted)
        if listing.name is not None:
            query = query.where(templates.c.name == listing.name)
        order = Order((templates.c.created, templates.c.id))

        async def views(rows: Sequence[StoredRow]) -> list[dict[str, object]]:
            return [self.view(row) for row in rows]

        async with self.database.read() as tx:
            return await page(tx, query, order, listing, views)

    async def create(self, principal: Principal, body: object) -> dict[str, Any]:
        """Create a template. Errors: 400, 409, 413."""
        given = _body(body)
        name, text, is_public = checked_name(given["name"], "Template"), _text(given), _flag(given)
        services = checked_components(given.get("services"))
        await self.store.refuse_large(services)
        async with self.database.transaction() as tx:
            row = await self._insert(
                tx, principal, name=name, text=text, is_public=is_public, services=services
            )
        return {**self.view(row), **({"services": services} if "services" in given else {})}

    async def show(self, principal: Principal, id_: str) -> dict[str, Any]:
        """A template with its components. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_, own=False)
        return {**self.view(row), "services": row.services}

    async def update(
        self, principal: Principal, id_: str, body: object, condition: Condition = UNCONDITIONAL
    ) -> dict[str, Any]:
        """Change the name, the description and whether it is public.

        Errors: 400, 403, 404, 409, 412.
        """
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=True, lock=True)
            condition.check({**self.view(row), "services": row.services})
            given = _body(body)
            values: dict[str, Any] = {"name": checked_name(given["name"], "Template")}
            if "description_text" in given:
                values["description_text"] = _text(given)
            if "is_public" in given:
                values["is_public"] = _flag(given)
            if values["name"] != row.name:
                await self._refuse_name(tx, values["name"], row.tenant_id)
            await self._store(tx, row, **values)
            return self.view(await self._row(tx, principal, id_, own=True))

    async def _store(self, tx: Transaction, row: StoredRow, **values: object) -> None:
        now, version = self.database.clock.now(), row.version + 1
        changed = update(templates).where(templates.c.id == row.id)
        await tx.execute(changed.values(**values, updated=now, version=version))

    async def delete(
        self, principal: Principal, id_: str, condition: Condition = UNCONDITIONAL
    ) -> None:
        """Delete a template; environments made from it stay. Errors: 403, 404, 412."""
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=True, lock=True)
            condition.check({**self.view(row), "services": row.services})
            await tx.execute(delete(templates).where(templates.c.id == id_))

    async def clone(self, principal: Principal, id_: str, body: object) -> dict[str, Any]:
        """Copy a public template into the caller's project. Errors: 400, 403, 404, 409."""
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=False)
            if not row.is_public:
                raise Forbidden(f"Environment template {id_} is not public: it cannot be cloned")
            given = _body(body)
            made = await self._insert(
                tx,
                principal,
                name=checked_name(given["name"], "Template"),
                text=row.description_text,
                is_public=_flag(given),
                services=row.services,
            )
            return {**self.view(made), "services": made.services}

    async def create_environment(
        self, principal: Principal, id_: str, body: object
    ) -> dict[str, str]:
        """Create an environment with a session that holds the template's components.

        Errors: 400, 403, 404, 409, 413.
        """
        async with self.database.read() as tx:
            template = await self._row(tx, principal, id_, own=False)
        given = _body(body, "The environment")
        # The template's components replace any that were sent.
        prepared = await self.store.prepare(
            principal, {key: value for key, value in given.items() if key != "services"}
        )
        model = copy.deepcopy(prepared.model)
        model["Objects"]["services"] = template.services
        check_model(model["Objects"])
        await self.store.refuse_large(model["Objects"])
        async with self.database.transaction() as tx:
            row = await self.store.insert(tx, principal, prepared)
            session = await self.sessions.open_session(tx, row, principal.user_id, model)
        return {"session_id": session["id"], "environment_id": prepared.id}

    # Components

    async def components(self, principal: Principal, id_: str, parts: list[str]) -> Any:
        """The components, or what is at a path below them. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_, own=False)
        return get_path(row.services, parts)

    async def _change(
        self,
        principal: Principal,
        id_: str,
        change: Callable[[list[object]], object],
        condition: Condition,
        parts: list[str],
    ) -> tuple[dict[str, object], object]:
        """Change the components; all or nothing. The template's object and ``change``'s result.

        ``parts``: the path that the condition is about.
        """
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=True, lock=True)
            services: list[object] = row.services
            if condition:
                condition.check(get_path(services, parts))
            result = change(services)
            check_model({"services": services})
            await self.store.refuse_large(services)
            await self._store(tx, row, services=services)
            stored = await self._row(tx, principal, id_, own=True)
            return {**self.view(stored), "services": services}, result

    async def add(
        self, principal: Principal, id_: str, body: object, condition: Condition = UNCONDITIONAL
    ) -> Any:
        """Add a component or a list of them; what was added. Errors: 400, 403, 404, 412, 413."""

        def append(services: list[object]) -> Any:
            if not body or not isinstance(body, dict | list):
                raise BadRequest("The body must be an application object, or a list of them")
            added = cast("list[object]", body if isinstance(body, list) else [body])
            check_services(added)
            services.extend(added)
            return cast("Any", body)

        return (await self._change(principal, id_, append, condition, []))[1]

    async def replace(
        self,
        principal: Principal,
        id_: str,
        parts: list[str],
        body: object,
        condition: Condition = UNCONDITIONAL,
    ) -> Any:
        """Replace what is at a path; its new value. Errors: 400, 403, 404, 412, 413."""

        def put(services: list[object]) -> object:
            before = header(get_path(services, parts))
            value: object = body
            block = header(value)
            if before is not None and block is not None:
                # It stays the same component: others may refer to it.
                block.setdefault("id", before["id"])
            check_services(value)
            put_path(services, parts, value)
            return value

        return (await self._change(principal, id_, put, condition, parts))[1]

    async def remove(
        self,
        principal: Principal,
        id_: str,
        parts: list[str],
        condition: Condition = UNCONDITIONAL,
    ) -> dict[str, Any]:
        """Remove what is at a path; the template with its remaining components.

        Errors: 403, 404, 412.
        """
        found, _ = await self._change(
            principal, id_, lambda services: delete_path(services, parts), condition, parts
        )
        return found
