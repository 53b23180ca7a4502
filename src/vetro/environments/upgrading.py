"""Moving applications of an environment to other package versions: a preview, then an edit.

A move is checked in two places. The plan (``upgrades``) needs only the catalog: which objects move,
and to which version. An engine compares the classes and loads the changed model, without running an
action. An upgrade itself is a change of a session like any other; the next deploy of the session
carries it out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypedDict, cast

from sqlalchemy import select

from vetro.catalog import Catalog
from vetro.environments.checking import check_objects
from vetro.environments.component_users import Dangling
from vetro.environments.model import Json, object_id, to_engine, walk
from vetro.environments.sessions import SessionStore
from vetro.environments.static_calls import CallStore
from vetro.environments.tables import environments
from vetro.environments.upgrades import (
    ApplicationMove,
    ApplicationRow,
    ComparedApplication,
    Comparison,
    MovePlan,
    MoveView,
    PropertyChange,
    SharedObject,
    Shelf,
    application_rows,
    make_moves,
    note_shared,
    plan_application,
    plan_objects,
    repinned,
    services_of,
)
from vetro.environments.uses import BATCH, pinned_packages
from vetro.http import (
    BadRequest,
    Conflict,
    GatewayTimeout,
    NotFound,
    Principal,
    ServiceUnavailable,
)
from vetro.json_values import JsonObject
from vetro.packages import Version, VersionSpec
from vetro.storage import StoredRow

#: Models whose headers are cached: a list of environments reads each model only once.
KEPT = 1000


class Wanted(NamedTuple):
    """A requested move: ``version`` spec, ``None`` for the newest, and ``properties`` to set."""

    version: str | None = None
    properties: JsonObject | None = None


class MovedObject(MoveView):
    """A move of a preview, with the changes that the new class makes to the object."""

    changes: list[PropertyChange]


ApplicationView = TypedDict(
    "ApplicationView",
    {
        "id": str,
        "name": str | None,
        "class": str,
        "package": str | None,
        "from": str | None,
        "to": str | None,
        "direction": str,
        "objects": list[MovedObject],
        "shared": list[SharedObject],
        "problems": list[str],
        "notes": list[str],
    },
)
"""An application of a preview."""


class Preview(TypedDict):
    """What an upgrade would change, and what would not work afterwards."""

    applications: list[ApplicationView]
    problems: list[str]


class Upgrades:
    """The possible moves of the applications of environments, and the moves themselves."""

    def __init__(self, sessions: SessionStore, catalog: Catalog, calls: CallStore) -> None:
        self.sessions = sessions
        self.store = sessions.store
        self.database = sessions.database
        self.catalog = catalog
        self.calls = calls
        self._headers: OrderedDict[tuple[str, int], tuple[Json, Json]] = OrderedDict()

    # Listings

    async def listing(
        self, principal: Principal, environment_id: str, session_id: str | None
    ) -> list[ApplicationRow]:
        """The applications with their versions and the newer ones. Errors: 400, 403, 404."""
        row, model = await self._model(principal, environment_id, session_id)
        shelf = await self._shelf(row.tenant_id, model)
        return application_rows(model.get("Objects"), shelf)

    async def of_project(self, principal: Principal) -> dict[str, list[ApplicationRow]]:
        """The applications, as deployed last, that have newer versions, by the ids of the project's
        environments; environments without any are left out."""
        mine = environments.c.tenant_id == principal.project_id
        async with self.database.read() as tx:
            query = select(environments.c.id, environments.c.version).where(mine)
            known = [(row.id, row.version) for row in await tx.execute(query)]
        missing = [key for key in known if key not in self._headers]
        for start in range(0, len(missing), BATCH):
            ids = [id_ for id_, _ in missing[start : start + BATCH]]
            async with self.database.read() as tx:
                rows = list(
                    await tx.execute(select(environments).where(environments.c.id.in_(ids)))
                )
            for row in rows:
                self._remember(row)
        usable = await self.catalog.usable(principal.project_id)
        found: dict[str, list[ApplicationRow]] = {}
        for key in known:
            if key not in self._headers:
                continue
            self._headers.move_to_end(key)
            objects, pins = self._headers[key]
            newer = [one for one in application_rows(objects, Shelf(usable, pins)) if one["newer"]]
            if newer:
                found[key[0]] = newer
        while len(self._headers) > KEPT:
            self._headers.popitem(last=False)
        return found

    def _remember(self, row: StoredRow) -> None:
        """Cache the headers that give the versions of the applications, without property values."""
        services = services_of(row.model.get("Objects"))
        short = [
            {
                "?": {
                    key: one["?"].get(key)
                    for key in ("id", "type", "classVersion", "package", "name")
                },
                "name": one.get("name"),
            }
            for one in services
        ]
        self._headers[(row.id, row.version)] = ({"services": short}, pinned_packages(row.model))

    # Moves

    async def preview(
        self, principal: Principal, environment_id: str, session_id: str | None, body: object
    ) -> Preview:
        """What an upgrade would change; nothing is stored. Errors: 400, 403, 404, 503, 504."""
        wanted = checked_body(body)
        row, model = await self._model(principal, environment_id, session_id)
        return await self._looked_at(principal, row, model, wanted)

    async def upgrade(
        self, principal: Principal, environment_id: str, session_id: str | None, body: object
    ) -> Preview:
        """Change a session so that its next deploy moves applications; returns the preview.

        Errors: 400, 403, 404, 503, 504; 409 when something would not work afterwards
        (``UpgradeRefused``, with the preview), or the session was changed meanwhile.
        """
        wanted = checked_body(body)
        row, model = await self._model(principal, environment_id, session_id, write=True)
        found = await self._looked_at(principal, row, model, wanted)
        refuse(found)
        moves = [move for one in found["applications"] for move in one["objects"]]
        properties = {id_: one.properties for id_, one in wanted.items() if one.properties}
        before = {move["id"]: move["from"] for move in moves}

        def change(model: JsonObject) -> None:
            objects = model["Objects"]
            shelf = Shelf((), pinned_packages(model))
            for service in services_of(objects):
                refuse_changed(service, before, shelf)
            gone = make_moves(objects, moves, properties)
            if gone:
                raise Conflict(
                    f"These no longer exist: {', '.join(gone)}; preview the upgrade again"
                )
            packages = {move["package"] for move in moves}
            model["SystemData"] = repinned(model.get("SystemData"), objects, packages)

        await self.sessions.change_model(principal, environment_id, session_id, change)
        return found

    # Versions of the last run

    async def fixed(
        self, principal: Principal, environment_id: str, session_id: str | None
    ) -> dict[str, list[str]]:
        """The versions of the catalog's packages that the next deploy prefers, those of required
        packages too: what the last run used. Errors: 400, 403, 404."""
        row, model = await self._model(principal, environment_id, session_id)
        shelf = await self._shelf(row.tenant_id, model)
        return {
            name: sorted(versions, key=Version.parse)
            for name, versions in sorted(pinned_packages(model).items())
            if shelf.knows(name)
        }

    async def fix(
        self, principal: Principal, environment_id: str, session_id: str | None, body: object
    ) -> dict[str, list[str]]:
        """Give a session of an environment that was never deployed the versions to prefer.

        Errors: 400 (also for versions that the catalog does not have), 403, 404, 409 when it was
        deployed: what moves then is an upgrade.
        """
        wanted = checked_versions(body)
        row, model = await self._model(principal, environment_id, session_id, write=True)
        if row.version or model.get("ObjectsCopy") is not None:
            raise Conflict(
                "The environment was deployed already: its packages move by an upgrade"
                f" (POST /v1/environments/{environment_id}/upgrades)"
            )
        shelf = await self._shelf(row.tenant_id, {})
        missing = [
            f"{name} {version}"
            for name, versions in wanted.items()
            for version in versions
            if version not in shelf.versions(name)
        ]
        if missing:
            raise BadRequest(f"The catalog does not have {', '.join(missing)}")
        texts = {name: [str(one) for one in versions] for name, versions in wanted.items()}

        def change(model: JsonObject) -> None:
            model["SystemData"] = {**(model.get("SystemData") or {}), "Packages": texts}

        await self.sessions.change_model(principal, environment_id, session_id, change)
        return texts

    async def _looked_at(
        self,
        principal: Principal,
        row: StoredRow,
        model: dict[str, object],
        wanted: dict[str, Wanted],
    ) -> Preview:
        shelf = await self._shelf(row.tenant_id, model)
        plans = await self._plans(row.tenant_id, model.get("Objects"), shelf, wanted)
        asked: list[MovePlan] = [
            {
                "id": plan.id,
                "moves": [one.view for one in plan.moves],
                "properties": wanted.get(plan.id, Wanted()).properties or {},
            }
            for plan in plans
            if not plan.problems and (plan.moves or wanted.get(plan.id, Wanted()).properties)
        ]
        answer = Comparison(applications={}, problems=[])
        if asked:
            given = {**model, "Objects": to_engine(model.get("Objects"))}
            answer = await self.calls.compare(principal, row.tenant_id, given, asked)
        return {
            "applications": [view(plan, answer["applications"].get(plan.id)) for plan in plans],
            "problems": answer["problems"],
        }

    async def needs(
        self, principal: Principal, environment_id: str, session_id: str, refusal: Dangling
    ) -> bool:
        """Whether a session's model cannot be loaded without what its components refer to.

        An engine looks. ``False`` also when none answers: the deployment itself will say it then.
        """
        row, model = await self._model(principal, environment_id, session_id)
        users = {one.component_id for one in refusal.uses}
        plans: list[MovePlan] = [
            {"id": id_, "moves": [], "properties": {}} for id_ in sorted(users)
        ]
        given = {**model, "Objects": to_engine(model.get("Objects"))}
        try:
            answer = await self.calls.compare(principal, row.tenant_id, given, plans)
        except (ServiceUnavailable, GatewayTimeout):
            return False
        said = [*answer["problems"], *(
            text for one in answer["applications"].values() for text in one["problems"]
        )]  # fmt: skip
        return any(use.id in text for use in refusal.uses for text in said)

    async def _plans(
        self,
        project_id: str,
        objects: Json,
        shelf: Shelf,
        wanted: dict[str, Wanted],
    ) -> list[ApplicationMove]:
        services = {str(object_id(one)): one for one in services_of(objects)}
        for id_ in wanted:
            if id_ not in services:
                raise NotFound(f"There is no application {id_} in this environment")
        plans: list[ApplicationMove] = []
        for id_ in wanted or services:
            plan = plan_application(services[id_], wanted.get(id_, Wanted()).version, shelf)
            if not wanted and plan.direction == "none":
                continue  # every application that can move was requested
            if plan.direction != "none" and not plan.problems:
                assert plan.package is not None
                package = await self.catalog.find_package(plan.package, f"=={plan.new}", project_id)
                requirements: Mapping[str, str | None] = package.requirements if package else {}
                plan_objects(plan, services[id_], requirements, shelf)
            plans.append(plan)
        note_shared(plans, objects)
        return plans

    async def _shelf(self, project_id: str, model: dict[str, object]) -> Shelf:
        return Shelf(await self.catalog.usable(project_id), pinned_packages(model))

    async def _model(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str | None,
        *,
        write: bool = False,
    ) -> tuple[StoredRow, JsonObject]:
        if write:  # what may be written to is locked while it is looked at
            async with self.database.transaction() as tx:
                row = await self.store.environment(tx, principal, environment_id)
                return row, (await self.sessions.writable(tx, row, session_id)).model
        async with self.database.read() as tx:
            row = await self.store.environment(tx, principal, environment_id)
            return row, await self.store.model_to_read(tx, row, session_id)


def checked_versions(body: object) -> dict[str, list[Version]]:
    """The versions by package in ``{"packages": {name: [version]}}``. Errors: 400."""
    packages = cast("dict[str, object]", body).get("packages") if isinstance(body, dict) else None
    if not isinstance(packages, dict):
        raise BadRequest("The body must be an object with 'packages': versions by package")
    found: dict[str, list[Version]] = {}
    for name, versions in cast("dict[str, object]", packages).items():
        if not isinstance(versions, list) or not versions:
            raise BadRequest(f"packages, {name:.80}: expected a list of versions")
        try:
            read = {Version.parse(str(one)) for one in cast("list[object]", versions)}
        except ValueError as error:
            raise BadRequest(f"packages, {name:.80}: {error}") from error
        found[name] = sorted(read)
    return found


def checked_body(body: object) -> dict[str, Wanted]:
    """The requested moves: by the ids of applications a ``version`` spec and ``properties`` to set,
    both optional; empty for every application that can move up. Errors: 400."""
    if body is None:
        return {}
    given: object = (
        cast("dict[str, object]", body).get("applications") if isinstance(body, dict) else 0
    )
    if given is None:
        return {}
    if not isinstance(given, list):
        raise BadRequest("An upgrade must be an object, with or without a list of applications")
    found: dict[str, Wanted] = {}
    for item in cast("list[object]", given):
        one = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        id_, version, values = one.get("id"), one.get("version"), one.get("properties")
        if not isinstance(id_, str) or not id_:
            raise BadRequest("Each application of an upgrade must have its id")
        if id_ in found:
            raise BadRequest(f"The application {id_} is listed twice")
        if version is not None:
            if not isinstance(version, str):
                raise BadRequest("The version of an application must be text, such as 1.2.0")
            try:
                version = str(VersionSpec(version))
            except ValueError as error:
                raise BadRequest(f"version: {error}") from None
        if values is not None and not isinstance(values, dict):
            raise BadRequest(
                "properties must be an object from names of properties to their values"
            )
        if values is not None and "?" in values:
            raise BadRequest("'?' is not a property: give the version to move to in 'version'")
        check_objects(values, "properties")
        found[id_] = Wanted(version, cast("JsonObject | None", values))
    if not found:
        raise BadRequest(
            "The list of applications is empty; leave it out to upgrade all that can be upgraded"
        )
    return found


def refuse(found: Preview) -> None:
    """Refuse an upgrade that would not work. Errors: 409."""
    said = [
        f"{one['name'] or one['id']}: {problem}"
        for one in found["applications"]
        for problem in one["problems"]
    ] + found["problems"]
    if said:
        raise Conflict(
            f"This upgrade would fail: {'; '.join(said)}",
            type_="UpgradeRefused",
            extra={"preview": found},
        )


def refuse_changed(
    service: dict[str, Json], before: Mapping[str, str | None], shelf: Shelf
) -> None:
    """Refuse when an object's version differs from the one in the preview. Errors: 409."""
    for node in walk(service):
        id_ = str(object_id(node))
        found = shelf.class_of(node["?"])
        if id_ in before and found is not None and found.version not in (None, before[id_]):
            raise Conflict(
                f"{id_} is at {found.version}, no longer at {before[id_]}: another request "
                "changed this session; preview the upgrade again"
            )


def view(plan: ApplicationMove, answer: ComparedApplication | None) -> ApplicationView:
    """An application of a preview. ``answer``: the engine's, if it was asked."""
    compared = answer or ComparedApplication(changes={}, problems=[], notes=[])
    return {
        "id": plan.id,
        "name": plan.name,
        "class": plan.class_name,
        "package": plan.package,
        "from": plan.old,
        "to": plan.new,
        "direction": plan.direction,
        "objects": [
            {**move.view, "changes": compared["changes"].get(move.id, [])} for move in plan.moves
        ],
        "shared": plan.shared,
        "problems": [*plan.problems, *compared["problems"]],
        "notes": compared["notes"],
    }
