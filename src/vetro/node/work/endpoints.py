"""The calls of a node's task API (compute-node-agent.md §4), declared as those of every other face."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec
import structlog

from vetro import tracing
from vetro.compute.wire import Fence
from vetro.http import (
    Conflict,
    Fault,
    MalformedBody,
    NotFound,
    PayloadTooLarge,
    ServiceUnavailable,
    Unauthorized,
)
from vetro.http.declaration import Answer, Body, Endpoint
from vetro.http.parameters import STRING, Param
from vetro.json_texts import NotJson, decode_json
from vetro.node.errors import ImageError, NodeError
from vetro.node.images.store import ImageStore, sha256_of
from vetro.node.work.queues import TaskRunner

log = structlog.get_logger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]

BODY_LIMIT = 16 * 2**20
_UUID = re.compile(r"[0-9a-f-]{36}")


@dataclass
class Node:
    """What the calls work on. ``key``: the bearer token callers must have; '' admits everyone."""

    runner: TaskRunner
    server_uuid: str
    key: str
    version: str
    images: ImageStore | None
    closing: bool = False


@dataclass
class Call:
    """One request for an endpoint of the node; ``path`` has the parameters of the path."""

    node: Node
    path: Mapping[str, str]
    scope: Scope
    receive: Receive

    def header(self, name: str, default: str = "") -> str:
        """A header of the request."""
        wanted = name.lower().encode()
        values = [value for key, value in self.scope["headers"] if key.lower() == wanted]
        return values[-1].decode("latin-1") if values else default

    def query(self, name: str) -> str:
        """A parameter of the query; '' when it is absent."""
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))
        return query.get(name, [""])[0]

    def check_caller(self) -> None:
        """Errors: 401 for another key than the node's, 404 for the name of another server."""
        node = self.node
        if node.key:
            scheme, _, given = self.header("authorization").partition(" ")
            same = hmac.compare_digest(given.strip().encode(), node.key.encode())
            if scheme.lower() != "bearer" or not same:
                raise Unauthorized("The node's key is missing or wrong", type_="NotAuthorized")
        wanted = self.header("x-server-uuid", node.server_uuid).lower()
        if wanted != node.server_uuid:
            raise NotFound(
                f"received request for wrong server: {wanted}, this is {node.server_uuid}"
            )

    async def json(self) -> dict[str, Any]:
        """The body, an object. Errors: 400, 409, 413."""
        return await _read_object(self.receive)


@dataclass(frozen=True)
class NodeEndpoint(Endpoint[Call]):
    """A call of the task API. ``key``: only for callers that have the node's key."""

    key: bool = True


def invalid(message: str) -> Fault:
    """409 InvalidArgument."""
    return Conflict(message, type_="InvalidArgument")


async def _ping(call: Call) -> object:
    """Whether the node accepts tasks."""
    node = call.node
    return {"ready": True, "paused": node.runner.paused, "version": node.version}


async def _describe(call: Call) -> object:
    """The OpenAPI document of the task API."""
    # Not at the top: few nodes are ever asked for it.
    from vetro.node.work.description import document

    return document(call.node.version)


async def _history(call: Call) -> object:
    """The active tasks and the last ended ones."""
    return call.node.runner.history.shown()


async def _pause(call: Call) -> None:
    """Accept no more tasks."""
    call.node.runner.paused = True
    log.info("tasks_paused")


async def _resume(call: Call) -> None:
    """Accept tasks again."""
    call.node.runner.paused = False
    log.info("tasks_resumed")


async def _run_task(call: Call) -> Answer:
    """Run a task to its end."""
    body = await call.json()
    runner = call.node.runner
    if runner.paused or call.node.closing:
        raise ServiceUnavailable("CN Agent is not accepting tasks for maintenance")
    task = body.get("task") or call.query("task")
    if not task:
        raise invalid("Missing key 'task'")
    params = body.get("params")
    if params is None:
        raise invalid("Missing key 'params'")
    if not isinstance(params, dict):
        raise invalid("'params' must be an object")
    if not runner.knows(str(task)):
        raise NotFound(f"Unknown task, '{task}'")
    try:
        fence = msgspec.convert(body.get("fence"), Fence | None)
    except msgspec.ValidationError as error:
        raise invalid(f"'fence': {error}") from error
    status, result = await runner.submit(
        str(task),
        cast("dict[str, object]", params),
        fence=fence,
        key=call.header("idempotency-key"),
        request_id=call.header("x-request-id"),
        traceparent=call.header(tracing.HEADER),
    )
    return Answer(status, result)


async def _image_file(call: Call) -> Path:
    """An image's file, for another node that knows its digest."""
    uuid = call.path["uuid"]
    images = call.node.images
    try:
        if images is None or not _UUID.fullmatch(uuid):
            raise ImageError("no images")
        manifest = images.manifest(uuid)
        path = images.file(uuid)
    except NodeError as error:
        raise NotFound(f"image {uuid} is not here") from error
    wanted = sha256_of(manifest)
    given = call.header("x-image-sha256")
    if not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
        call.check_caller()
    return path


async def _read_object(receive: Receive) -> dict[str, object]:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise MalformedBody("The request was not sent to its end")
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise PayloadTooLarge(f"At most {BODY_LIMIT} bytes are read")
        if not message.get("more_body"):
            break
    if not body:
        return {}
    try:
        value = decode_json(bytes(body))
    except NotJson as error:
        raise MalformedBody(f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise invalid("The body must be an object")
    return cast("dict[str, object]", value)


def _header(name: str, description: str = "") -> Param:
    return Param(name, STRING, where="header", description=description)


ENDPOINTS = (
    NodeEndpoint("ping", "GET", "/ping", _ping, key=False),
    NodeEndpoint("describe", "GET", "/openapi.json", _describe, key=False),
    NodeEndpoint(
        "run_task",
        "POST",
        "/tasks",
        _run_task,
        params=(
            Param("task", STRING, where="query", description="Where the body has none."),
            _header("Idempotency-Key"),
            _header("X-Request-Id"),
            _header("X-Server-UUID"),
        ),
        takes=Body({"$ref": "#/components/schemas/Task"}),
    ),
    NodeEndpoint("history", "GET", "/history", _history),
    NodeEndpoint("pause", "POST", "/pause", _pause, status=204),
    NodeEndpoint("resume", "POST", "/resume", _resume, status=204),
    NodeEndpoint(
        "image_file",
        "GET",
        "/images/{uuid}/file",
        _image_file,
        params=(_header("X-Image-Sha256", "Admits the caller in place of the node's key."),),
        key=False,
    ),
)
