"""The calls of environments and sessions (catalog-api.md §5.1, §5.2)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from litestar.response import Stream

from vetro.digits import is_number
from vetro.environments import bodies, shapes, states
from vetro.environments.component_users import Dangling
from vetro.environments.endpoint import MODEL_LIMIT, Call, E, Endpoint
from vetro.environments.model import Json
from vetro.environments.paging import answer, listing_of
from vetro.environments.store import ENVIRONMENT_EXTRAS, project_channel
from vetro.http import IF_MATCH, BadRequest, Extras, Reply, ServerEvent, event_stream
from vetro.http.endpoint import EMPTY, as_asked


async def listing(call: Call) -> Json:
    """Environments of the project, oldest first; a page of them with ``limit`` and ``marker``."""
    found = await call.service.store.listing(
        call.principal,
        all_tenants=call.flag("all_tenants"),
        tenant=call.request.query_params.get("tenant"),
        listing=listing_of(call.request, states.ENVIRONMENT),
    )
    return answer("environments", found)


async def follow(call: Call) -> Stream:
    """Which environments of the project change, as server-sent events.

    ``changed`` has the ``id`` of one that was made, renamed or removed, whose session changes, or whose
    deployment begins or ends. ``begin`` comes first, and after notifications were lost: the client reads
    again what it shows. So a broken stream needs no position to continue from. It ends after
    ``FOLLOWED_SECONDS``, or the
    ``seconds`` that are asked for: a new request must show its token again.
    """
    asked = call.query("seconds", str(FOLLOWED_SECONDS))
    if not is_number(asked):
        raise BadRequest(f"seconds must be a whole number, not {asked!r:.80}")
    end = time.monotonic() + min(int(asked), FOLLOWED_SECONDS)

    async def source() -> AsyncIterator[ServerEvent]:
        channel = project_channel(call.principal.project_id)
        async with call.service.database.listen(channel) as subscription:
            yield ServerEvent("begin", {})
            while (left := end - time.monotonic()) > 0:
                first = await subscription.wait(left)
                if first is None:
                    return
                found = {first, *subscription.drain()}
                if "" in found:
                    yield ServerEvent("begin", {})
                    continue
                for id_ in sorted(found):
                    yield ServerEvent("changed", {"id": id_})

    return event_stream(call.request, source())


async def create(call: Call) -> Json:
    """Create an environment."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    return await call.service.store.create(call.principal, body)


async def show(call: Call) -> Json:
    """An environment with its applications."""
    found = await call.service.store.show(call.principal, call.environment, call.session)
    return await call.model_response(as_asked(call.request, ENVIRONMENT_EXTRAS, dict(found)))


async def rename(call: Call) -> Json:
    """Rename an environment."""
    body = await call.json()
    return await call.service.store.rename(
        call.principal, call.environment, body, call.condition, call.session
    )


async def remove(call: Call) -> Json:
    """Destroy an environment, or with ``abandon=true`` only forget it."""
    abandon = call.flag("abandon")
    await call.service.work.delete_environment(
        call.principal, call.environment, abandon=abandon, condition=call.condition
    )
    return EMPTY


async def configure(call: Call) -> Json:
    """Open a session."""
    return await call.service.sessions.configure(call.principal, call.environment)


async def opened_sessions(call: Call) -> Json:
    """The opened sessions and the changes they hold."""
    return {"sessions": await call.service.work.sessions.listing(call.principal, call.environment)}


async def show_session(call: Call) -> Json:
    """A session."""
    return await call.service.sessions.show_session(
        call.principal, call.environment, call.path["session_id"]
    )


async def drop_session(call: Call) -> Json:
    """Drop a session and its changes."""
    await call.service.sessions.delete_session(
        call.principal, call.environment, call.path["session_id"]
    )
    return EMPTY


async def rebase(call: Call) -> Json:
    """Open a session of now with the changes of an overtaken one."""
    return await call.service.work.sessions.rebase(
        call.principal, call.environment, call.path["session_id"]
    )


