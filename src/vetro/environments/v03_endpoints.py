"""The v0.3 dialect: the same environments without ``/v1`` (catalog-api.md §7).

Environments that are created here have flat services (``model_kind`` ``workflow``). Both kinds are
reached by both prefixes; what differs are statuses of answers and names of states.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import cast

from vetro.environments import (
    bodies,
    deployment_endpoints,
    environment_endpoints,
    flat,
    model_endpoints,
    shapes,
    states,
)
from vetro.environments.endpoint import MODEL_LIMIT, Call, Endpoint
from vetro.environments.model import Json, delete_path, get_path, put_path, segments
from vetro.environments.store import ForeignProject, SessionElsewhere, SessionRequired
from vetro.environments.views import ReportView, SessionView
from vetro.http import BadRequest, Forbidden, NotFound, Reply, Unauthorized
from vetro.http.endpoint import EMPTY, Answer, Body
from vetro.http.parameters import Param

Run = Callable[[Call], Awaitable[Json]]
E = "/environments/{environment_id}"
TIMES = ("created", "updated", "started", "finished", "environment_gone")
SESSION_STATES = {
    states.OPENED: "open",
    states.DEPLOYING: "deploying",
    states.DELETING: "deploying",
}
STATUSES = {
    states.PENDING: "pending",
    states.DEPLOYING: "deploying",
    states.DELETING: "deploying",
}


@contextmanager
def _statuses(*, writes: bool = False) -> Generator[None]:
    """The statuses of this dialect, where they differ from those of ``/v1``."""
    try:
        yield
    except ForeignProject as error:
        raise Unauthorized(error.message) from error
    except SessionRequired as error:
        raise Forbidden(error.message) from error
    except SessionElsewhere as error:
        raise NotFound(error.message) from error
    except NotFound as error:
        if writes and error.type == "SessionNotFound":
            raise Forbidden(error.message) from error
        raise


def _dialect(run: Run, *, writes: bool = False) -> Run:
    @functools.wraps(run)
    async def wrapped(call: Call) -> Json:
        with _statuses(writes=writes):
            return await run(call)

    return wrapped


def _put(call: Call, value: Json) -> Answer:
    return Answer(call.service.api.v03_put_status, value)


def zoned(row: Mapping[str, object]) -> dict[str, object]:
    """A row whose times end in ``Z``, as those of this dialect do (§3)."""
    times = {name: f"{row[name]}Z" for name in TIMES if row.get(name)}
    return {**row, **times}


def environment_view(row: Mapping[str, object]) -> dict[str, object]:
    """An environment with the states of this dialect."""
    status = str(row["status"])
    return {**zoned(row), "status": STATUSES.get(status, states.READY), "status_detail": status}


def session_view(row: SessionView) -> dict[str, object]:
    """A session with the states of this dialect."""
    state = row["state"]
    return {
        **zoned(row),
        "state": SESSION_STATES.get(state, states.DEPLOYED),
        "state_detail": state,
    }


# Environments and sessions


async def listing(call: Call) -> Json:
    """Environments of the project, of both kinds."""
    rows, _ = await call.service.store.listing(call.principal)
    return {"environments": [environment_view(row) for row in rows]}


async def create(call: Call) -> Json:
    """Create an environment for flat services."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    row = await call.service.store.create_workflow(call.principal, body)
    return environment_view({**row, "status": states.READY})


async def show(call: Call) -> Json:
    """An environment with its services."""
    found = await call.service.store.show(call.principal, call.environment, call.session)
    view = environment_view(found)
    if found["model_kind"] == flat.WORKFLOW:
        view["services"] = await _read(call, [])
    return await call.model_response(view)


async def change(call: Call) -> Json:
    """Change the name of an environment, its description, or both."""
    body = await call.json()
    row = await call.service.store.change(call.principal, call.environment, body)
    async with call.service.database.read() as tx:
        status = await call.service.store.status(tx, call.environment)
    return _put(call, environment_view({**row, "status": status}))


async def remove(call: Call) -> Json:
    """Destroy an environment."""
    await call.service.work.delete_environment(call.principal, call.environment, abandon=False)
    return EMPTY


async def configure(call: Call) -> Json:
    """Open a session."""
    return session_view(await environment_endpoints.configure(call))


async def show_session(call: Call) -> Json:
    """A session."""
    return session_view(await environment_endpoints.show_session(call))


