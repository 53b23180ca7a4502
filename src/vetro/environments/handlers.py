"""HTTP of environments, sessions, services, deployments and actions (catalog-api.md §5)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
from litestar import Request, Response, delete, get, patch, post, put
from litestar.params import FromPath
from sqlalchemy import select

from vetro.catalog import api_time, empty
from vetro.environments import bodies
from vetro.environments.model import (
    check_services,
    delete_path,
    get_path,
    ids_below,
    put_path,
    segments,
)
from vetro.environments.modelpatch import patch_model
from vetro.environments.store import EnvironmentStore, with_status
from vetro.environments.tables import instances, statuses, tasks
from vetro.environments.task_values import task_channel
from vetro.environments.tasks import TaskStore
from vetro.http import (
    ANY_ACCEPT,
    BadRequest,
    NotFound,
    ServerEvent,
    event_stream,
    principal_of,
    read_json,
)
from vetro.storage import Database

AnyRequest = Request[Any, Any, Any]
MODEL_LIMIT = 8 * 2**20
MODEL_PATCH = "application/env-model-json-patch"


def session_of(request: AnyRequest) -> str | None:
    """The configuration session of a request; an empty header is none."""
    return request.headers.get("x-configuration-session") or None


def may_overtake(request: AnyRequest) -> bool:
    """Whether sessions with changes may be overtaken, as clients know it. Errors: 400."""
    given = request.query_params.get("pending", "overtake")
    if given not in ("overtake", "refuse"):
        raise BadRequest(f"pending is 'overtake' (the default) or 'refuse', not {given!r:.80}")
    return given == "overtake"


def json_response(value: Any) -> Response[Any]:
    """Any JSON value, bare scalars and null included."""
    return Response(msgspec.json.encode(value), media_type="application/json", status_code=200)


async def model_response(value: Any) -> Response[Any]:
    """The same for what may be large: written beside the loop, others are served meanwhile."""
    body = await asyncio.to_thread(msgspec.json.encode, value)
    return Response(body, media_type="application/json", status_code=200)


def environment_handlers(store: EnvironmentStore, work: TaskStore) -> list[Any]:
    """The handlers of environments and sessions."""

    @get("/v1/environments", operation_class=bodies.LIST)
    async def listing(request: AnyRequest) -> dict[str, Any]:
        """Environments of the project."""
        rows = await store.listing(
            principal_of(request),
            all_tenants=str(request.query_params.get("all_tenants", "")).lower() == "true",
            tenant=request.query_params.get("tenant"),
        )
        return {"environments": rows}

    @post("/v1/environments", status_code=200, operation_class=bodies.CREATE)
    async def create(request: AnyRequest) -> dict[str, Any]:
        """Create an environment."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        return await store.create(principal_of(request), body)

    @get("/v1/environments/{environment_id:str}", operation_class=bodies.READ)
    async def show(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """An environment with its applications."""
        found = await store.show(principal_of(request), environment_id, session_of(request))
        return await model_response(found)

    @put("/v1/environments/{environment_id:str}", operation_class=bodies.RENAME)
    async def rename(request: AnyRequest, environment_id: FromPath[str]) -> dict[str, Any]:
        """Rename an environment."""
        body = await read_json(request)
        return await store.rename(principal_of(request), environment_id, body)

    @delete("/v1/environments/{environment_id:str}", status_code=200, operation_class=bodies.REMOVE)
    async def remove(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """Destroy an environment, or with ``abandon=true`` only forget it."""
        abandon = str(request.query_params.get("abandon", "")).lower() == "true"
        await work.delete_environment(principal_of(request), environment_id, abandon=abandon)
        return empty()

    @post("/v1/environments/{environment_id:str}/configure", status_code=200)
    async def configure(request: AnyRequest, environment_id: FromPath[str]) -> dict[str, Any]:
        """Open a session."""
        return await store.configure(principal_of(request), environment_id)

    @get("/v1/environments/{environment_id:str}/sessions")
    async def opened_sessions(request: AnyRequest, environment_id: FromPath[str]) -> dict[str, Any]:
        """The opened sessions and the changes they hold."""
        return {"sessions": await work.sessions.listing(principal_of(request), environment_id)}

    @get("/v1/environments/{environment_id:str}/sessions/{session_id:str}")
    async def show_session(
        request: AnyRequest, environment_id: FromPath[str], session_id: FromPath[str]
    ) -> dict[str, Any]:
        """A session."""
        return await store.show_session(principal_of(request), environment_id, session_id)

    @delete("/v1/environments/{environment_id:str}/sessions/{session_id:str}", status_code=200)
    async def drop_session(
        request: AnyRequest, environment_id: FromPath[str], session_id: FromPath[str]
    ) -> Response[Any]:
        """Drop a session and its changes."""
        await store.delete_session(principal_of(request), environment_id, session_id)
        return empty()

    @post("/v1/environments/{environment_id:str}/sessions/{session_id:str}/rebase", status_code=200)
    async def rebase(
        request: AnyRequest, environment_id: FromPath[str], session_id: FromPath[str]
    ) -> dict[str, Any]:
        """Open a session of now with the changes of an overtaken one."""
        return await work.sessions.rebase(principal_of(request), environment_id, session_id)

    @post(
        "/v1/environments/{environment_id:str}/sessions/{session_id:str}/deploy",
        status_code=200,
        operation_class=bodies.DEPLOY,
    )
    async def deploy(
        request: AnyRequest, environment_id: FromPath[str], session_id: FromPath[str]
    ) -> Response[Any]:
        """Deploy a session's changes; ``pending=refuse``: 409 when others hold changes."""
        await work.deploy(
            principal_of(request), environment_id, session_id, overtake=may_overtake(request)
        )
        return empty()

    return [
        listing,
        create,
        show,
        rename,
        remove,
        configure,
        opened_sessions,
        show_session,
        drop_session,
        rebase,
        deploy,
    ]


def service_handlers(database: Database, store: EnvironmentStore) -> list[Any]:
    """The handlers of the services tree and the model (§5.3, §5.4)."""

    async def read_objects(request: AnyRequest, environment_id: str) -> tuple[Any, str]:
        async with database.read() as tx:
            row = await store.environment(tx, principal_of(request), environment_id)
            model = await store.model_to_read(tx, row, session_of(request))
            return model.get("Objects") or {}, await store.status(tx, environment_id)

    async def change(request: AnyRequest, environment_id: str, work: Any) -> Any:
        return await store.change_objects(
            principal_of(request), environment_id, session_of(request), work
        )

    base = "/v1/environments/{environment_id:str}/services"

    @get([base, base + "/{path:path}"], operation_class=bodies.READ)
    async def read(
        request: AnyRequest, environment_id: FromPath[str], path: FromPath[str] = ""
    ) -> Response[Any]:
        """The applications, or a part of them."""
        objects, status = await read_objects(request, environment_id)
        parts = segments(path)
        if not parts:
            return await model_response(with_status(objects.get("services", []), status))
        return await model_response(get_path(objects.get("services", []), parts))

    @post([base, base + "/{path:path}"], status_code=200, operation_class=bodies.ADD_SERVICES)
    async def append(
        request: AnyRequest, environment_id: FromPath[str], path: FromPath[str] = ""
    ) -> Response[Any]:
        """Add applications (or elements of a list inside one)."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        parts = segments(path)

        def add(objects: dict[str, Any]) -> Any:
            if not body or not isinstance(body, (dict, list)):
                raise BadRequest("The body must be an application object, or a list of them")
            added = cast("list[Any]", body if isinstance(body, list) else [body])
            check_services(added)
            target = objects.setdefault("services", [])
            if parts:
                target = get_path(target, parts)
            if not isinstance(target, list):
                raise NotFound("There is no list at this path to add to")
            cast("list[Any]", target).extend(added)
            return cast("Any", body)

        return await model_response(await change(request, environment_id, add))

    @put([base, base + "/{path:path}"], operation_class=bodies.PUT_SERVICES)
    async def replace(
        request: AnyRequest, environment_id: FromPath[str], path: FromPath[str] = ""
    ) -> Response[Any]:
        """Replace all applications, or the value at a path."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        parts = segments(path)

        def set_value(objects: dict[str, Any]) -> Any:
            value: Any = body
            check_services(value)
            if not parts:
                value = value or []
                objects["services"] = value
            else:
                put_path(objects.setdefault("services", []), parts, value)
            root = objects.get("?")
            if isinstance(root, dict):
                cast("dict[str, Any]", root)["updated"] = api_time(database.clock.now())
            return value

        return await model_response(await change(request, environment_id, set_value))

    @delete([base, base + "/{path:path}"], status_code=200, operation_class=bodies.READ)
    async def remove(
        request: AnyRequest, environment_id: FromPath[str], path: FromPath[str] = ""
    ) -> Response[Any]:
        """Remove all applications, or what is at a path."""
        parts = segments(path)

        def drop(objects: dict[str, Any]) -> None:
            if parts:
                delete_path(objects.get("services", []), parts)
            else:
                objects["services"] = []

        await change(request, environment_id, drop)
        return empty()

    model_path = "/v1/environments/{environment_id:str}/model"

    @get([model_path, model_path + "/{path:path}"], operation_class=bodies.READ)
    async def read_model(
        request: AnyRequest, environment_id: FromPath[str], path: FromPath[str] = ""
    ) -> Response[Any]:
        """The object model, or a part of it."""
        objects, _ = await read_objects(request, environment_id)
        return await model_response(get_path(objects, segments(path)))

    @patch(model_path, operation_class=bodies.PATCH_MODEL)
    async def change_model(request: AnyRequest, environment_id: FromPath[str]) -> Response[Any]:
        """Patch the object model."""
        body = await read_json(request, (MODEL_PATCH,), limit_bytes=MODEL_LIMIT)

        def apply(objects: dict[str, Any]) -> Any:
            changed = copy.deepcopy(objects)
            patch_model(changed, body)
            check_services(changed)
            objects.clear()
            objects.update(changed)
            return objects

        return await model_response(await change(request, environment_id, apply))

    return [read, append, replace, remove, read_model, change_model]


def deployment_handlers(database: Database, store: EnvironmentStore, work: TaskStore) -> list[Any]:
    """The handlers of deployments, reports, actions and statistics (§5.5-5.7)."""

    @get("/v1/deployments")
    async def project_deployments(request: AnyRequest) -> dict[str, Any]:
        """Deployments of the project."""
        return {"deployments": await work.history.deployments(principal_of(request), None)}

    base = "/v1/environments/{environment_id:str}"

    @get(base + "/deployments")
    async def deployments(request: AnyRequest, environment_id: FromPath[str]) -> dict[str, Any]:
        """Deployments of an environment, newest first."""
        return {
            "deployments": await work.history.deployments(principal_of(request), environment_id)
        }

    @get(base + "/deployments/{deployment_id:str}", operation_class=bodies.REPORTS)
    async def reports(
        request: AnyRequest, environment_id: FromPath[str], deployment_id: FromPath[str]
    ) -> dict[str, Any]:
        """The reports of a deployment, oldest first."""
        async with database.read() as tx:
            row = await work.history.task(tx, principal_of(request), environment_id, deployment_id)
            found = await work.history.reports(tx, deployment_id)
        wanted = [
            part
            for value in request.query_params.getall("service_id", [])
            for part in str(value).split("?service_id=")
        ]
        if wanted:
            entities: set[str] = set()
            for service in cast("list[Any]", row.description.get("services", [])):
                below = ids_below(service)
                if service.get("?", {}).get("id") in wanted:
                    entities |= below
            found = [one for one in found if one.entity_id in entities]
        return {"reports": [work.history.report_view(one) for one in found]}

    @post(
        base + "/deployments/{deployment_id:str}/cancel",
        status_code=202,
        operation_class=bodies.CANCELLATION,
    )
    async def cancel(
        request: AnyRequest, environment_id: FromPath[str], deployment_id: FromPath[str]
    ) -> dict[str, Any]:
        """End a deployment that runs or waits; the body may say why.

        The answer is the deployment. It has ended when it was only waiting; else its engine ends it
        soon, and the event stream says when. 409: it has ended already.
        """
        body: Any = await read_json(request, limit_bytes=MODEL_LIMIT)
        given = cast("dict[str, Any]", body if isinstance(body, dict) else {})
        reason = given.get("reason", "")
        if (
            (body is not None and body is not given)
            or not isinstance(reason, str)
            or len(reason) > 500
        ):
            raise BadRequest("The reason of a cancellation is a text of at most 500 characters")
        return await work.cancel(principal_of(request), environment_id, deployment_id, reason)

    @get(
        base + "/deployments/{deployment_id:str}/events",
        opt=ANY_ACCEPT,
        operation_class=bodies.EVENTS,
        media_type="text/event-stream",
    )
    async def events(
        request: AnyRequest, environment_id: FromPath[str], deployment_id: FromPath[str]
    ) -> Any:
        """A deployment's reports and states as they come, as server-sent events.

        Events: ``report``, ``state``, ``waiting`` and, last, ``end``. ``Last-Event-ID`` goes on with
        a broken stream.
        """
        principal = principal_of(request)
        last = request.headers.get("last-event-id", "0")
        after = int(last) if last.isdigit() else 0
        # Errors before the stream begins: they must be an error response.
        await work.history.progress(principal, environment_id, deployment_id, after)

        async def source() -> AsyncIterator[ServerEvent]:
            position, state, waiting = after, "", None
            async with database.listen(task_channel(deployment_id)) as subscription:
                while True:
                    found, view = await work.history.progress(
                        principal, environment_id, deployment_id, position
                    )
                    for one in found:
                        position = one.sequence
                        yield ServerEvent("report", work.history.report_view(one), id=str(position))
                    if view["state"] != state:
                        state = view["state"]
                        yield ServerEvent("state", {"state": state})
                    if view["waiting_on"] != waiting:
                        waiting = view["waiting_on"]
                        yield ServerEvent("waiting", {"waiting_on": waiting})
                    if view["finished"] is not None:
                        result = view["result"]
                        yield ServerEvent("end", {"state": final_state(state, result)})
                        return
                    await subscription.wait()

        return event_stream(request, source())

    @get(base + "/lastStatus", operation_class=bodies.READ)
    async def last_status(request: AnyRequest, environment_id: FromPath[str]) -> dict[str, Any]:
        """The newest report of each application."""
        async with database.read() as tx:
            row = await store.environment(tx, principal_of(request), environment_id)
            model = await store.model_to_read(tx, row, session_of(request))
            found = await tx.execute(
                select(statuses)
                .join(tasks, tasks.c.id == statuses.c.task_id)
                .where(tasks.c.environment_id == environment_id)
                .order_by(tasks.c.sequence, statuses.c.sequence)
            )
            newest = {one.entity_id: one for one in found}
        result: dict[str, Any] = {}
        objects: dict[str, Any] = model.get("Objects") or {}
        for service in cast("list[Any]", objects.get("services", [])):
            mine = [newest[id_] for id_ in ids_below(service) if id_ in newest]
            best = max(mine, key=lambda one: (one.created, one.sequence), default=None)
            result[service["?"]["id"]] = (
                work.history.report_view(best) if best is not None else None
            )
        return {"lastStatuses": result}

    @post(base + "/actions/{action_id:str}", status_code=200, operation_class=bodies.ACTION)
    async def call_action(
        request: AnyRequest, environment_id: FromPath[str], action_id: FromPath[str]
    ) -> dict[str, Any]:
        """Call an action; ``pending=refuse``: 409 when sessions hold changes."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        task = await work.call_action(
            principal_of(request),
            environment_id,
            action_id,
            body,
            overtake=may_overtake(request),
        )
        return {"task_id": task}

    @get(base + "/actions/{task_id:str}")
    async def action_result(
        request: AnyRequest, environment_id: FromPath[str], task_id: FromPath[str]
    ) -> dict[str, Any]:
        """The result of an action."""
        return await work.history.action_result(principal_of(request), environment_id, task_id)

    @get(
        [
            base + "/instance-statistics/aggregated",
            base + "/instance-statistics/raw",
            base + "/instance-statistics/raw/{instance_id:str}",
        ]
    )
    async def statistics(
        request: AnyRequest, environment_id: FromPath[str], instance_id: FromPath[str] = ""
    ) -> Response[Any]:
        """How long instances and applications have existed."""
        async with database.read() as tx:
            await store.environment(tx, principal_of(request), environment_id)
            query = select(instances).where(instances.c.environment_id == environment_id)
            if instance_id:
                query = query.where(instances.c.instance_id == instance_id)
            rows = [_statistic(one, database) for one in await tx.execute(query)]
        if not request.url.path.rstrip("/").endswith("/aggregated"):
            return json_response(rows)
        groups: dict[int, dict[str, int]] = {}
        for one in rows:
            group = groups.setdefault(one["type"], {"type": one["type"], "duration": 0, "count": 0})
            group["duration"] += one["duration"]
            group["count"] += 1
        return json_response(list(groups.values()))

    return [
        project_deployments,
        deployments,
        reports,
        cancel,
        events,
        last_status,
        call_action,
        action_result,
        statistics,
    ]


def _statistic(row: Any, database: Database) -> dict[str, Any]:
    end = row.destroyed or database.clock.now()
    return {
        "type": row.instance_type,
        "type_name": row.type_name,
        "type_title": row.type_title,
        "unit_count": row.unit_count,
        "instance_id": row.instance_id,
        "duration": int((end - row.created).total_seconds()),
        "active": row.destroyed is None,
    }


def final_state(state: str, result: dict[str, Any]) -> str:
    """The state at the end; an action that raised failed even without an error report."""
    if result.get("isException") and state != "completed_w_errors":
        return "completed_w_errors"
    return state
