"""The Open Service Broker API (version 2.17) over the store of the broker."""

from __future__ import annotations

import base64
import re
from typing import Any, cast

from litestar import Response

from vetro.broker import answers
from vetro.broker.catalog_api import CHALLENGE, Account
from vetro.broker.offers import Json
from vetro.broker.store import Broker, Wanted
from vetro.http import (
    BadRequest,
    Face,
    Fault,
    FaultStyle,
    NotFound,
    PreconditionFailed,
    Reply,
    Security,
    Unauthorized,
    make_face,
)
from vetro.http.endpoint import Answer, AnyRequest, Endpoint, respond, routes
from vetro.http.endpoint import Call as PlainCall
from vetro.http.parameters import OBJECT, STRING, Param, query

EMPTY: Json = {}
GONE = Answer(410, EMPTY)
LONGEST = 255
#: Of the API's versions all of major version 2 are served.
VERSION = re.compile(r"2\.\d{1,4}", re.ASCII)
REQUEST_IDENTITY = "X-Broker-API-Request-Identity"
BROKER_FAULTS = FaultStyle(
    lambda fault, _request_id: {"description": fault.message, **fault.extra}, schema=answers.ERROR
)


class Call(PlainCall[Broker]):
    """A request of a platform."""

    account: Account

    def identifier(self, name: str) -> str:
        """An id in the path. Errors: 400."""
        return _checked(self.path[name], name)

    @property
    def service_and_plan(self) -> tuple[str, str]:
        """The ids that a request without a body has in its query. Errors: 400."""
        service, plan = (_checked(self.query(one), one) for one in ("service_id", "plan_id"))
        return service, plan

    def needs_patience(self) -> None:
        """Refuse a platform that does not poll. Errors: 422."""
        if not self.flag("accepts_incomplete"):
            raise Fault(
                "This service is deployed in the background: the platform must send"
                " accepts_incomplete=true and ask for the last operation",
                status=422,
                extra={"error": "AsyncRequired"},
            )

    async def body(self, *texts: str) -> dict[str, Json]:
        """The body, an object with these texts. Errors: 400."""
        given = await self.json()
        if not isinstance(given, dict):
            raise BadRequest("The body must be a JSON object, with Content-Type: application/json")
        body = cast("dict[str, Json]", given)
        for name in texts:
            _checked(body.get(name), name)
        if not isinstance(body.get("parameters") or {}, dict):
            raise BadRequest("parameters must be an object")
        return body