async def restore(call: Call) -> Json:
    """Open a session with the applications that an earlier deployment had; 409 when they are not kept."""
    return await call.service.work.sessions.restore(
        call.principal, call.environment, call.path["deployment_id"]
    )


async def deploy(call: Call) -> Json:
    """Deploy a session's changes; ``pending=refuse``: 409 when others hold changes.

    With ``mayLose`` the deployment fails before it loses a machine, a volume or an address that is not
    named there; ``*`` names everything. 409 as well when components refer to others that were taken out.
    """
    await submit(call, overtake=call.may_overtake())
    return EMPTY


async def submit(call: Call, *, overtake: bool = True) -> None:
    """Submit a session, unless its components need some that were taken out. Errors: 409."""
    given = (call.principal, call.environment, call.path["session_id"])
    may_lose = call.may_lose()
    try:
        await call.service.work.deploy(*given, overtake=overtake, may_lose=may_lose)
    except Dangling as refusal:
        # Ids in values that programs have written do no harm: an engine knows the classes.
        if await call.service.upgrades.needs(*given, refusal):
            raise
        await call.service.work.deploy(*given, overtake=overtake, may_lose=may_lose, looked_at=True)


async def leaked(call: Call) -> Json:
    """Removed objects that may have left something behind: their ``.destroy`` failed."""
    found = await call.service.work.endings.leaked.listing(call.principal, call.environment)
    return {"leaked": found}


async def dismiss_leaked(call: Call) -> Json:
    """Forget a leaked object, once somebody has looked after it."""
    await call.service.work.endings.leaked.dismiss(
        call.principal, call.environment, call.path["object_id"]
    )
    return EMPTY


_SESSION = E + "/sessions/{session_id}"
FOLLOWED_SECONDS = 600
"""How long a stream of changes lasts at most."""

ENDPOINTS = [
    Endpoint("list_environments", "GET", "/v1/environments", listing, bodies.OF_PROJECTS,
             remembered=True, extras=Extras(ENVIRONMENT_EXTRAS.names, "environments"),
             reply=shapes.ENVIRONMENT_PAGE, errors=(404,)),
    Endpoint("follow_environments", "GET", "/v1/events", follow, bodies.FOLLOW, any_accept=True,
             reply=Reply(shapes.TEXT, media=("text/event-stream",))),
    Endpoint("create_environment", "POST", "/v1/environments", create, takes=bodies.CREATE,
             extras=ENVIRONMENT_EXTRAS, reply=shapes.CHANGED, errors=(409,)),
    Endpoint("show_environment", "GET", E, show, bodies.SESSION, remembered=True,
             extras=ENVIRONMENT_EXTRAS, reply=shapes.ENVIRONMENT),
    Endpoint("rename_environment", "PUT", E, rename, IF_MATCH, bodies.RENAME,
             extras=ENVIRONMENT_EXTRAS, reply=shapes.CHANGED, errors=(409,)),
    Endpoint("delete_environment", "DELETE", E, remove, (*bodies.REMOVE, *IF_MATCH), errors=(409,)),
    Endpoint("list_leaked", "GET", E + "/leaked", leaked, reply=shapes.ALL_LEAKED),
    Endpoint("dismiss_leaked", "DELETE", E + "/leaked/{object_id}", dismiss_leaked),
    Endpoint("open_session", "POST", E + "/configure", configure, reply=shapes.SESSION),
    Endpoint("list_sessions", "GET", E + "/sessions", opened_sessions, reply=shapes.ALL_OPENED),
    Endpoint("show_session", "GET", _SESSION, show_session, reply=shapes.SESSION),
    Endpoint("drop_session", "DELETE", _SESSION, drop_session),
    Endpoint("rebase_session", "POST", _SESSION + "/rebase", rebase, reply=shapes.SESSION,
             errors=(409,)),
    Endpoint("restore_deployment", "POST", E + "/deployments/{deployment_id}/restore", restore,
             reply=shapes.SESSION, errors=(409,)),
    Endpoint("deploy_session", "POST", _SESSION + "/deploy", deploy, bodies.DEPLOY, errors=(409,)),
]  # fmt: skip
