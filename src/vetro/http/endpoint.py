"""The one way to write a call of a face: it is declared once; route and description follow from that.

A room has a table of `Endpoint`s. ``run`` is a function of one argument, the room's `Call`: the
service, the request and what the room has checked before (parameters, the caller, records).
`routes(endpoints, around)` makes the face's routes; ``around(endpoint, request)`` is the room's hook
for every call: it makes the `Call`, runs the endpoint and returns `respond(…)`::

    ENDPOINTS = [Endpoint("show_thing", "GET", "/things/{id}", show)]

    routes(ENDPOINTS, serving(partial(Call, service)))

The document of the face says what a call answers (``reply``; `vetro.http.document`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import OpenAPIMediaType, Operation, Parameter, RequestBody, Schema

from vetro.http.accept import ANY_ACCEPT
from vetro.http.any_request import AnyRequest
from vetro.http.bodies import read_json
from vetro.http.conditions import Condition
from vetro.http.context import context_of, principal_of
from vetro.http.declaration import EMPTY, FIELDS_HEADER, Answer, Body, Endpoint, Extras
from vetro.http.description import schema as schema_of
from vetro.http.dispatch import OPTION as ENDPOINT
from vetro.http.dispatch import PlainResponse
from vetro.http.handler import EndpointHandler
from vetro.http.headers import header
from vetro.http.parameters import STRING, Param
from vetro.http.principal import Principal
from vetro.http.remembered import OPTION as REMEMBERED

_ASKING = Param(FIELDS_HEADER, STRING, where="header")
S = TypeVar("S")
C = TypeVar("C")

__all__ = [
    "EMPTY",
    "Answer",
    "AnyRequest",
    "Body",
    "Call",
    "Endpoint",
    "as_asked",
    "respond",
    "routes",
    "serving",
]


@dataclass
class Call(Generic[S]):
    """One request for an endpoint of a service."""

    service: S
    request: AnyRequest

    @property
    def principal(self) -> Principal:
        """The caller. Errors: 401."""
        return principal_of(self.request)

    @property
    def path(self) -> Mapping[str, str]:
        """The parameters in the path."""
        return self.request.path_params

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the query."""
        # The framework's map of them takes longer to make than most calls have use for.
        if not self.request.scope["query_string"]:
            return default
        return str(self.request.query_params.get(name, default))

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is ``true``."""
        return self.query(name).lower() == "true"

    def header(self, name: str) -> str:
        """A header of the request; '' when it is absent."""
        return _header(self.request, name)

    @property
    def condition(self) -> Condition:
        """The ``If-Match`` of the request, for the store that makes the change."""
        return Condition(self.header("if-match"))

    async def json(self, *content_types: str, limit_bytes: int | None = None) -> Any:
        """The body, which is JSON of one of these types (``application/json``). Errors: 400, 413, 415."""
        if content_types:
            return await read_json(self.request, content_types, limit_bytes=limit_bytes)
        return await read_json(self.request, limit_bytes=limit_bytes)


E = TypeVar("E", bound=Endpoint[Any])


def routes(
    endpoints: Iterable[E], around: Callable[[E, AnyRequest], Awaitable[Response[object]]]
) -> list[HTTPRouteHandler]:
    """The routes of endpoints; ``around`` is run for every request."""
    return [_route(one, around) for one in endpoints]


def serving(
    call: Callable[[AnyRequest], C],
) -> Callable[[Endpoint[C], AnyRequest], Awaitable[Response[object]]]:
    """The plain hook: the endpoint is run with ``call(request)``, and nothing before or after it."""

    async def around(endpoint: Endpoint[C], request: AnyRequest) -> Response[object]:
        return respond(request, endpoint, await endpoint.run(call(request)))

    return around


def respond(request: AnyRequest, endpoint: Endpoint[Any], result: object) -> Response[object]:
    """The response for an endpoint's result: an `Answer`, a response, or any JSON value."""
    status, headers = endpoint.status, {}
    if isinstance(result, Answer):
        status, headers, result = result.status, result.headers, result.value
    elif isinstance(result, Response):
        return cast("Response[object]", result)
    elif status == 204:
        result = ...
    if isinstance(result, dict):
        shown = as_asked(request, endpoint.extras, cast("dict[str, object]", result))
        if request.method == "POST":
            made: object = shown.get("id")
            context_of(request).created = made if isinstance(made, str) else ""
    media_type = "application/json"
    if result is ...:
        content = b""
    elif isinstance(result, str) and _wants_text(request):
        content, media_type = result.encode(), "text/plain"
    else:
        content = msgspec.json.encode(result)
    return cast("Response[object]", PlainResponse(content, status, headers, media_type))


