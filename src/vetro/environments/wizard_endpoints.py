"""The calls of wizards: forms of packages, filled in page by page (docs/forms.md)."""

from __future__ import annotations

from typing import cast

from vetro.environments import bodies, shapes
from vetro.environments.endpoint import Call, Endpoint
from vetro.environments.model import Json
from vetro.http import BadRequest
from vetro.http.endpoint import EMPTY
from vetro.json_values import JsonObject

VALUES_LIMIT = 2**20
"""Bytes of the values of one page."""


async def _object(call: Call, *known: str) -> JsonObject:
    body = await call.json(limit_bytes=VALUES_LIMIT)
    if not isinstance(body, dict):
        raise BadRequest(f"The body must be an object with {', '.join(known)}")
    given = cast("dict[str, object]", body)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise BadRequest(f"Unknown member {unknown[0]!r:.80}; known: {', '.join(known)}")
    return given


def _text(given: dict[str, object], name: str, *, most: int = 255) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > most:
        raise BadRequest(f"{name} must be text of at most {most} characters")
    return value


def _values(given: JsonObject) -> JsonObject:
    values = given.get("values")
    if not isinstance(values, dict):
        raise BadRequest("values must be an object: names of fields and what was entered")
    return cast("dict[str, object]", values)


def _language(call: Call) -> str:
    return call.query("language")[:20]


async def start(call: Call) -> Json:
    """Start to fill in the form of a package, or of a service of the metadata repository; with
    ``component_id`` the one of a component, with what it has now."""
    which = ("package", "service", "component_id")
    given = await _object(call, *which, "environment_id", "session_id", "template_id", "quick")
    if not any(_text(given, name) for name in which):
        raise BadRequest(
            "package is required: the id of a package (or service: the name of a service of the"
            " metadata repository, or component_id, to open one again)"
        )
    quick = given.get("quick", False)
    if not isinstance(quick, bool):
        raise BadRequest("quick must be true or false")
    return await call.service.wizards.start(
        call.principal,
        {
            "package": _text(given, "package"),
            "service": _text(given, "service"),
            "environment_id": _text(given, "environment_id"),
            "session_id": _text(given, "session_id") or call.session,
            "template_id": _text(given, "template_id"),
            "quick": quick,
            "component_id": _text(given, "component_id"),
            "language": _language(call),
        },
    )


async def listing(call: Call) -> Json:
    """The wizards that the caller has not finished."""
    return {"wizards": await call.service.wizards.listing(call.principal)}


async def show(call: Call) -> Json:
    """A wizard with its form: pages, fields, values, choices; ``refresh=true`` reads the choices again."""
    return await call.service.wizards.show(
        call.principal,
        call.path["wizard_id"],
        call.session,
        language=_language(call),
        refresh=call.flag("refresh"),
    )


async def definition(call: Call) -> Json:
    """The definition of a wizard's form as text, also one that was made of a class."""
    return await call.service.wizards.definition(call.principal, call.path["wizard_id"])


async def show_page(call: Call) -> Json:
    """One page of a wizard."""
    return await call.service.wizards.show_page(
        call.principal, call.path["wizard_id"], call.path["page"], call.session, _language(call)
    )


async def submit(call: Call) -> Json:
    """Submit the values of a page: errors by field, or the next page."""
    given = await _object(call, "values")
    return await call.service.wizards.submit(
        call.principal,
        call.path["wizard_id"],
        call.path["page"],
        _values(given),
        call.session,
        _language(call),
    )


async def check(call: Call) -> Json:
    """Validate the values of a page, or of one ``field``, and describe the page for them; nothing is
    stored."""
    given = await _object(call, "values", "field")
    return await call.service.wizards.check(
        call.principal,
        call.path["wizard_id"],
        call.path["page"],
        _values(given),
        _text(given, "field"),
        call.session,
        _language(call),
    )


async def build(call: Call) -> Json:
    """The object model that the values make; only secrets of ``encryptData()`` are stored."""
    return await call.service.wizards.build(call.principal, call.path["wizard_id"], call.session)


async def finish(call: Call) -> Json:
    """Build the object and add it to a session of an environment; of a component whose form was opened
    only what was entered is changed there."""
    given = await _object(call, "environment_id", "session_id")
    return await call.service.wizards.finish(
        call.principal,
        call.path["wizard_id"],
        _text(given, "session_id") or call.session,
        _text(given, "environment_id"),
    )


async def remove(call: Call) -> Json:
    """Forget a wizard and what was entered in it."""
    await call.service.wizards.remove(call.principal, call.path["wizard_id"])
    return EMPTY


_ALL, _ONE = "/v1/wizards", "/v1/wizards/{wizard_id}"
_PAGE = _ONE + "/pages/{page}"

ENDPOINTS = [
    Endpoint("list_wizards", "GET", _ALL, listing, reply=shapes.WIZARDS),
    Endpoint("start_wizard", "POST", _ALL, start, (*bodies.SESSION, *bodies.LANGUAGE),
             bodies.START_WIZARD, reply=shapes.WIZARD, errors=(404,)),
    Endpoint("show_wizard", "GET", _ONE, show, (*bodies.SESSION, *bodies.SHOW_WIZARD),
             reply=shapes.WIZARD, for_members=True),
    Endpoint("delete_wizard", "DELETE", _ONE, remove),
    Endpoint("show_wizard_definition", "GET", _ONE + "/definition", definition,
             reply=shapes.FORM_DEFINITION, for_members=True),
    Endpoint("show_wizard_page", "GET", _PAGE, show_page, (*bodies.SESSION, *bodies.LANGUAGE),
             reply=shapes.FORM_PAGE, for_members=True),
    Endpoint("submit_wizard_page", "POST", _PAGE, submit, (*bodies.SESSION, *bodies.LANGUAGE),
             bodies.PAGE_VALUES, reply=shapes.SUBMITTED_PAGE),
    Endpoint("check_wizard_page", "POST", _PAGE + "/check", check,
             (*bodies.SESSION, *bodies.LANGUAGE), bodies.CHECKED_VALUES, reply=shapes.CHECKED_PAGE),
    Endpoint("build_wizard", "POST", _ONE + "/build", build, bodies.SESSION, reply=shapes.BUILT),
    Endpoint("finish_wizard", "POST", _ONE + "/finish", finish, bodies.SESSION, bodies.FINISH,
             reply=shapes.FINISHED, errors=(409,)),
]  # fmt: skip
