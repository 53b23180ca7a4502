"""Calls of the compute API: each is declared once; route and description are derived from that.

An `Endpoint` declares its verbs and path, its parameters, who may call it and its preconditions.
`handler_of` creates its route. Order of checks (compute-node-api.md §2): the caller; the body's
syntax; the server's uuid (409) and record (404); the VM's uuid (409); the server runs (409);
undeclared parameters of strict calls (409); declared ones (500).
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec
from litestar import Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.spec import (
    OpenAPIMediaType,
    OpenAPIResponse,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)
from sqlalchemy import Row, select

from vetro.compute.http.request_metrics import completed
from vetro.compute.tables import vms
from vetro.compute.values.faults import invalid_argument, not_allowed, not_found, not_running
from vetro.compute.values.parameters import (
    UUID,
    Param,
    Params,
    boolean_of,
    check_declared,
    read_parameters,
    validate,
)
from vetro.compute.wire import ACTING_HEADER
from vetro.http import ANY_ACCEPT, Fault, Principal, context_of

if TYPE_CHECKING:
    from vetro.compute.service import ComputeService

AnyRequest = Request[Any, Any, Any]
Json = Any
DEFAULT = "default"


class Access(enum.Enum):
    """Who may call."""

    PUBLIC = "anybody"
    USER = "any project's users, operators"
    NODE = "the server's own node, operators"
    OPERATOR = "operators"


@dataclass(frozen=True)
class Answer:
    """An answer with its own status; ``value`` ``...`` is an empty body."""

    status: int
    value: Json = ...
    headers: dict[str, str] = field(default_factory=dict[str, str])


#: 200 with an empty body.
EMPTY = Answer(200)


@dataclass
class Call:
    """One validated request for an endpoint, with its server's record."""

    service: ComputeService
    request: AnyRequest
    params: Params
    principal: Principal
    server_uuid: str = ""
    vm_uuid: str = ""
    server: Row[Any] | None = None
    #: The project whose objects (and shared ones) the call may use; ``None``: every project's.
    project: str | None = None

    @property
    def request_id(self) -> str:
        """The request's id: the client's own if it sent one."""
        return context_of(self.request).request_id

    @property
    def row(self) -> Row[Any]:
        """The server's record."""
        if self.server is None:
            raise not_found(f"Server {self.server_uuid} not found")
        return self.server

    @property
    def is_operator(self) -> bool:
        """Whether the caller has an operator's rights."""
        return self.principal.is_admin

    def get(self, name: str, default: Json = None) -> Json:
        """A parameter."""
        return self.params.get(name, default)

    def flag(self, name: str) -> bool:
        """A boolean parameter, JSON or text; absent is ``False``."""
        return boolean_of(self.params.get(name)) or False

    def body(self) -> Params:
        """The parameters except those in the path."""
        path = self.request.path_params
        return {name: value for name, value in self.params.items() if name not in path}


Run = Callable[[Call], Awaitable[Json]]


@dataclass(frozen=True)
class Endpoint:
    """A call. ``name`` is the operation's name in the seed; ``run``'s docstring its description.

    ``strict``: undeclared parameters are refused. ``running``: the server must run. ``known``: the
    server must have a record. ``status``: of a plain success (204: whatever ``run`` returns is dropped).
    ``nodes``: nodes may call too, and ``run`` checks what for. ``upload``: the body is a file, which
    ``run`` reads.
    """

    name: str
    verbs: str
    path: str
    run: Run
    params: tuple[Param, ...] = ()
    access: Access = Access.OPERATOR
    strict: bool = False
    running: bool = False
    known: bool = True
    status: int = 200
    deprecated: bool = False
    any_accept: bool = False
    errors: tuple[int, ...] = ()
    nodes: bool = False
    upload: bool = False

    @property
    def path_names(self) -> list[str]:
        """The parameters in the path."""
        return re.findall(r"{(\w+)}", self.path)


def trusted_principal() -> Principal:
    """The caller on a trusted network, without a token, as in the seed."""
    return Principal("anonymous", "anonymous", "", roles=frozenset({"admin"}))