def _checked(value: object, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise BadRequest(f"{name} must be a text of 1 to {LONGEST} printable characters")
    return value


async def catalog(call: Call) -> Json:
    """The services on offer: the applications that the project sees."""
    return await call.service.catalog(call.account)


async def provision(call: Call) -> Json:
    """Deploy an application into the environment of its space."""
    instance = call.identifier("instance_id")
    body = await call.body("service_id", "plan_id", "organization_guid", "space_guid")
    call.needs_patience()
    if body.get("maintenance_info"):
        raise Fault(
            "The plans have no maintenance_info",
            status=422,
            extra={"error": "MaintenanceInfoConflict"},
        )
    wanted = Wanted(
        body["service_id"],
        body["plan_id"],
        body["organization_guid"],
        body["space_guid"],
        body.get("parameters") or {},
    )
    done = await call.service.provision(call.account, instance, wanted)
    return Answer(200 if done else 202, EMPTY)


async def change(call: Call) -> Json:
    """Refused: plans and parameters of an instance cannot be changed."""
    instance = call.identifier("instance_id")
    await call.body("service_id")
    try:
        await call.service.last_operation(call.account, instance)
    except NotFound:
        return GONE
    raise Fault("Neither the plan nor the parameters of an instance can be changed", status=422)


async def deprovision(call: Call) -> Json:
    """Remove an application from the environment of its space."""
    instance = call.identifier("instance_id")
    service, plan = call.service_and_plan
    call.needs_patience()
    try:
        gone = await call.service.deprovision(call.account, instance, service, plan)
    except NotFound:
        return GONE
    return Answer(200 if gone else 202, EMPTY)


async def last_operation(call: Call) -> Json:
    """How the deployment of an instance stands; 410 once a removed instance is gone."""
    try:
        found = await call.service.last_operation(call.account, call.identifier("instance_id"))
    except NotFound:
        return GONE
    if found is None:
        return GONE
    body = {"state": found.state, "description": found.description}
    return Answer(500 if found.state == "unknown" else 200, body)


async def bind(call: Call) -> Json:
    """The credentials that the application's `getCredentials` gives."""
    instance, binding = call.identifier("instance_id"), call.identifier("binding_id")
    body = await call.body("service_id", "plan_id")
    new, credentials = await call.service.bind(call.account, instance, binding, body)
    return Answer(201 if new else 200, credentials)


async def unbind(call: Call) -> Json:
    """Forget a binding, whether it was known or not; the application is not notified."""
    instance, binding = call.identifier("instance_id"), call.identifier("binding_id")
    service, plan = call.service_and_plan
    try:
        await call.service.unbind(call.account, instance, binding, service, plan)
    except NotFound:
        return GONE
    return EMPTY


def _texts(*names: str) -> tuple[Param, ...]:
    return tuple(Param(name, STRING, True) for name in names)


_WHICH = tuple(Param(one, STRING, True, "query") for one in ("service_id", "plan_id"))
_ASYNC = query(STRING, "accepts_incomplete")
_PARAMETERS = (Param("parameters", OBJECT),)

INSTANCE = "/v2/service_instances/{instance_id}"
BINDING = INSTANCE + "/service_bindings/{binding_id}"
ENDPOINTS: list[Endpoint[Call]] = [
    Endpoint("catalog", "GET", "/v2/catalog", catalog,
             reply=answers.CATALOG, errors=(412,)),
    Endpoint("provision", "PUT", INSTANCE, provision,
             (*_texts("service_id", "plan_id", "organization_guid", "space_guid"), *_PARAMETERS,
              *_ASYNC),
             reply=Reply(answers.EMPTY, status=202, others={200: answers.EMPTY}),
             errors=(409, 412, 422, 502)),
    Endpoint("update", "PATCH", INSTANCE, change, _texts("service_id"), reply=answers.EMPTY,
             errors=(410, 412, 422)),
    Endpoint("deprovision", "DELETE", INSTANCE, deprovision, (*_WHICH, *_ASYNC),
             reply=Reply(answers.EMPTY, status=202, others={200: answers.EMPTY, 410: answers.EMPTY}),
             errors=(412, 422, 502)),
    Endpoint("last_operation", "GET", INSTANCE + "/last_operation", last_operation,
             query(STRING, "service_id", "plan_id", "operation"),
             reply=Reply(answers.OPERATION, others={410: answers.EMPTY}), errors=(412, 502)),
    Endpoint("bind", "PUT", BINDING, bind, (*_texts("service_id", "plan_id"), *_PARAMETERS),
             reply=Reply(answers.BINDING, status=201, others={200: answers.BINDING}),
             errors=(409, 412, 422, 502, 504)),
    Endpoint("unbind", "DELETE", BINDING, unbind, _WHICH,
             reply=Reply(answers.EMPTY, others={410: answers.EMPTY}), errors=(412, 502)),
]  # fmt: skip


def credentials_of(authorization: str) -> tuple[str, str]:
    """Name and password of a header ``Authorization: Basic …``; the first colon divides them. 401."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            name, colon, password = (
                base64.b64decode(given.strip(), validate=True).decode().partition(":")
            )
        except ValueError:
            colon = name = password = ""
        if colon and "\0" not in name + password:
            return name, password
    raise Unauthorized("Authorization required", headers=CHALLENGE)


def broker_face(broker: Broker, *, debug: bool = False) -> Face:
    """The broker, at ``/v2``."""

    async def around(endpoint: Endpoint[Call], request: AnyRequest) -> Response[Any]:
        call = Call(broker, request)
        echo = {REQUEST_IDENTITY: one} if (one := call.header(REQUEST_IDENTITY)) else {}
        try:
            name, password = credentials_of(call.header("authorization"))
            if not VERSION.fullmatch(call.header("x-broker-api-version")):
                raise PreconditionFailed(
                    "X-Broker-API-Version must be 2.N: this broker speaks version 2.17"
                )
            call.account = await broker.api.log_in(name, password)
            response = respond(request, endpoint, await endpoint.run(call))
        except Fault as fault:
            fault.headers |= echo
            raise
        response.headers.update(echo)
        return response

    return make_face(
        name="broker",
        prefix="",
        title="Vetro service broker",
        handlers=routes(ENDPOINTS, around),
        faults=BROKER_FAULTS,
        version="2.17",
        debug=debug,
        security=Security({"basic": {"type": "http", "scheme": "basic"}}),
    )
