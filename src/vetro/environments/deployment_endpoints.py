"""The calls of deployments, reports, actions and statistics (catalog-api.md §5.5-5.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from litestar.response import Stream

from vetro.digits import is_number
from vetro.environments import bodies, shapes, states
from vetro.environments.endpoint import MODEL_LIMIT, Call, E, Endpoint
from vetro.environments.flat import ids_of
from vetro.environments.instance_records import instance_statistics, newest_reports
from vetro.environments.model import MASK, Json, ids_below, object_id
from vetro.environments.paging import answer, listing_of
from vetro.environments.task_values import task_channel
from vetro.environments.views import DeploymentView
from vetro.http import BadRequest, Extras, Reply, ServerEvent, event_stream, listed
from vetro.json_values import JsonObject


async def project_deployments(call: Call) -> Json:
    """Deployments of the project."""
    return await _listed(call, None)


async def deployments(call: Call) -> Json:
    """Deployments of an environment, newest first."""
    return await _listed(call, call.environment)


async def _listed(call: Call, environment: str | None) -> Json:
    listing = listing_of(call.request, states.DEPLOYMENT)
    found, marker = await call.service.work.history.deployments(
        call.principal, environment, listing
    )
    if call.hides_secrets:
        for one in found:
            # What an action returns is its caller's: a password, perhaps, under no name.
            if one["result"].get("result") is not None and not one["result"].get("isException"):
                one["result"] = {**one["result"], "result": MASK}
    return answer("deployments", (found, marker))


async def reports(call: Call) -> Json:
    """The reports of a deployment, oldest first."""
    async with call.service.database.read() as tx:
        row = await call.service.work.history.task(
            tx, call.principal, call.environment, call.path["deployment_id"]
        )
        found = await call.service.work.history.reports(tx, call.path["deployment_id"])
    wanted = [
        part
        for value in call.request.query_params.getall("service_id", [])
        for part in str(value).split("?service_id=")
    ]
    if wanted:
        entities: set[str] = set()
        for service in cast("list[object]", row.description.get("services", [])):
            below = ids_below(service) | ids_of(service)
            if object_id(service) in wanted:
                entities |= below
        found = [one for one in found if one.entity_id in entities]
    return {"reports": [call.service.work.history.report_view(one) for one in found]}


async def trace(call: Call) -> Json:
    """Which rules of XML workflows fired in a deployment, on what, and what they changed and sent.

    Round by round. Empty for deployments of applications, which no workflows run.
    """
    task = call.path["deployment_id"]
    async with call.service.database.read() as tx:
        await call.service.work.history.task(tx, call.principal, call.environment, task)
        return {"rounds": await call.service.work.history.trace(tx, task)}


async def cancel(call: Call) -> Json:
    """End a deployment that runs or waits; the body may say why.

    The answer is the deployment. It has ended when it was only waiting; else its engine ends it
    soon, and the event stream says when. 409: it has ended already.
    """
    body: object = await call.json(limit_bytes=MODEL_LIMIT)
    given = cast("dict[str, object]", body if isinstance(body, dict) else {})
    reason = given.get("reason", "")
    if (body is not None and body is not given) or not isinstance(reason, str) or len(reason) > 500:
        raise BadRequest("The reason of a cancellation must be text of at most 500 characters")
    return await call.service.work.cancel(
        call.principal, call.environment, call.path["deployment_id"], reason
    )


async def events(call: Call) -> Stream:
    """A deployment's reports and states as they come, as server-sent events.

    Events: ``report``, ``state``, ``waiting`` and, last, ``end``. ``Last-Event-ID`` continues a broken
    stream.
    """
    principal = call.principal
    last = call.header("last-event-id") or "0"
    after = int(last) if is_number(last) else 0
    # Errors before the stream begins: they must be an error response.
    await call.service.work.history.progress(
        principal, call.environment, call.path["deployment_id"], after
    )

    async def source() -> AsyncIterator[ServerEvent]:
        position, state, waiting = after, "", None
        async with call.service.database.listen(
            task_channel(call.path["deployment_id"])
        ) as subscription:
            while True:
                found, view = await call.service.work.history.progress(
                    principal, call.environment, call.path["deployment_id"], position
                )
                for one in found:
                    position = one.sequence
                    yield ServerEvent(
                        "report", call.service.work.history.report_view(one), id=str(position)
                    )
                if view["state"] != state:
                    state = view["state"]
                    yield ServerEvent("state", {"state": state})
                if view["waiting_on"] != waiting:
                    waiting = view["waiting_on"]
                    yield ServerEvent("waiting", {"waiting_on": waiting})
                if view["finished"] is not None:
                    yield ServerEvent("end", end_of(state, view))
                    return
                await subscription.wait()

    return event_stream(call.request, source())


async def last_status(call: Call) -> Json:
    """The newest report of each application."""
    async with call.service.database.read() as tx:
        row = await call.service.store.environment(tx, call.principal, call.environment)
        model = await call.service.store.model_to_read(tx, row, call.session)
        newest = await newest_reports(tx, call.environment)
    result: dict[str, object] = {}
    objects: dict[str, object] = model.get("Objects") or {}
    for service in cast("list[object]", objects.get("services", [])):
        known = ids_below(service) | ids_of(service)
        mine = [newest[id_] for id_ in known if id_ in newest]
        best = max(mine, key=lambda one: (one.created, one.sequence), default=None)
        result[str(object_id(service))] = (
            call.service.work.history.report_view(best) if best is not None else None
        )
    return {"lastStatuses": result}


async def call_action(call: Call) -> Json:
    """Call an action; ``pending=refuse``: 409 when sessions hold changes. ``mayLose``: see the deployment
    of a session."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    task = await call.service.work.call_action(
        call.principal,
        call.environment,
        call.path["action_id"],
        body,
        overtake=call.may_overtake(),
        may_lose=call.may_lose(),
    )
    return {"task_id": task}


