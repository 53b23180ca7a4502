"""Environment templates: applications kept aside, from which environments are made (catalog-api.md §6.1).

A template belongs to a project. A public one can be read, cloned and used by every project; only
its own project (or an administrator) changes or deletes it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import cast

from sqlalchemy import and_, delete, insert, or_, select, update

from vetro.catalog import api_time
from vetro.environments.checking import (
    Before,
    check_model,
    delete_value,
    put_value,
)
from vetro.environments.component_users import owners, refuse_used
from vetro.environments.machine_names import TakenNames, settle_new
from vetro.environments.model import get_path, header, new_id
from vetro.environments.paging import ALL, Listing, Order, page
from vetro.environments.preparing import checked_name, checked_text, named_body, prepare
from vetro.environments.sessions import SessionStore
from vetro.environments.tables import templates
from vetro.environments.views import ShownTemplate, TemplateView
from vetro.http import (
    UNCONDITIONAL,
    BadRequest,
    Condition,
    Conflict,
    Forbidden,
    NotFound,
    Principal,
)
from vetro.json_values import Json
from vetro.storage import StoredRow, Transaction

WITHOUT_SERVICES = [column for column in templates.c if column.name != "services"]


def _flag(given: dict[str, object]) -> bool:
    value = given.get("is_public", False)
    if not isinstance(value, bool):
        raise BadRequest("is_public must be true or false")
    return value


def checked_components(value: object) -> list[object]:
    """The components of a template, with ids. Errors: 400, 409."""
    found = cast("list[object]", [] if value is None else value)
    check_model({"services": found})
    TakenNames(None).refuse({"services": found})
    return found


class TemplateStore:
    """Environment templates of all projects."""

    def __init__(self, sessions: SessionStore) -> None:
        self.sessions = sessions
        self.store = sessions.store
        self.database = sessions.database

    def view(self, row: StoredRow) -> TemplateView:
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
    ) -> tuple[list[TemplateView], str | None]:
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

        async def views(rows: Sequence[StoredRow]) -> list[TemplateView]:
            return [self.view(row) for row in rows]

        async with self.database.read() as tx:
            return await page(tx, query, order, listing, views)

    async def create(self, principal: Principal, body: object) -> TemplateView | ShownTemplate:
        """Create a template. Errors: 400, 409, 413."""
        given = named_body(body, "Template")
        name, text, is_public = (
            checked_name(given["name"], "Template"),
            checked_text(given),
            _flag(given),
        )
        services = checked_components(given.get("services"))
        await self.store.settings.refuse_large(services)
        async with self.database.transaction() as tx:
            row = await self._insert(
                tx, principal, name=name, text=text, is_public=is_public, services=services
            )
        view = self.view(row)
        return {**view, "services": services} if "services" in given else view

    async def show(self, principal: Principal, id_: str) -> ShownTemplate:
        """A template with its components. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_, own=False)
        return {**self.view(row), "services": row.services}

    async def update(
        self, principal: Principal, id_: str, body: object, condition: Condition = UNCONDITIONAL
    ) -> TemplateView:
        """Change the name, the description and whether it is public.

        Errors: 400, 403, 404, 409, 412.
        """
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=True, lock=True)
            condition.check({**self.view(row), "services": row.services})
            given = named_body(body, "Template")
            name = checked_name(given["name"], "Template")
            values: dict[str, object] = {"name": name}
            if "description_text" in given:
                values["description_text"] = checked_text(given)
            if "is_public" in given:
                values["is_public"] = _flag(given)
            if name != row.name:
                await self._refuse_name(tx, name, row.tenant_id)
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

    async def clone(self, principal: Principal, id_: str, body: object) -> ShownTemplate:
        """Copy a public template into the caller's project. Errors: 400, 403, 404, 409."""
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=False)
            if not row.is_public:
                raise Forbidden(f"Environment template {id_} is not public: it cannot be cloned")
            given = named_body(body, "Template")
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
        given = named_body(body)
        # The template's components replace any that were sent.
        prepared = await prepare(
            self.store.settings,
            principal,
            {key: value for key, value in given.items() if key != "services"},
        )
        model = copy.deepcopy(prepared.model)
        model["Objects"]["services"] = template.services
        try:
            check_model(model["Objects"], Before.of(prepared.model["Objects"]))
        except BadRequest as error:
            # Of an earlier release, which took it: nothing that was sent now is wrong.
            raise BadRequest(
                f"The template {template.name!r} cannot be used as it is stored: {error.message}. Replace"
                f" that component (PUT /v1/templates/{template.id}/services/...), or make the template anew"
            ) from error
        settle_new(model["Objects"])
        await self.store.settings.refuse_large(model["Objects"])
        async with self.database.transaction() as tx:
            row = await self.store.insert(tx, principal, prepared)
            session = await self.sessions.open_session(tx, row, principal.user_id, model)
        return {"session_id": session["id"], "environment_id": prepared.id}

    # Components

    async def components(self, principal: Principal, id_: str, parts: list[str]) -> Json:
        """The components, or what is at a path below them. Errors: 403, 404."""
        async with self.database.read() as tx:
            row = await self._row(tx, principal, id_, own=False)
        return get_path(row.services, parts)

    async def _change(
        self,
        principal: Principal,
        id_: str,
        change: Callable[[list[object]], Json],
        condition: Condition,
        parts: list[str],
    ) -> tuple[ShownTemplate, Json]:
        """Change the components; all or nothing. The template's object and ``change``'s result.

        ``parts``: the path that the condition is about.
        """
        async with self.database.transaction() as tx:
            row = await self._row(tx, principal, id_, own=True, lock=True)
            services: list[object] = row.services
            if condition:
                condition.check(get_path(services, parts))
            # A `#` is numbered when an environment is made of the template.
            names, known = TakenNames({"services": services}), Before.of({"services": services})
            result = change(services)
            check_model({"services": services}, known)
            names.refuse({"services": services})
            await self.store.settings.refuse_large(services)
            await self._store(tx, row, services=services)
            stored = await self._row(tx, principal, id_, own=True)
            return {**self.view(stored), "services": services}, result

    async def add(
        self, principal: Principal, id_: str, body: object, condition: Condition = UNCONDITIONAL
    ) -> Json:
        """Add a component or a list of them; what was added. Errors: 400, 403, 404, 409, 412, 413."""

        def append(services: list[object]) -> Json:
            if not body or not isinstance(body, dict | list):
                raise BadRequest("The body must be an application object, or a list of them")
            services.extend(cast("list[object]", body if isinstance(body, list) else [body]))
            return cast("Json", body)

        return (await self._change(principal, id_, append, condition, []))[1]

    async def replace(
        self,
        principal: Principal,
        id_: str,
        parts: list[str],
        body: object,
        condition: Condition = UNCONDITIONAL,
    ) -> Json:
        """Replace what is at a path; its new value. Errors: 400, 403, 404, 409, 412, 413."""

        def put(services: list[object]) -> object:
            before, block = header(get_path(services, parts)), header(body)
            if before is not None and block is not None:
                # It stays the same component, of whatever class: nothing of it is deployed.
                block.setdefault("id", before["id"])
            put_value({"services": services}, ["services", *parts], body)
            return body

        return (await self._change(principal, id_, put, condition, parts))[1]

    async def remove(
        self,
        principal: Principal,
        id_: str,
        parts: list[str],
        condition: Condition = UNCONDITIONAL,
        *,
        keep_used: bool = False,
    ) -> ShownTemplate:
        """Remove what is at a path; the template with its remaining components.

        Errors: 403, 404, 412; with ``keep_used`` 409 when components that stay refer to it.
        """

        def drop(services: list[object]) -> None:
            before = owners({"services": services}) if keep_used else {}
            delete_value({"services": services}, ["services", *parts])
            refuse_used(before, {"services": services})

        found, _ = await self._change(principal, id_, drop, condition, parts)
        return found
