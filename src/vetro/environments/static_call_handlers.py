"""HTTP of static actions and schemas of classes (catalog-api.md §5.6, §5.7)."""

from __future__ import annotations

import re
from typing import Any, cast

from litestar import Request, Response, get, post
from litestar.params import FromPath

from vetro.environments import bodies
from vetro.environments.handlers import MODEL_LIMIT, json_response
from vetro.environments.static_calls import CallStore
from vetro.http import BadRequest, principal_of, read_json
from vetro.packages import VersionSpec

AnyRequest = Request[Any, Any, Any]
_NAME = re.compile(r"[\w.]{1,255}\Z")
ANY_ZERO = "=0"
"""The version that is used when none is given (muranopl.md §5)."""


def call_handlers(calls: CallStore) -> list[Any]:
    """The handlers of calls that need no environment."""

    @post("/v1/actions", status_code=200, operation_class=bodies.STATIC_ACTION)
    async def static_action(request: AnyRequest) -> Response[Any]:
        """Call a static action of a class; the response is its result."""
        body = await read_json(request, limit_bytes=MODEL_LIMIT)
        if not isinstance(body, dict):
            raise BadRequest("A static action is an object with className and methodName")
        given = cast("dict[str, Any]", body)
        parameters = given.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise BadRequest("parameters must be an object: argument names and their values")
        value = await calls.act(
            principal_of(request),
            checked_name(given.get("className"), "className"),
            checked_name(given.get("methodName"), "methodName"),
            cast("dict[str, Any]", parameters or {}),
            package_name=_package(given.get("packageName")),
            class_version=checked_version(given.get("classVersion")),
        )
        return json_response(value)

    @get(
        [
            "/v1/schemas/{class_name:str}",
            "/v1/schemas/{class_name:str}/{method_names:str}",
        ],
        operation_class=bodies.SCHEMAS,
    )
    async def schemas(
        request: AnyRequest, class_name: FromPath[str], method_names: FromPath[str] = ""
    ) -> Response[Any]:
        """JSON schemas of a class's inputs and of its model builders."""
        names = [name.strip() for name in method_names.split(",") if name.strip()]
        value = await calls.schemas(
            principal_of(request),
            checked_name(class_name, "The class"),
            [checked_name(name, "A method") for name in names] or None,
            package_name=_package(request.query_params.get("packageName")),
            class_version=checked_version(request.query_params.get("classVersion")),
        )
        return json_response(value)

    return [static_action, schemas]


def checked_name(value: object, what: str) -> str:
    """The name of a class, package or method. Errors: 400."""
    if value is None or value == "":
        raise BadRequest(f"{what} is required")
    if not isinstance(value, str):
        raise BadRequest(f"{what} must be text")
    if not _NAME.match(value):
        raise BadRequest(f"{what} must be a name, such as org.acme.App: {value[:80]!r} is none")
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