async def action_result(call: Call) -> Json:
    """The result of an action."""
    return await call.service.work.history.action_result(
        call.principal, call.environment, call.path["task_id"]
    )


async def raw_statistics(call: Call) -> Json:
    """How long instances and applications have existed."""
    async with call.service.database.read() as tx:
        await call.service.store.environment(tx, call.principal, call.environment)
        return await instance_statistics(
            tx,
            call.environment,
            call.path.get("instance_id", ""),
            call.service.database.clock.now(),
        )


async def aggregated_statistics(call: Call) -> Json:
    """The same, added up for each type of instance."""
    groups: dict[int, dict[str, int]] = {}
    for one in await raw_statistics(call):
        group = groups.setdefault(one["type"], {"type": one["type"], "duration": 0, "count": 0})
        group["duration"] += one["duration"]
        group["count"] += 1
    return list(groups.values())


def end_of(state: str, view: DeploymentView) -> JsonObject:
    """The data of the event ``end``: with what a deployment would have lost, if that is why it failed."""
    stored: JsonObject = view["result"]
    end: JsonObject = {"state": final_state(state, stored), "outcome": view["outcome"]}
    result: Json = stored.get("result")
    if stored.get("isException") and isinstance(result, dict) and "losses" in result:
        end["losses"] = result["losses"]
    return end


def final_state(state: str, result: dict[str, object]) -> str:
    """The state at the end; an action that raised failed even without an error report."""
    if result.get("isException") and state != "completed_w_errors":
        return "completed_w_errors"
    return state


_ONE = E + "/deployments/{deployment_id}"
_STATISTICS = E + "/instance-statistics"
#: What a deployment has beyond the API's sample, whose fields are exact (§14).
_EXTRAS = Extras(
    (
        *("environment_name", "environment_gone", "user_id", "user_name", "outcome", "waiting_on"),
        "last_report",
    ),
    "deployments",
)

ENDPOINTS = [
    Endpoint("list_project_deployments", "GET", "/v1/deployments", project_deployments,
             bodies.DEPLOYMENTS, extras=_EXTRAS, reply=shapes.DEPLOYMENT_PAGE, errors=(404,)),
    Endpoint("list_deployments", "GET", E + "/deployments", deployments, bodies.DEPLOYMENTS,
             extras=_EXTRAS, reply=shapes.DEPLOYMENT_PAGE),
    Endpoint("list_reports", "GET", _ONE, reports, bodies.REPORTS, reply=shapes.REPORTS),
    Endpoint("show_trace", "GET", _ONE + "/trace", trace, reply=shapes.TRACE),
    Endpoint("cancel_deployment", "POST", _ONE + "/cancel", cancel, takes=bodies.CANCELLATION,
             status=202, reply=shapes.DEPLOYMENT, errors=(409,)),
    Endpoint("follow_deployment", "GET", _ONE + "/events", events, bodies.EVENTS, any_accept=True,
             reply=Reply(shapes.TEXT, media=("text/event-stream",))),
    Endpoint("last_statuses", "GET", E + "/lastStatus", last_status, bodies.SESSION,
             reply=shapes.LAST_STATUSES),
    Endpoint("call_action", "POST", E + "/actions/{action_id}", call_action, bodies.DEPLOY,
             bodies.ACTION, reply=shapes.STARTED_TASK, errors=(409,)),
    Endpoint("show_action_result", "GET", E + "/actions/{task_id}", action_result, for_members=True,
             reply=shapes.ACTION_RESULT),
    Endpoint("aggregated_statistics", "GET", _STATISTICS + "/aggregated", aggregated_statistics,
             reply=listed(shapes.AGGREGATED)),
    Endpoint("raw_statistics", "GET", _STATISTICS + "/raw", raw_statistics,
             reply=listed(shapes.STATISTIC)),
    Endpoint("raw_statistics_of_instance", "GET", _STATISTICS + "/raw/{instance_id}",
             raw_statistics, reply=listed(shapes.STATISTIC)),
]  # fmt: skip
