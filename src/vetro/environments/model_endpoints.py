"""The calls of an environment's applications and of its object model (catalog-api.md §5.3, §5.4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import cast

from vetro.catalog import api_time
from vetro.environments import bodies, shapes
from vetro.environments.checking import delete_value, header_kept, put_value
from vetro.environments.endpoint import MODEL_LIMIT, Call, E, Endpoint
from vetro.environments.flat import (
    check_changed,
    check_new,
    is_flat,
    is_workflow,
    keep_written,
    refuse_fixed,
    shown,
    shown_services,
)
from vetro.environments.model import (
    Json,
    get_path,
    segments,
    with_status,
)
from vetro.environments.modelpatch import patch_model
from vetro.environments.states import PENDING
from vetro.http import IF_MATCH, BadRequest, NotFound
from vetro.http.endpoint import EMPTY
from vetro.json_values import JsonObject

MODEL_PATCH = "application/env-model-json-patch"


async def _objects(call: Call) -> tuple[JsonObject, str]:
    async with call.service.database.read() as tx:
        row = await call.service.store.environment(tx, call.principal, call.environment)
        model = await call.service.store.model_to_read(tx, row, call.session)
        status = await call.service.store.status(tx, call.environment)
    objects: JsonObject = model.get("Objects") or {}
    if is_workflow(model):
        objects = {**objects, "services": shown_services(model, status)}
    return objects, status


async def _change(
    call: Call, work: Callable[[dict[str, object]], object], *, of_model: bool = False
) -> object:
    """Change the model, if it is as ``If-Match`` says. ``of_model``: it is read at ``model/``."""
    condition = call.condition
    parts = segments(call.path.get("path", ""))

    def check(model: JsonObject, status: str) -> None:
        objects: JsonObject = model["Objects"]
        services = shown_services(model, status)
        if of_model:
            shown = {**objects, "services": services} if is_workflow(model) else objects
        elif parts:
            shown = get_path(services if is_workflow(model) else objects.get("services", []), parts)
        else:
            shown = services
        condition.check(shown)

    return await call.service.sessions.change_objects(
        call.principal,
        call.environment,
        call.session,
        work,
        check if condition else None,
        keep_used=call.keeps_used(),
    )


async def read(call: Call) -> Json:
    """The applications, or a part of them."""
    objects, status = await _objects(call)
    parts = segments(call.path.get("path", ""))
    if not parts:
        return await call.model_response(with_status(objects.get("services", []), status))
    return await call.model_response(get_path(objects.get("services", []), parts))


async def _defined(call: Call, body: object) -> frozenset[str]:
    """The further types of services, if there may be a flat one in the body."""
    given = cast("list[object]", body if isinstance(body, list) else [body])
    if not any(is_flat(one) for one in given):
        return frozenset()
    return await call.service.service_types(call.principal.project_id)


async def append(call: Call) -> Json:
    """Add applications (or elements of a list inside one); 409: a host name is another machine's."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    parts = segments(call.path.get("path", ""))
    defined = frozenset[str]() if parts else await _defined(call, body)

    def add(objects: JsonObject) -> Json:
        # An element of a list, such as a unit, may have nothing yet.
        if not isinstance(body, (dict, list)) or not (body or (parts and body == {})):
            raise BadRequest("The body must be an application object, or a list of them")
        added = cast("list[object]", body if isinstance(body, list) else [body])
        target = objects.setdefault("services", [])
        if parts:
            target = get_path(target, parts)
        if not isinstance(target, list):
            raise NotFound("There is no list at this path to add to")
        if "?" not in objects and not parts:  # a workflow environment (§7)
            for one in added:
                check_new(one, defined)
        with header_kept(objects, ["services", *parts]):
            cast("list[object]", target).extend(added)
        return cast("object", body)

    return await call.model_response(await _change(call, add))


