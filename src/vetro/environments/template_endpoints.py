"""The calls of environment templates (catalog-api.md §6.1)."""

from __future__ import annotations

from vetro.environments import bodies, shapes
from vetro.environments.endpoint import MODEL_LIMIT, Call, Endpoint
from vetro.environments.model import Json, segments
from vetro.environments.paging import answer, listing_of
from vetro.http import IF_MATCH, NotFound, listed
from vetro.http.endpoint import EMPTY


async def listing(call: Call) -> Json:
    """Own and public templates; ``is_public``: ``true`` only public, ``false`` only own private ones."""
    wanted = call.request.query_params.get("is_public")
    found = await call.service.templates.listing(call.principal, wanted, listing_of(call.request))
    return answer("templates", found)


async def create(call: Call) -> Json:
    """Create a template."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    return await call.model_response(await call.service.templates.create(call.principal, body))


async def show(call: Call) -> Json:
    """A template with its components."""
    return await call.model_response(
        await call.service.templates.show(call.principal, call.template)
    )


async def change(call: Call) -> Json:
    """Change the name, the description, and whether it is public."""
    body = await call.json()
    return await call.service.templates.update(call.principal, call.template, body, call.condition)


async def remove(call: Call) -> Json:
    """Delete a template; environments made from it stay."""
    await call.service.templates.delete(call.principal, call.template, call.condition)
    return EMPTY


async def clone(call: Call) -> Json:
    """Copy a public template into the caller's project."""
    body = await call.json()
    return await call.model_response(
        await call.service.templates.clone(call.principal, call.template, body)
    )


async def create_environment(call: Call) -> Json:
    """Create an environment, with a session that holds the template's components."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    return await call.service.templates.create_environment(call.principal, call.template, body)


async def components(call: Call) -> Json:
    """The components, or a part of them."""
    parts = segments(call.path.get("path", ""))
    return await call.model_response(
        await call.service.templates.components(call.principal, call.template, parts)
    )


def _named(call: Call) -> list[str]:
    parts = segments(call.path["path"])
    if not parts:
        raise NotFound("Name the component in the path")
    return parts


async def add(call: Call) -> Json:
    """Add a component, or a list of them."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    return await call.model_response(
        await call.service.templates.add(call.principal, call.template, body, call.condition)
    )


async def replace(call: Call) -> Json:
    """Replace a component, or a part of one."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    return await call.model_response(
        await call.service.templates.replace(
            call.principal, call.template, _named(call), body, call.condition
        )
    )


async def take_out(call: Call) -> Json:
    """Remove a component, or a part of one; ``uses=refuse``: 409 when others use it.

    The template as it is then.
    """
    return await call.model_response(
        await call.service.templates.remove(
            call.principal,
            call.template,
            _named(call),
            call.condition,
            keep_used=call.keeps_used(),
        )
    )


_ALL, _ONE = "/v1/templates", "/v1/templates/{template_id}"
_PARTS = _ONE + "/services"

ENDPOINTS = [
    Endpoint("list_templates", "GET", _ALL, listing, bodies.PUBLIC, reply=shapes.TEMPLATE_PAGE,
             errors=(404,)),
    Endpoint("create_template", "POST", _ALL, create, takes=bodies.CREATE_TEMPLATE,
             reply=shapes.CHANGED_TEMPLATE, errors=(409,)),
    Endpoint("show_template", "GET", _ONE, show, reply=shapes.TEMPLATE),
    Endpoint("change_template", "PUT", _ONE, change, IF_MATCH, takes=bodies.CHANGE_TEMPLATE,
             reply=shapes.CHANGED_TEMPLATE, errors=(409,)),
    Endpoint("delete_template", "DELETE", _ONE, remove, IF_MATCH),
    Endpoint("clone_template", "POST", _ONE + "/clone", clone, takes=bodies.CLONE_TEMPLATE,
             reply=shapes.TEMPLATE, errors=(409,)),
    Endpoint("create_environment_of_template", "POST", _ONE + "/create-environment",
             create_environment, takes=bodies.CREATE, reply=shapes.MADE_ENVIRONMENT, errors=(409,)),
    Endpoint("list_components", "GET", _PARTS, components, reply=listed(shapes.SERVICE)),
    Endpoint("show_component", "GET", _PARTS + "/{path:path}", components, reply=shapes.ANYTHING),
    Endpoint("add_components", "POST", _PARTS, add, IF_MATCH, takes=bodies.ADD_SERVICES,
             reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("replace_component", "PUT", _PARTS + "/{path:path}", replace, IF_MATCH,
             takes=bodies.PUT_SERVICES, reply=shapes.ANYTHING, errors=(409,)),
    Endpoint("delete_component", "DELETE", _PARTS + "/{path:path}", take_out,
             (*IF_MATCH, *bodies.USES), reply=shapes.TEMPLATE, errors=(409,)),
]  # fmt: skip