async def deploy(call: Call) -> Json:
    """Deploy a session's changes; ``mayLose`` as in ``/v1``."""
    await environment_endpoints.submit(call)
    return EMPTY


# Services


async def _kind(call: Call) -> str:
    async with call.service.database.read() as tx:
        row = await call.service.store.environment(
            tx, call.principal, call.environment, with_model=False
        )
        return str(row.model_kind)


async def _defined(call: Call, services: Iterable[Json]) -> frozenset[str]:
    """The types that the metadata repository adds, when a service is of none of the nine."""
    for one in services:
        if isinstance(one, dict) and cast("dict[str, Json]", one).get("type") not in flat.TYPES:
            return await call.service.service_types(call.principal.project_id)
    return frozenset()


async def _change(call: Call, work: Callable[[dict[str, Json]], Json]) -> Json:
    return await call.service.sessions.change_objects(
        call.principal, call.environment, call.session, work
    )


def _visible(call: Call, service: Json) -> Json:
    """A written service as a read gives it; an open session makes its environment pending."""
    secrets = call.service.api.v03_expose_secrets
    return flat.shown([service], states.PENDING, secrets=secrets)[0]


async def read(call: Call) -> Json:
    """The services, one of them, or a part of one."""
    if await _kind(call) != flat.WORKFLOW:
        return await model_endpoints.read(call)
    return await call.model_response(await _read(call, segments(call.path.get("path", ""))))


async def _read(call: Call, parts: list[str]) -> Json:
    """What is at a path of the flat services."""
    store = call.service.store
    async with call.service.database.read() as tx:
        row = await store.environment(tx, call.principal, call.environment)
        model = await store.model_to_read(tx, row, call.session)
        status = await store.status(tx, call.environment)
    services = flat.shown(
        (model.get("Objects") or {}).get("services", []),
        STATUSES.get(status, states.READY),
        secrets=call.service.api.v03_expose_secrets,
    )
    return get_path(services, parts)


async def append(call: Call) -> Json:
    """Add a service (or several), or at ``SERVICE/units`` a unit."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    parts = segments(call.path.get("path", ""))
    is_unit = parts[1:] == ["units"]
    if not isinstance(body, (dict, list)) or not (body or (is_unit and body == {})):
        wanted = "a unit, or a list of units" if is_unit else "a service, or a list of them"
        raise BadRequest(f"The body must be {wanted}")
    added = cast("list[Json]", body if isinstance(body, list) else [body])
    if await _kind(call) != flat.WORKFLOW and not await _switched(call, added, parts):
        if any(flat.is_flat(one) for one in added) and not parts:
            raise BadRequest(flat.NO_FLAT)
        return await model_endpoints.append(call)
    defined = await _defined(call, added if not parts else ())

    def add(objects: dict[str, Json]) -> Json:
        target: Json = objects.setdefault("services", [])
        if parts:
            target = get_path(target, parts)
        if not isinstance(target, list):
            raise NotFound("There is no list at this path to add to")
        if not parts:
            for one in added:
                flat.check_new(one, defined)
        elif is_unit and not all(isinstance(one, dict) for one in added):
            raise BadRequest("A unit must be an object")
        cast("list[Json]", target).extend(added)
        return added

    await _change(call, add)
    if not parts:
        answers = [_visible(call, one) for one in added]
    else:
        answers = [_hidden_in(call, parts, one) for one in added]
    return await call.model_response(answers if isinstance(body, list) else answers[0])


def _hidden_in(call: Call, parts: list[str], value: Json) -> Json:
    """A written part of a service without what only units' writers know."""
    if not isinstance(value, dict) or call.service.api.v03_expose_secrets:
        return cast("Json", value)
    hidden = frozenset[str]().union(*(one.hidden_of_unit for one in flat.TYPES.values()))
    given = cast("dict[str, Json]", value)
    visible = {name: one for name, one in given.items() if name not in hidden}
    flat.hide_in_state(visible)
    return visible


async def _switched(call: Call, added: list[Json], parts: list[str]) -> bool:
    """Whether an empty, never deployed environment now has flat services (§7)."""
    if parts or not added or not all(flat.is_flat(one) for one in added):
        return False
    return await call.service.sessions.become_flat(call.principal, call.environment, call.session)