def caller_of(service: ComputeService, request: AnyRequest, endpoint: Endpoint) -> Principal:
    """The caller, if the call is open to it. Errors: 401, 403."""
    principal = context_of(request).principal
    if principal is None:
        if service.settings.trusted_network:
            return trusted_principal()
        if endpoint.access is Access.PUBLIC:
            return Principal("anonymous", "anonymous", "")
        raise Fault("Authentication required", status=401, type_="InvalidCredentials")
    if principal.is_admin or endpoint.access is Access.PUBLIC:
        return principal
    is_node = "node" in principal.roles
    if is_node and endpoint.nodes:
        return principal
    if endpoint.access is Access.NODE:
        uuid = str(request.path_params.get("server_uuid", "")).lower()
        if principal.user_id in ("node", f"node/{uuid}"):
            return principal
        raise not_allowed("Only the node itself may say this")
    if endpoint.access is Access.USER and not is_node and principal.project_id:
        return principal
    raise not_allowed(
        "This call is for operators"
        if endpoint.access is Access.OPERATOR
        else "This call is for the users of a project"
    )


def project_of(principal: Principal, request: AnyRequest) -> str | None:
    """The project a caller is limited to: its own; for an operator the one it acts for, or none."""
    if principal.is_admin:
        return request.headers.get(ACTING_HEADER) or None
    return None if "node" in principal.roles else principal.project_id


async def prepare(service: ComputeService, endpoint: Endpoint, request: AnyRequest) -> Call:
    """Run all checks that precede the endpoint."""
    principal = caller_of(service, request, endpoint)
    path = {name: str(value) for name, value in request.path_params.items()}
    given = {**dict(request.query_params.items()), **path}
    params = given if endpoint.upload else await read_parameters(request, path)
    call = Call(service, request, params, principal, project=project_of(principal, request))
    if "server_uuid" in path:
        await _find_server(call, endpoint, path)
    if endpoint.strict:
        check_declared(params, endpoint.params, endpoint.path_names)
    validate(params, endpoint.params)
    return call


async def _find_server(call: Call, endpoint: Endpoint, path: dict[str, str]) -> None:
    given = path["server_uuid"]
    vm = path.get("uuid") if "/vms/{uuid}" in endpoint.path else None
    if given != DEFAULT and not UUID.match(given):
        raise invalid_argument("Invalid server_uuid")
    call.server_uuid = given.lower()
    if vm is not None:
        vm = vm.lower()
    if given == DEFAULT and vm is not None:
        # Our own call: the VM on any server.
        if not UUID.match(vm):
            raise invalid_argument("Invalid vm_uuid")
        async with call.service.database.read() as tx:
            found = (await tx.execute(select(vms.c.server_uuid).where(vms.c.uuid == vm))).first()
        if found is None:
            raise not_found(f"VM {vm} not found")
        call.server_uuid = found.server_uuid
    if vm is not None and call.project is not None:
        # Checked before the answer reveals anything about its server.
        async with call.service.database.read() as tx:
            owner = await tx.execute(select(vms.c.owner_uuid).where(vms.c.uuid == vm))
        if (row := owner.first()) is not None and row.owner_uuid != call.project:
            raise not_found(f"VM {vm} not found")
    if endpoint.known and call.server_uuid != DEFAULT:
        async with call.service.database.read() as tx:
            call.server = await call.service.servers.row(tx, call.server_uuid)
    if vm is not None:
        if not UUID.match(vm):
            raise invalid_argument("Invalid vm_uuid")
        call.vm_uuid = vm
        call.params["uuid"] = vm
    if endpoint.running and (call.server is None or call.server.status != "running"):
        raise not_running()


def respond(call_request: AnyRequest, endpoint: Endpoint, result: Json) -> Response[Any]:
    """The response for an endpoint's result."""
    status, headers = endpoint.status, {}
    if isinstance(result, Answer):
        status, headers, result = result.status, result.headers, result.value
    elif isinstance(result, Response):
        return cast("Response[Any]", result)
    elif status == 204:
        result = ...
    media_type = "application/json"
    if result is ...:
        content = b""
    elif isinstance(result, str) and _wants_text(call_request):
        content, media_type = result.encode(), "text/plain"
    else:
        content = msgspec.json.encode(result)
    return Response(content, status_code=status, headers=headers, media_type=media_type)


