"""Environments in the database (catalog-api.md §5.1, 5.3, 5.4)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TypedDict, cast

from sqlalchemy import BindParameter, bindparam, delete, func, insert, select, update

from vetro.catalog import api_time
from vetro.environments import pending, states
from vetro.environments.flat import (
    MURANOPL,
    WORKFLOW,
    initial_flat_model,
    is_workflow,
    shown_services,
)
from vetro.environments.model import RENAMED, new_id
from vetro.environments.paging import ALL, Listing, Order, page
from vetro.environments.preparing import (
    EnvironmentSettings,
    PreparedEnvironment,
    checked_name,
    checked_text,
    named_body,
    prepare,
)
from vetro.environments.tables import environments, quotas, sessions, tasks
from vetro.environments.views import EnvironmentView, ListedEnvironment, ShownEnvironment
from vetro.http import (
    UNCONDITIONAL,
    BadRequest,
    Condition,
    Conflict,
    Extras,
    Forbidden,
    NotFound,
    Principal,
)
from vetro.json_values import JsonObject
from vetro.quotas import Quotas
from vetro.storage import Database, Prepared, StoredRow, Transaction


class ForeignProject(Forbidden):
    """403: an environment of another project (401 without ``/v1``)."""


class SessionRequired(BadRequest):
    """400: a change without a session (403 without ``/v1``)."""


class SessionElsewhere(BadRequest):
    """400: a session of another environment (404 without ``/v1``)."""


#: The notification that an environment's model was replaced or removed.
MODELS_CHANNEL = "environments/models"

#: What an environment has beyond the API's sample, whose fields are exact (§14).
ENVIRONMENT_EXTRAS = Extras(("model_kind", "has_changes"))

WITHOUT_MODEL = [column for column in environments.c if column.name != "model"]

# Statements of nearly every call.
_WANTED: BindParameter[str] = bindparam("wanted")
_ENVIRONMENT = Prepared(select(environments).where(environments.c.id == _WANTED))
_ENVIRONMENT_WITHOUT_MODEL = Prepared(select(*WITHOUT_MODEL).where(environments.c.id == _WANTED))
_LOCK = select(environments.c.id).where(environments.c.id == _WANTED).with_for_update()
_NAMESAKE = Prepared(
    select(environments.c.id).where(
        environments.c.name == _WANTED, environments.c.tenant_id == bindparam("project")
    )
)
_NEW_ENVIRONMENT = Prepared(insert(environments).returning(*WITHOUT_MODEL))
_REMOVED = Prepared(
    delete(environments)
    .where(environments.c.id == _WANTED)
    .returning(environments.c.tenant_id)
    .execution_options(short=True)
)
_TASKS_GONE = Prepared(
    update(tasks)
    .where(tasks.c.environment_id == _WANTED)
    .values(environment_gone=bindparam("now", type_=tasks.c.environment_gone.type))
)
_SESSION = select(sessions).where(sessions.c.id == _WANTED)
_SESSION_PLAIN = Prepared(_SESSION)
_SESSION_LOCKED = Prepared(_SESSION.with_for_update())
#: The order of §5.1. A deployment makes the other sessions of its version invalid, so it is the newest of
#: them, whatever the clocks of the services say that made the changes.
_NEWEST_FIRST = (
    sessions.c.version.desc(),
    sessions.c.state == states.OPENED,
    sessions.c.updated.desc(),
)
_SESSION_STATES = Prepared(
    select(sessions.c.id, sessions.c.state, sessions.c.version)
    .where(sessions.c.environment_id == _WANTED)
    .order_by(*_NEWEST_FIRST)
)
#: Sessions that are only open are not read for these: there may be one for each user of an environment.
_ACTIVE = Prepared(
    select(sessions.c.id, sessions.c.state, sessions.c.version).where(
        sessions.c.environment_id == _WANTED, sessions.c.state.in_(states.ACTIVE)
    )
)
_LAST_BEGUN = Prepared(
    select(sessions.c.state)
    .where(sessions.c.environment_id == _WANTED, sessions.c.state.in_(states.BEGUN))
    .order_by(sessions.c.version.desc(), sessions.c.updated.desc())
    .limit(1)
)


def project_channel(project_id: str) -> str:
    """The channel of notifications about a project's environments: the payload is an environment's id.

    One is sent when it is made, renamed, removed, begins or ends a deployment, or a session of it changes.
    """
    return f"environments/of/{project_id}"


async def _count(tx: Transaction, project_id: str, _names: Collection[str]) -> dict[str, int]:
    """The environments of a project: those that are being destroyed are counted until they are gone."""
    query = select(func.count()).select_from(environments)
    found = await tx.execute(query.where(environments.c.tenant_id == project_id))
    return {"environments": found.scalar_one()}


class _Wanted(TypedDict, total=False):
    """The columns of an environment that a caller changes, checked."""

    name: str
    description_text: str


class EnvironmentStore:
    """Environments, and the rows of their sessions."""

    def __init__(self, database: Database, settings: EnvironmentSettings) -> None:
        self.database = database
        self.settings = settings
        limits = {"environments": settings.quotas.environments}
        self.quotas = Quotas(quotas, limits, _count)

    # Rows

    async def environment(
        self, tx: Transaction, principal: Principal, id_: str, *, with_model: bool = True
    ) -> StoredRow:
        """The environment, if the caller's project may use it. Errors: 404, 403.

        Without its model when ``with_model`` is false: a model may be large.
        """
        query = _ENVIRONMENT if with_model else _ENVIRONMENT_WITHOUT_MODEL
        row = (await tx.execute(query, {"wanted": id_})).first()
        if row is None:
            raise NotFound(f"Environment with id {id_} not found", type_="EnvironmentNotFound")
        if row.tenant_id != principal.project_id and not principal.is_admin:
            raise ForeignProject(f"Environment {id_} belongs to another project", type_="Forbidden")
        return row

    async def whole(self, tx: Transaction, id_: str) -> StoredRow:
        """The row of an environment that is known to be there, with its model."""
        return (await tx.execute(_ENVIRONMENT, {"wanted": id_})).one()

    async def lock(self, tx: Transaction, id_: str) -> None:
        """Serialise decisions about one environment until ``tx`` ends."""
        if not tx.is_sqlite:  # there the unit has the database for itself
            await tx.execute(_LOCK, {"wanted": id_})

    async def session(
        self, tx: Transaction, environment_id: str, session_id: str, *, lock: bool = False
    ) -> StoredRow:
        """A session of this environment. Errors: 404 unknown, 400 of another environment.

        ``lock``: others cannot change it until ``tx`` ends.
        """
        query = _SESSION_LOCKED if lock else _SESSION_PLAIN
        row = (await tx.execute(query, {"wanted": session_id})).first()
        if row is None:
            raise NotFound(
                f"Session <SessionId {session_id}> is not found", type_="SessionNotFound"
            )
        if row.environment_id != environment_id:
            raise SessionElsewhere(
                f"Session <SessionId {session_id}> is not tied with Environment {environment_id}",
                type_="BadRequest",
            )
        return row

    async def session_states(self, tx: Transaction, environment_id: str) -> list[StoredRow]:
        """All sessions, newest first."""
        return list(await tx.execute(_SESSION_STATES, {"wanted": environment_id}))

    async def active_sessions(self, tx: Transaction, environment_id: str) -> list[StoredRow]:
        """Those of the sessions that a task is working on."""
        return list(await tx.execute(_ACTIVE, {"wanted": environment_id}))

    async def activity(self, tx: Transaction, environment_id: str) -> str | None:
        """The environment's status while a task is changing it; else ``None``."""
        row = (await tx.execute(_LAST_BEGUN, {"wanted": environment_id})).first()
        return row.state if row is not None and row.state in states.ACTIVE else None

    async def status(self, tx: Transaction, environment_id: str) -> str:
        """The environment's status."""
        rows = await self.session_states(tx, environment_id)
        return states.environment_status(row.state for row in rows)

    def invalid(self, session: StoredRow, version: int, rows: list[StoredRow]) -> bool:
        """Whether a newer deployment has overtaken the session (§5.2)."""
        if version > session.version:
            return True
        others = any(row.state in states.ACTIVE and row.id != session.id for row in rows)
        return session.state == states.OPENED and others

    # Environments

    def view(self, row: StoredRow) -> EnvironmentView:
        """The column fields of an environment."""
        return {
            "id": row.id,
            "name": row.name,
            "tenant_id": row.tenant_id,
            "description_text": row.description_text,
            "version": row.version,
            "model_kind": row.model_kind,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
        }

    async def create_workflow(self, principal: Principal, body: object) -> EnvironmentView:
        """Create an environment for flat services (§7). Errors: 400, 403, 409."""
        name, id_ = checked_name(named_body(body)["name"]), new_id()
        model = initial_flat_model(id_, name, principal.project_id, principal.user_id)
        prepared = PreparedEnvironment(id_, name, "", model, {})
        async with self.database.transaction() as tx:
            row = await self.insert(tx, principal, prepared)
        return self.view(row)

    async def create(self, principal: Principal, body: object) -> JsonObject:
        """Create an environment; what was sent, and its columns. Errors: 400, 403, 409, 413."""
        prepared = await prepare(self.settings, principal, body)
        async with self.database.transaction() as tx:
            row = await self.insert(tx, principal, prepared)
        return {**prepared.echo, **self.view(row)}

    async def insert(
        self, tx: Transaction, principal: Principal, prepared: PreparedEnvironment
    ) -> StoredRow:
        """Store a new environment; its row, without the model.

        Errors: 403: the project has as many as it may, 409: its name is taken.
        """
        await self._refuse_name(tx, prepared.name, principal.project_id)
        await self.quotas.admit(tx, principal.project_id, environments=1)
        now = self.database.clock.now()
        values = {
            "id": prepared.id,
            "name": prepared.name,
            "tenant_id": principal.project_id,
            "user_id": principal.user_id,
            "description_text": prepared.description_text,
            "version": 0,
            "model_kind": WORKFLOW if is_workflow(prepared.model) else MURANOPL,
            "model": prepared.model,
            "created": now,
            "updated": now,
        }
        row = (await tx.execute(_NEW_ENVIRONMENT, values)).one()
        tx.notify(project_channel(principal.project_id), prepared.id)
        return row

    async def _refuse_name(self, tx: Transaction, name: str, project_id: str) -> None:
        await tx.exclude(f"environments/{project_id}")
        known = await tx.execute(_NAMESAKE, {"wanted": name, "project": project_id})
        if known.first() is not None:
            raise Conflict(f"Environment with specified name already exists: {name}")

    async def listing(
        self,
        principal: Principal,
        *,
        all_tenants: bool = False,
        tenant: str | None = None,
        listing: Listing = ALL,
    ) -> tuple[list[ListedEnvironment], str | None]:
        """Environments with their status, oldest first, and the marker of the next page.

        The caller has checked the policy. Errors: 404 for the marker.
        """
        query = select(*WITHOUT_MODEL)
        if not all_tenants:
            query = query.where(environments.c.tenant_id == (tenant or principal.project_id))
        if listing.name is not None:
            query = query.where(environments.c.name == listing.name)
        order = Order((environments.c.created, environments.c.id))
        async with self.database.read() as tx:
            return await page(tx, query, order, listing, partial(self._listed, tx))

    async def _listed(self, tx: Transaction, rows: Sequence[StoredRow]) -> list[ListedEnvironment]:
        found = await tx.execute(
            select(sessions.c.environment_id, sessions.c.state)
            .where(sessions.c.environment_id.in_([row.id for row in rows]))
            .order_by(*_NEWEST_FIRST)
        )
        by_environment: dict[str, list[str]] = {}
        for session in found:
            by_environment.setdefault(session.environment_id, []).append(session.state)
        status = {row.id: states.environment_status(by_environment.get(row.id, [])) for row in rows}
        waiting = [id_ for id_, known in status.items() if known == states.PENDING]
        changed = await self.with_changes(tx, waiting)
        return [
            {**self.view(row), "status": status[row.id], "has_changes": row.id in changed}
            for row in rows
        ]

    async def with_changes(self, tx: Transaction, ids: Sequence[str]) -> set[str]:
        """Those of the environments of which a session, anybody's, holds changes to deploy.

        Most open sessions were opened with a form that was left: their models are not even read.
        """
        if not ids:
            return set()
        found = await tx.execute(
            select(environments.c.id, environments.c.name, environments.c.model.label("base"))
            .add_columns(sessions.c.model)
            .join(sessions, sessions.c.environment_id == environments.c.id)
            .where(
                environments.c.id.in_(ids),
                sessions.c.state == states.OPENED,
                sessions.c.version == environments.c.version,
                sessions.c.updated != sessions.c.created,
            )
        )
        return {row.id for row in found if pending.of_session(row.name, row.base, row.model)}

    async def show(
        self, principal: Principal, id_: str, session_id: str | None
    ) -> ShownEnvironment:
        """An environment with status and services, those of a session's model when one is given."""
        async with self.database.read() as tx:
            row = await self.environment(tx, principal, id_)
            return await self.shown(tx, row, session_id)

    async def shown(
        self, tx: Transaction, row: StoredRow, session_id: str | None
    ) -> ShownEnvironment:
        """An environment as it is shown. Errors: 404, 400 for the session."""
        rows = await self.session_states(tx, row.id)
        model = await self.model_to_read(tx, row, session_id)
        status = states.environment_status(one.state for one in rows)
        acquired = next((one.id for one in rows if one.state == states.DEPLOYING), None)
        return {
            **self.view(row),
            "status": status,
            "has_changes": status == states.PENDING and bool(await self.with_changes(tx, [row.id])),
            "acquired_by": acquired if status == states.DEPLOYING else None,
            "services": shown_services(model, status),
        }

    async def model_to_read(
        self, tx: Transaction, environment: StoredRow, session_id: str | None
    ) -> JsonObject:
        """The model for reading: the session's while valid and not deployed. Errors: 404, 400."""
        if not session_id:
            return environment.model
        session = await self.session(tx, environment.id, session_id)
        rows = await self.session_states(tx, environment.id)
        if session.state == states.DEPLOYED or self.invalid(session, environment.version, rows):
            return environment.model
        return session.model

    async def rename(
        self,
        principal: Principal,
        id_: str,
        body: object,
        condition: Condition = UNCONDITIONAL,
        session_id: str | None = None,
    ) -> EnvironmentView:
        """Give an environment another name. Errors: 400, 403, 404, 409, 412.

        ``session_id``: whose model the condition is about.
        """
        async with self.database.transaction() as tx:
            await self.lock(tx, id_)
            row = await self.environment(tx, principal, id_, with_model=bool(condition))
            if condition:
                condition.check(await self.shown(tx, row, session_id), ENVIRONMENT_EXTRAS)
            wanted = _Wanted(name=checked_name(named_body(body)["name"]))
            return await self._changed(tx, principal, row, wanted)

    async def change(self, principal: Principal, id_: str, body: object) -> EnvironmentView:
        """Change the name, the description or both (§7). Errors: 400, 403, 404, 409."""
        given = cast("dict[str, object]", body) if isinstance(body, dict) else {}
        async with self.database.transaction() as tx:
            await self.lock(tx, id_)
            row = await self.environment(tx, principal, id_, with_model=False)
            wanted = _Wanted()
            if "name" in given:
                wanted["name"] = checked_name(given["name"])
            if "description_text" in given:
                wanted["description_text"] = checked_text(given)
            if not wanted:
                raise BadRequest("The body must have name, description_text or both")
            return await self._changed(tx, principal, row, wanted)

    async def _changed(
        self, tx: Transaction, principal: Principal, row: StoredRow, wanted: _Wanted
    ) -> EnvironmentView:
        """The environment after columns of it are changed. Errors: 409."""
        values: dict[str, object] = {**wanted, "updated": self.database.clock.now()}
        name = wanted.get("name", row.name)
        if name != row.name:
            await self._refuse_name(tx, name, row.tenant_id)
            if row.model_kind == MURANOPL:
                whole = await self.whole(tx, row.id)
                values["model"] = {**whole.model, RENAMED: True}
        await tx.execute(update(environments).where(environments.c.id == row.id).values(**values))
        tx.notify(project_channel(row.tenant_id), row.id)
        return self.view(await self.environment(tx, principal, row.id, with_model=False))

    async def remove(self, tx: Transaction, id_: str) -> None:
        """Delete the rows of an environment in any state.

        Its deployments and their reports stay, as history (``vetro.environments.history``).
        """
        now = self.database.clock.now()
        await tx.execute(_TASKS_GONE, {"wanted": id_, "now": now})
        project = (await tx.execute(_REMOVED, {"wanted": id_})).scalar_one_or_none()
        tx.notify(MODELS_CHANNEL)
        if project is not None:
            tx.notify(project_channel(project), id_)
