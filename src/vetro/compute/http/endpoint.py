"""What the calls of the compute API have beside those of other faces (`vetro.http.endpoint`).

An `Endpoint` declares who may call it and its preconditions; `around` checks them, in this order
(compute-node-api.md §2): the caller; the body's syntax; the server's uuid (409) and record (404); the
VM's uuid (409); the server runs (409); undeclared parameters of strict calls (409); declared ones (500).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litestar import Response
from msgspec import Struct, to_builtins

from vetro.compute.http.request_metrics import completed
from vetro.compute.values.faults import invalid_argument, not_allowed, not_found, not_running
from vetro.compute.values.parameters import UUID, Params, check_declared, read_parameters, validate
from vetro.compute.values.records import Json
from vetro.compute.values.silence import is_silent, nothing_known
from vetro.compute.wire import ACTING_HEADER
from vetro.http import Fault, Policy, Principal, context_of
from vetro.http import endpoint as http
from vetro.http.endpoint import AnyRequest
from vetro.http.parameters import boolean_of
from vetro.secrecy import masked
from vetro.storage import StoredRow

if TYPE_CHECKING:
    from vetro.compute.servers.store import Agent
    from vetro.compute.service import ComputeService

DEFAULT = "default"


class Access(enum.Enum):
    """Who may call."""

    PUBLIC = "anybody"
    USER = "any project's users, operators"
    NODE = "the server's own node, operators"
    OPERATOR = "operators"


@dataclass
class Call(http.Call["ComputeService"]):
    """One validated request for an endpoint, with its server's record."""

    params: Params
    caller: Principal
    server_uuid: str = ""
    vm_uuid: str = ""
    server: StoredRow | None = None
    #: The project whose objects (and shared ones) the call may use; ``None``: every project's.
    project: str | None = None

    @property
    def principal(self) -> Principal:
        """The caller, which on a trusted network needs no token."""
        return self.caller

    @property
    def request_id(self) -> str:
        """The request's id: the client's own if it sent one."""
        return context_of(self.request).request_id

    @property
    def row(self) -> StoredRow:
        """The server's record."""
        if self.server is None:
            raise not_found(f"Server {self.server_uuid} not found")
        return self.server

    @property
    def is_operator(self) -> bool:
        """Whether the caller has an operator's rights."""
        return self.principal.is_admin

    @property
    def own_uuid(self) -> str:
        """The uuid of one server. Errors: 409 for `default`."""
        if self.server_uuid == DEFAULT:
            raise invalid_argument("Invalid server_uuid")
        return self.server_uuid

    @property
    def on_any_server(self) -> bool:
        """Whether a VM was named without its server (ours)."""
        return self.request.path_params.get("server_uuid") == DEFAULT

    @property
    def agent(self) -> Agent:
        """The agent of the server."""
        return self.service.servers.agent_of(self.row)

    @property
    def node(self) -> str | None:
        """The server of the node that calls, '' with the shared key; ``None``: no node calls."""
        if "node" not in self.principal.roles or self.is_operator:
            return None
        return self.principal.user_id.partition("/")[2]

    @property
    def job_uuid(self) -> str | None:
        """The job that the call belongs to, as the caller says (``jobid``)."""
        given = self.get("jobid")
        return given if isinstance(given, str) and UUID.match(given) else None

    @property
    def made_by(self) -> str | None:
        """The caller's mark on what has no uuid of its own; ``None``: it acts whoever made it."""
        given = self.get("made_by")
        return None if given is None else str(given)

    def owner_of(self, what: str) -> str:
        """The project that the call acts for: an operator may name one. Errors: 403."""
        wanted = self.get("project_id")
        if wanted and self.project is not None and wanted != self.project:
            raise not_allowed(f"Another project's {what}")
        return str(wanted or self.project or self.principal.project_id)

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
class Endpoint(http.Endpoint[Call]):
    """A call of the seed's API, or one that Vetro adds.

    ``strict``: undeclared parameters are refused. ``running``: the server must run. ``known``: the
    server must have a record. ``unheard``: asked for a VM on any server (`default`), it does without
    one that is silent or has no record. ``nodes``: nodes may call too (``run`` checks). ``upload``:
    the body is a file, which ``run`` reads.
    """

    access: Access = Access.OPERATOR
    strict: bool = False
    running: bool = False
    known: bool = True
    unheard: bool = False
    nodes: bool = False
    upload: bool = False

    @property
    def closed(self) -> bool:
        """Whether its JSON body has no other members than ``params``."""
        return self.strict


def trusted_principal() -> Principal:
    """The caller on a trusted network, without a token, as in the seed."""
    return Principal("anonymous", "anonymous", "", roles=frozenset({"admin"}))


def caller_of(
    service: ComputeService, request: AnyRequest, endpoint: Endpoint, policy: Policy
) -> Principal:
    """The caller, if the call is open to it. Errors: 401, 403."""
    principal = context_of(request).principal
    if principal is None:
        if service.settings.compute.trusted_network:
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
        raise not_allowed("Only the node itself may make this call")
    if endpoint.access is Access.USER and not is_node and principal.project_id:
        policy.require_reading(principal, endpoint, request.method)
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


async def prepare(
    service: ComputeService, endpoint: Endpoint, request: AnyRequest, policy: Policy
) -> Call:
    """Run all checks that precede the endpoint."""
    principal = caller_of(service, request, endpoint, policy)
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
        found = await call.service.machines.find(vm)
        if found is None:
            raise not_found(f"VM {vm} not found")
        call.server_uuid = found.server_uuid
    if vm is not None and call.project is not None:
        # Checked before the answer reveals anything about its server.
        found = await call.service.machines.find(vm)
        if found is not None and found.owner_uuid != call.project:
            raise not_found(f"VM {vm} not found")
    unheard = endpoint.unheard and call.on_any_server
    if endpoint.known and call.server_uuid != DEFAULT:
        async with call.service.database.read() as tx:
            call.server = await call.service.servers.known(tx, call.server_uuid)
            if call.server is None and not unheard:
                raise not_found(f"Server {call.server_uuid} not found")
    if vm is not None:
        if not UUID.match(vm):
            raise invalid_argument("Invalid vm_uuid")
        call.vm_uuid = vm
        call.params["uuid"] = vm
    if endpoint.running and not unheard and is_silent(call.server):
        if given == DEFAULT and call.server is not None:
            raise nothing_known(f"VM {vm}", call.server)
        raise not_running()


Around = Callable[[Endpoint, AnyRequest], Awaitable[Response[Any]]]


def around(service: ComputeService, policy: Policy) -> Around:
    """What is done for every call: the checks, the metrics, the status of wrong parameters.

    Who only reads gets no secrets: user data of machines, passwords in their metadata.
    """

    async def serve(endpoint: Endpoint, request: AnyRequest) -> Response[object]:
        began, status = time.perf_counter(), 500
        try:
            call = await prepare(service, endpoint, request, policy)
            result = await endpoint.run(call)
            if policy.only_reads(call.caller) and isinstance(result, dict | list | Struct):
                response = http.respond(request, endpoint, masked(to_builtins(result)))
            else:
                response = http.respond(request, endpoint, result)
            status = response.status_code or 200
            return response
        except Fault as fault:
            if fault.type == "InvalidParameters" and fault.status == 500:
                fault.status = service.settings.compute.validation_status
            status = fault.status
            raise
        finally:
            completed(request.method, endpoint.name, status, time.perf_counter() - began)

    return serve