def _wants_text(request: AnyRequest) -> bool:
    accept = request.headers.get("accept", "").split(";", 1)[0]
    return accept.split(",", 1)[0].strip().lower() == "text/plain"


def handler_of(service: ComputeService, endpoint: Endpoint) -> HTTPRouteHandler:
    """The route of an endpoint."""

    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        began, status = time.perf_counter(), 500
        try:
            call = await prepare(service, endpoint, request)
            response = respond(request, endpoint, await endpoint.run(call))
            status = response.status_code or 200
            return response
        except Fault as fault:
            if fault.type == "InvalidParameters" and fault.status == 500:
                fault.status = service.settings.validation_status
            status = fault.status
            raise
        finally:
            completed(request.method, endpoint.name, status, time.perf_counter() - began)

    handle.__doc__ = endpoint.run.__doc__
    path = re.sub(r"{(\w+)}", r"{\1:str}", endpoint.path)
    verbs = cast("list[Any]", endpoint.verbs.split())
    return HTTPRouteHandler(
        path,
        http_method=verbs,
        name=endpoint.name,
        status_code=200,
        opt=ANY_ACCEPT if endpoint.any_accept else None,
        operation_class=_described(endpoint),
        operation_id=_operation_id(endpoint),
        summary=endpoint.name,
        deprecated=endpoint.deprecated,
    )(handle)


def _operation_id(endpoint: Endpoint) -> Callable[[Any, Any, Any], str]:
    first = endpoint.verbs.split()[0]

    def name(_handler: Any, method: Any, _path: Any) -> str:
        verb = str(getattr(method, "value", method))
        return endpoint.name if verb == first else f"{endpoint.name}By{verb.title()}"

    return name


def _schema(param: Param) -> Schema:
    given = dict(param.rule.schema)
    types: Any = given.pop("type", None)
    items: Any = given.pop("items", None)
    # The rules use JSON Schema's spelling of keywords, the framework's class uses Python's.
    extra: dict[str, Any] = {
        re.sub(r"[A-Z]", lambda one: f"_{one[0].lower()}", name): value
        for name, value in given.items()
    }
    if items is not None:
        extra["items"] = Schema()
    return Schema(type=types, description=param.description or None, **extra)


def _described(endpoint: Endpoint) -> type[Operation]:
    """The operation's class: our parameters, bodies and answers instead of derived ones."""

    def describe(operation: Operation) -> None:
        operation.parameters = [
            Parameter(
                name=name,
                param_in="path",
                required=True,
                schema=Schema(type=cast("Any", "string")),
            )
            for name in endpoint.path_names
        ]
        bodied = [param for param in endpoint.params if param.where == "body"]
        for param in endpoint.params:
            if param.where == "query":
                operation.parameters.append(
                    Parameter(
                        name=param.name,
                        param_in="query",
                        required=param.required,
                        schema=_schema(param),
                    )
                )
        operation.request_body = None
        if bodied:
            schema = Schema(
                type=cast("Any", "object"),
                properties={param.name: _schema(param) for param in bodied},
                required=[param.name for param in bodied if param.required] or None,
                additional_properties=not endpoint.strict,
            )
            operation.request_body = RequestBody(
                content={"application/json": OpenAPIMediaType(schema=schema)},
                required=any(param.required for param in bodied),
            )
        error = {"application/json": OpenAPIMediaType(schema=_ERROR)}
        codes = {200, endpoint.status, *endpoint.errors}
        operation.responses = {
            str(code): OpenAPIResponse(
                description="success" if code < 300 else "an error body",
                content=None if code < 300 else error,
            )
            for code in sorted({*codes, 400, 404, 409, 413, 415, 500, 503})
        }
        if endpoint.access is not Access.PUBLIC:
            operation.responses["401"] = OpenAPIResponse(description="no token", content=error)
            operation.responses["403"] = OpenAPIResponse(
                description=f"for {endpoint.access.value} only", content=error
            )

    class Described(Operation):
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*args, **given)
            describe(self)

    return Described


_ERROR = Schema(
    type=cast("Any", "object"),
    properties={
        "code": Schema(type=cast("Any", "string")),
        "message": Schema(type=cast("Any", "string")),
        "errors": Schema(type=cast("Any", "array"), items=Schema()),
    },
    required=["code", "message"],
)
