"""The calls of static actions and of schemas of classes (catalog-api.md §5.6, §5.7)."""

from __future__ import annotations

import re
from typing import cast

from vetro.environments import bodies, shapes
from vetro.environments.checking import check_headers
from vetro.environments.endpoint import MODEL_LIMIT, Call, Endpoint
from vetro.environments.model import Json
from vetro.http import BadRequest
from vetro.json_values import JsonObject
from vetro.packages import VersionSpec

_NAME = re.compile(r"[\w.]{1,255}\Z")
ANY_ZERO = "=0"
"""The version that is used when none is given (muranopl.md §5)."""


async def static_action(call: Call) -> Json:
    """Call a static action of a class; the response is its result."""
    body = await call.json(limit_bytes=MODEL_LIMIT)
    if not isinstance(body, dict):
        raise BadRequest("A static action must be an object with className and methodName")
    given = cast("JsonObject", body)
    parameters = given.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise BadRequest("parameters must be an object: argument names and their values")
    check_headers(parameters, "parameters")
    return await call.service.calls.act(
        call.principal,
        checked_name(given.get("className"), "className"),
        checked_name(given.get("methodName"), "methodName"),
        cast("dict[str, object]", parameters or {}),
        package_name=_package(given.get("packageName")),
        class_version=checked_version(given.get("classVersion")),
    )


async def schemas(call: Call) -> Json:
    """JSON schemas of a class's inputs and of its model builders."""
    names = [name.strip() for name in call.path.get("method_names", "").split(",") if name.strip()]
    return await call.service.calls.schemas(
        call.principal,
        checked_name(call.path["class_name"], "The class"),
        [checked_name(name, "A method") for name in names] or None,
        package_name=_package(call.request.query_params.get("packageName")),
        class_version=checked_version(call.request.query_params.get("classVersion")),
    )


def checked_name(value: object, what: str) -> str:
    """The name of a class, package or method. Errors: 400."""
    if value is None or value == "":
        raise BadRequest(f"{what} is required")
    if not isinstance(value, str):
        raise BadRequest(f"{what} must be text")
    if not _NAME.match(value):
        raise BadRequest(f"{what} must be a name, such as org.acme.App, not {value[:80]!r}")
    return value


def checked_version(value: object) -> str:
    """A version spec; if none is given, any 0.x. Errors: 400."""
    if value is None or value == "":
        return ANY_ZERO
    if not isinstance(value, str):
        raise BadRequest("classVersion must be text")
    try:
        return str(VersionSpec(value))
    except ValueError as error:
        raise BadRequest(f"classVersion: {error}") from None


def _package(value: object) -> str | None:
    return None if value is None or value == "" else checked_name(value, "packageName")


_CLASS = "/v1/schemas/{class_name}"

ENDPOINTS = [
    Endpoint("call_static_action", "POST", "/v1/actions", static_action, takes=bodies.STATIC_ACTION,
             reply=shapes.ANYTHING, errors=(404, 504)),
    Endpoint("show_schemas", "GET", _CLASS, schemas, bodies.SCHEMAS, reply=shapes.OBJECT,
             errors=(504,)),
    Endpoint("show_method_schemas", "GET", _CLASS + "/{method_names}", schemas, bodies.SCHEMAS,
             reply=shapes.OBJECT, errors=(504,)),
]  # fmt: skip