def as_asked(
    request: AnyRequest, extras: Extras | None, shown: dict[str, object]
) -> dict[str, object]:
    """A value without what its caller did not ask for; it is changed in place."""
    if extras is not None and _header(request, FIELDS_HEADER).strip().lower() != "all":
        extras.drop_from(shown)
    return shown


def _header(request: AnyRequest, name: str) -> str:
    # A call asks for two or three: the framework's map of all of them takes longer to make.
    headers: Any = request.scope["headers"]
    return header(headers, name.lower().encode())


def _wants_text(request: AnyRequest) -> bool:
    accept = _header(request, "accept").split(";", 1)[0]
    return accept.split(",", 1)[0].strip().lower() == "text/plain"


def _route(
    endpoint: E, around: Callable[[E, AnyRequest], Awaitable[Response[object]]]
) -> HTTPRouteHandler:
    async def handle(request: AnyRequest) -> Response[Any]:
        return await around(endpoint, request)

    handle.__doc__ = getattr(endpoint.run, "func", endpoint.run).__doc__  # a partial's function
    return EndpointHandler(
        re.sub(r"{(\w+)}", r"{\1:str}", endpoint.path),
        http_method=cast("list[Any]", endpoint.verbs.split()),
        name=f"{endpoint.name} {endpoint.verbs} {endpoint.path}",
        status_code=200,
        opt={
            **(ANY_ACCEPT if endpoint.any_accept else {}),
            REMEMBERED: endpoint.remembered,
            ENDPOINT: endpoint,
        },
        operation_class=_described(endpoint),
        operation_id=_operation_id(endpoint),
        summary=endpoint.name,
        deprecated=endpoint.deprecated,
        include_in_schema=endpoint.listed,
    )(handle)


def _operation_id(endpoint: Endpoint[object]) -> Callable[[object, object, object], str]:
    first = endpoint.verbs.split()[0]

    def name(_handler: object, method: object, _path: object) -> str:
        verb = str(getattr(method, "value", method))
        return endpoint.name if verb == first else f"{endpoint.name}By{verb.title()}"

    return name


def _described(endpoint: Endpoint[object]) -> type[Operation]:
    """What makes the operation: our parameters and bodies instead of derived ones."""

    def describe(operation: Operation) -> None:
        text = Schema(type=cast("Any", "string"))
        operation.parameters = [
            Parameter(name=name, param_in="path", required=True, schema=text)
            for name in endpoint.path_names
        ]
        asking = () if endpoint.extras is None else (_ASKING,)
        for param in (*endpoint.params, *asking):
            if param.where != "body":
                operation.parameters.append(
                    Parameter(
                        name=param.name,
                        param_in=param.where,
                        required=param.required,
                        schema=_schema(param),
                    )
                )
        operation.parameters = operation.parameters or None
        operation.request_body = _request_body(endpoint)

    def made(*args: Any, **given: Any) -> Operation:
        operation = Operation(*args, **given)
        describe(operation)
        return operation

    # Not a class for each endpoint: a face has up to 180.
    return cast("type[Operation]", made)


def _request_body(endpoint: Endpoint[object]) -> RequestBody | None:
    if endpoint.takes is not None:
        media = OpenAPIMediaType(schema=schema_of(endpoint.takes.schema))
        return RequestBody({endpoint.takes.content_type: media}, required=endpoint.takes.required)
    bodied = [param for param in endpoint.params if param.where == "body"]
    if not bodied:
        return None
    schema = Schema(
        type=cast("Any", "object"),
        properties={param.name: _schema(param) for param in bodied},
        required=[param.name for param in bodied if param.required] or None,
        additional_properties=not endpoint.closed,
    )
    return RequestBody(
        content={"application/json": OpenAPIMediaType(schema=schema)},
        required=any(param.required for param in bodied),
    )


def _schema(param: Param) -> Schema:
    schema = schema_of(param.rule.schema)
    schema.description = param.description or None
    return schema