async def replace(call: Call) -> Json:
    """Replace all applications, or the value at a path; ``uses=refuse``: 409 when what goes is in use."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    parts = segments(call.path.get("path", ""))
    defined = await _defined(call, body)
    flat = False

    def set_value(objects: dict[str, object]) -> object:
        nonlocal flat
        flat = "?" not in objects  # a workflow environment (§7)
        value: object = copy.deepcopy(body) if flat else body
        before = copy.deepcopy(objects.get("services")) if flat else None
        if flat:
            refuse_fixed(parts)
            keep_written(before, value, parts)
        if not parts:
            value = [] if value is None else value
            objects["services"] = value
        else:
            objects.setdefault("services", [])
            put_value(objects, ["services", *parts], value)
        if flat:
            check_changed(objects["services"], before, defined)
        root = objects.get("?")
        if isinstance(root, dict):
            cast("dict[str, object]", root)["updated"] = api_time(call.service.database.clock.now())
        return value

    written = await _change(call, set_value)
    if flat and len(parts) < 2:
        # What was kept of a service is not shown, as in reads of it.
        visible = shown(written if not parts else [written], PENDING)
        written = visible[0] if parts else visible
    elif flat:
        written = body
    return await call.model_response(written)


async def remove(call: Call) -> Json:
    """Remove all applications, or what is at a path; ``uses=refuse``: 409 when others use it."""
    parts = segments(call.path.get("path", ""))

    def drop(objects: dict[str, object]) -> None:
        if not parts:
            objects["services"] = []
            return
        if "?" not in objects:  # a workflow environment (§7)
            refuse_fixed(parts)
        objects.setdefault("services", [])
        delete_value(objects, ["services", *parts])

    await _change(call, drop)
    return EMPTY


async def read_model(call: Call) -> Json:
    """The object model, or a part of it."""
    objects, _ = await _objects(call)
    return await call.model_response(get_path(objects, segments(call.path.get("path", ""))))


async def change_model(call: Call) -> Json:
    """Patch the object model; ``uses=refuse``: 409 when what goes is in use."""
    body = await call.json(MODEL_PATCH, limit_bytes=MODEL_LIMIT)
    operations = cast("list[Json]", body if isinstance(body, list) else [])
    defined = await _defined(call, [one.get("value") for one in operations if is_flat(one)])

    def apply(objects: JsonObject) -> JsonObject:
        changed = copy.deepcopy(objects)
        patch_model(changed, cast("object", body))
        if "?" not in objects:
            check_changed(changed.get("services"), objects.get("services"), defined)
        objects.clear()
        objects.update(changed)
        return objects

    return await call.model_response(await _change(call, apply, of_model=True))


_ALL, _AT = E + "/services", E + "/services/{path:path}"
_MODEL = E + "/model"
_CHANGE = (*bodies.SESSION, *IF_MATCH, *bodies.USES)

ENDPOINTS = [
    Endpoint("list_services", "GET", _ALL, read, bodies.SESSION, remembered=True,
             reply=shapes.ANYTHING),
    Endpoint("show_service", "GET", _AT, read, bodies.SESSION, remembered=True,
             reply=shapes.ANYTHING),
    Endpoint("add_services", "POST", _ALL, append, _CHANGE, bodies.ADD_SERVICES,
             reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("add_services_at", "POST", _AT, append, _CHANGE, bodies.ADD_SERVICES,
             reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("replace_services", "PUT", _ALL, replace, _CHANGE, bodies.PUT_SERVICES,
             reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("replace_service", "PUT", _AT, replace, _CHANGE, bodies.PUT_SERVICES,
             reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("delete_services", "DELETE", _ALL, remove, _CHANGE, errors=(409,)),
    Endpoint("delete_service", "DELETE", _AT, remove, _CHANGE, errors=(409,)),
    Endpoint("show_model", "GET", _MODEL, read_model, bodies.SESSION, remembered=True,
             reply=shapes.ANYTHING),
    Endpoint("show_model_at", "GET", _MODEL + "/{path:path}", read_model, bodies.SESSION,
             reply=shapes.ANYTHING),
    Endpoint("change_model", "PATCH", _MODEL, change_model, _CHANGE, bodies.PATCH_MODEL,
             reply=shapes.ANYTHING, errors=(409,)),
]  # fmt: skip