async def replace(call: Call) -> Json:
    """Replace all services or one, change attributes of one, or set the value at a path."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    parts = segments(call.path.get("path", ""))
    if await _kind(call) != flat.WORKFLOW:
        answer = await model_endpoints.replace(call)
        answer.status_code = call.service.api.v03_put_status
        return answer
    listed = cast("list[Json]", body) if isinstance(body, list) and not parts else []
    defined = await _defined(call, listed)

    def set_value(objects: dict[str, Json]) -> Json:
        services = cast("list[Json]", objects.setdefault("services", []))
        if not parts:
            return _set_services(objects, services, body, defined)
        service = flat.service_at(services, parts[0])
        if len(parts) == 1:
            if not isinstance(body, dict):
                raise BadRequest("A service must be an object")
            given = cast("dict[str, Json]", body)
            flat.kept(service, given)
            services[services.index(service)] = given
            return given
        flat.refuse_fixed(parts)
        value = copy.deepcopy(cast("Json", body))
        known = flat.TYPES.get(str(service.get("type")))
        if parts[1:] == ["units"]:
            flat.keep_units(service.get("units"), value, known)
        elif parts[1] == "units" and len(parts) == 3:
            flat.keep_unit(get_path(services, parts), value, known)
        put_path(services, parts, value)
        return value

    written = await _change(call, set_value)
    return await _put_answer(call, parts, written)


async def _put_answer(call: Call, parts: list[str], written: Json) -> Json:
    if not parts and isinstance(written, list):
        value: Json = [_visible(call, one) for one in cast("list[Json]", written)]
    elif len(parts) <= 1:
        value = _visible(call, written)
    elif isinstance(written, list):
        value = [_hidden_in(call, parts, one) for one in cast("list[Json]", written)]
    else:
        value = _hidden_in(call, parts, written)
    answer = await call.model_response(value)
    answer.status_code = call.service.api.v03_put_status
    return answer


def _set_services(
    objects: dict[str, Json], services: list[Json], body: Json, defined: frozenset[str]
) -> Json:
    """``PUT /services``: a list replaces all, an object changes attributes of the service it names."""
    if isinstance(body, list):
        old: dict[str, dict[str, Json]] = {str(one["id"]): one for one in services}
        new = cast("list[Json]", body)
        for one in new:
            given = cast("dict[str, Json]", one if isinstance(one, dict) else {})
            was = old.get(str(given.get("id")))
            if was is not None:
                flat.kept(was, given)
            flat.check_new(one, defined)
        objects["services"] = new
        return new
    given = cast("dict[str, Json]", body) if isinstance(body, dict) else {}
    found = next((one for one in services if given.get("id") and one["id"] == given["id"]), None)
    if found is None:
        raise BadRequest(
            "The body must be a list of services, or an object with the id of one and attributes"
        )
    if given.get("type", found["type"]) != found["type"]:
        raise BadRequest(f"The type of a service cannot change: it is {found['type']}")
    if "units" in given:
        flat.keep_units(found.get("units"), given["units"], flat.TYPES.get(str(found["type"])))
    found.update({name: one for name, one in given.items() if name not in flat.FIXED})
    return found


async def drop(call: Call) -> Json:
    """Remove all services, or what is at a path."""
    parts = segments(call.path.get("path", ""))
    if await _kind(call) != flat.WORKFLOW:
        return await model_endpoints.remove(call)

    def cut(objects: dict[str, Json]) -> None:
        if not parts:
            objects["services"] = []
            return
        services = cast("list[Json]", objects.get("services", []))
        flat.service_at(services, parts[0])
        flat.refuse_fixed(parts)
        delete_path(services, parts)

    await _change(call, cut)
    return EMPTY


# Deployments


def _of_deployment(view: ReportView) -> dict[str, object]:
    """A report with ``deployment_id`` in place of ``task_id``."""
    return {("deployment_id" if key == "task_id" else key): one for key, one in zoned(view).items()}


async def deployments(call: Call) -> Json:
    """Deployments of an environment, newest first."""
    found = await deployment_endpoints.deployments(call)
    return {**found, "deployments": [zoned(one) for one in found["deployments"]]}


async def reports(call: Call) -> Json:
    """The reports of a deployment, oldest first."""
    found = await deployment_endpoints.reports(call)
    return {"reports": [_of_deployment(one) for one in found["reports"]]}


async def last_status(call: Call) -> Json:
    """The newest report of each service."""
    found = await deployment_endpoints.last_status(call)
    newest: dict[str, ReportView | None] = found["lastStatuses"]
    return {
        "lastStatuses": {
            id_: None if one is None else _of_deployment(one) for id_, one in newest.items()
        }
    }


def _endpoint(
    name: str,
    verb: str,
    path: str,
    run: Run,
    params: tuple[Param, ...] = (),
    takes: Body | None = None,
    *,
    reply: Mapping[str, object] | Reply | None = None,
    errors: tuple[int, ...] = (),
    writes: bool = False,
) -> Endpoint:
    run = _dialect(run, writes=writes)
    return Endpoint(f"v03_{name}", verb, path, run, params, takes, reply=reply, errors=errors)


def _writing(
    name: str,
    verb: str,
    path: str,
    run: Run,
    takes: Body | None = None,
    reply: Mapping[str, object] | Reply | None = None,
) -> Endpoint:
    return _endpoint(
        name, verb, path, run, bodies.SESSION, takes, reply=reply, writes=True, errors=(409,)
    )


_SESSION, _ALL, _AT = E + "/sessions/{session_id}", E + "/services", E + "/services/{path:path}"
_STATISTICS = E + "/instance-statistics"

ENDPOINTS = [
    _endpoint("list_environments", "GET", "/environments", listing, reply=shapes.V03_ENVIRONMENTS),
    _endpoint("create_environment", "POST", "/environments", create, (), bodies.RENAME,
              reply=shapes.V03_ENVIRONMENT, errors=(409,)),
    _endpoint("show_environment", "GET", E, show, bodies.SESSION, reply=shapes.V03_ENVIRONMENT),
    _endpoint("change_environment", "PUT", E, change, (), bodies.CHANGE,
              reply=Reply(shapes.V03_ENVIRONMENT, status=201, others={200: shapes.V03_ENVIRONMENT}),
              errors=(409,)),
    _endpoint("delete_environment", "DELETE", E, remove),
    _endpoint("open_session", "POST", E + "/configure", configure, reply=shapes.V03_SESSION),
    _endpoint("show_session", "GET", _SESSION, show_session, reply=shapes.V03_SESSION),
    _endpoint("drop_session", "DELETE", _SESSION, environment_endpoints.drop_session),
    _endpoint(
        "deploy_session", "POST", _SESSION + "/deploy", deploy, bodies.MAY_LOSE, errors=(409,)
    ),
    _endpoint("list_services", "GET", _ALL, read, bodies.SESSION, reply=shapes.ANYTHING),
    _endpoint("show_service", "GET", _AT, read, bodies.SESSION, reply=shapes.ANYTHING),
    _writing("add_services", "POST", _ALL, append, bodies.PUT_SERVICES, reply=shapes.ANYTHING),
    _writing("add_services_at", "POST", _AT, append, bodies.PUT_SERVICES, reply=shapes.ANYTHING),
    _writing("replace_services", "PUT", _ALL, replace, bodies.PUT_SERVICES,
             reply=Reply(shapes.ANYTHING, status=201, others={200: shapes.ANYTHING})),
    _writing("replace_service", "PUT", _AT, replace, bodies.PUT_SERVICES,
             reply=Reply(shapes.ANYTHING, status=201, others={200: shapes.ANYTHING})),
    _writing("delete_services", "DELETE", _ALL, drop),
    _writing("delete_service", "DELETE", _AT, drop),
    _endpoint("list_deployments", "GET", E + "/deployments", deployments, reply=shapes.OBJECT),
    _endpoint("list_reports", "GET", E + "/deployments/{deployment_id}", reports, bodies.REPORTS,
              reply=shapes.OBJECT),
    _endpoint("last_statuses", "GET", E + "/lastStatus", last_status, bodies.SESSION,
              reply=shapes.OBJECT),
    _endpoint("aggregated_statistics", "GET", _STATISTICS + "/aggregated",
              deployment_endpoints.aggregated_statistics, reply=shapes.ANY_LIST),
    _endpoint("raw_statistics", "GET", _STATISTICS + "/raw", deployment_endpoints.raw_statistics,
              reply=shapes.ANY_LIST),
    _endpoint("raw_statistics_of_instance", "GET", _STATISTICS + "/raw/{instance_id}",
              deployment_endpoints.raw_statistics, reply=shapes.ANY_LIST),
]  # fmt: skip
