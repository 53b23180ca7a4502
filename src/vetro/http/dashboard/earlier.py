"""Calls that pages of the earlier dashboard made (dashboard-and-cli.md A1, A5).

Programs and bookmarks have their addresses: an action is started and its result fetched, and the
topology of an environment is read as that page drew it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import msgspec
from litestar.types import Receive, Scope, Send

from vetro.http.assembly import respond
from vetro.http.dashboard.forwarding import Answered, ask, check_origin
from vetro.http.dashboard.sessions import Sealer
from vetro.http.dashboard.topology import topology_of
from vetro.http.face import Face
from vetro.http.faults import (
    Fault,
    MethodNotAllowed,
    PayloadTooLarge,
    ServiceUnavailable,
    Unauthorized,
)
from vetro.http.headers import Headers, header
from vetro.http.media_types import prefers_html
from vetro.json_texts import NotJson, decode_json

_START = re.compile(r"environments/([^/]+)/start_action/([^/]+)")
_RESULT = re.compile(r"environments/([^/]+)/actions/([^/]+?)(/poll)?")
_TOPOLOGY = re.compile(r"environments/([^/]+)/services/get_d3_data")
_ENVIRONMENTS = "/v1/environments/"
BODY_LIMIT = 2**20
NOT_STARTED = (403, 404, 409)
_JSON = "application/json"


@dataclass(frozen=True)
class EarlierCall:
    """A call to answer: which one, and the parts of its path."""

    kind: str
    parts: tuple[str, ...]
    polls: bool = False


def earlier_call(path: str, headers: Headers) -> EarlierCall | None:
    """The call of a path below ``/dashboard``; ``None`` for every other path.

    A browser that is led to the topology by a bookmark wants the page, not its data.
    """
    name = path.strip("/").removeprefix("app-catalog/")
    if found := _START.fullmatch(name):
        return EarlierCall("start", (found[1], found[2]))
    if found := _RESULT.fullmatch(name):
        return EarlierCall("result", (found[1], found[2]), found[3] is not None)
    if found := _TOPOLOGY.fullmatch(name):
        return (
            None
            if prefers_html(header(headers, b"accept"))
            else EarlierCall("topology", found.groups())
        )
    return None


@dataclass(frozen=True)
class EarlierCalls:
    """Answers these calls with the session's token, through the faces of this process."""

    faces: Sequence[Face]
    sealer: Sealer

    async def serve(self, call: EarlierCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call. Errors: 401 without a session, 403 for pages of others, 405."""
        given = cast("dict[str, Any]", scope)
        method: str = given["method"]
        wanted = "POST" if call.kind == "start" else "GET"
        if method != wanted:
            raise MethodNotAllowed(f"This address takes {wanted}", headers={"Allow": wanted})
        headers: Headers = given["headers"]
        check_origin(method, headers, given["scheme"])
        session = self.sealer.session_of(header(headers, b"cookie"))
        if session is None:
            raise Unauthorized("The session is over; sign in again")
        token = {"X-Auth-Token": session.token}
        if call.kind == "start":
            body = await _body(receive)
            await self._start(call, scope, token, body, send)
        elif call.kind == "result":
            await self._result(call, scope, token, send)
        else:
            shown = await self._shown(call.parts[0], scope, token)
            await _json(send, topology_of(shown))

    async def _shown(self, environment: str, scope: Scope, token: Mapping[str, str]) -> Any:
        """An environment with the caller's own changes, as the pages show it."""
        listed = _content(await self._ask(scope, "GET", f"{environment}/sessions", token))
        own = [
            one
            for one in listed["sessions"]
            if one["own"] and not one["overtaken"] and one["state"] == "opened"
        ]
        newest = max(own, key=lambda one: one["created"], default=None)
        with_session = {"X-Configuration-Session": newest["id"]} if newest else {}
        return _content(await self._ask(scope, "GET", environment, {**token, **with_session}))

    async def _ask(
        self, scope: Scope, method: str, path: str, headers: Mapping[str, str], json: object = ...
    ) -> Answered:
        given = cast("dict[str, object]", scope)
        at = _ENVIRONMENTS + path
        return await ask(self.faces, given, method, at, headers=headers, json=json)

    async def _start(
        self, call: EarlierCall, scope: Scope, token: Mapping[str, str], body: bytes, send: Send
    ) -> None:
        """``{url}`` of the result; ``{}`` when the action cannot be started by this caller, or now."""
        environment, action = call.parts
        try:
            arguments: object = decode_json(body) if body.strip() else {}
        except NotJson:
            arguments = {}  # a form of that dashboard, which has no arguments
        path = f"{environment}/actions/{action}"
        answer = await self._ask(scope, "POST", path, token, arguments)
        if answer.status in NOT_STARTED:
            await _json(send, {})
            return
        task = _content(answer)["task_id"]
        await _json(send, {"url": f"/dashboard/environments/{quote(environment)}/actions/{task}/"})

    async def _result(
        self, call: EarlierCall, scope: Scope, token: Mapping[str, str], send: Send
    ) -> None:
        """``{}`` until there is a result; then the result as a file, or what it is when polled."""
        environment, task = call.parts
        answer = await self._ask(scope, "GET", f"{environment}/actions/{task}", token)
        known: object = _content(answer)
        if not isinstance(known, dict) or "isException" not in known:
            await _json(send, {})
            return
        outcome = cast("dict[str, object]", known)
        file = result_file(outcome)
        if call.polls:
            about = {"name": file.name, "type": file.type}
            shown: object = None if outcome.get("result") is None else about
            await _json(send, {"isException": bool(outcome.get("isException")), "result": shown})
            return
        disposition = f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"
        kept = [(b"content-disposition", disposition.encode()), *_INERT]
        await respond(send, 200, file.content, file.type, kept)


_INERT: Headers = [
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")


@dataclass(frozen=True)
class ResultFile:
    """What is downloaded of a result."""

    name: str
    type: str
    content: bytes


def result_file(known: Mapping[str, object]) -> ResultFile:
    """The file of a result: that of an ``io.murano.File`` whose content can be decoded, else the result as
    JSON."""
    result: object = known.get("result")
    if isinstance(result, dict):
        given = cast("dict[str, object]", result)
        header_: object = given.get("?")
        class_name = str(header_.get("type", "")) if isinstance(header_, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        content = _decoded(given) if class_name.startswith("io.murano.File") else None
        if content is not None:
            name = re.sub(
                r"[^\w. -]+", "_", re.split(r"[\\/]", str(given.get("filename") or ""))[-1]
            )
            type_ = str(given.get("mimeType") or "")
            return ResultFile(
                name.lstrip(".") or "action_result_file",
                type_ if _TYPE.fullmatch(type_) else "application/octet-stream",
                content,
            )
    name = "exception.json" if known.get("isException") else "result.json"
    return ResultFile(name, _JSON, msgspec.json.format(msgspec.json.encode(result), indent=2))


def _decoded(file: Mapping[str, object]) -> bytes | None:
    try:
        return base64.b64decode(str(file.get("base64Content") or ""), validate=True)
    except ValueError:  # not base64, or not even ASCII
        return None


async def _body(receive: Receive) -> bytes:
    """The body of a request outside every face. Errors: 413."""
    body = bytearray()
    while True:
        message = cast("dict[str, Any]", await receive())
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise PayloadTooLarge(f"Arguments of an action have at most {BODY_LIMIT} bytes")
        if not message.get("more_body"):
            return bytes(body)


def _content(answer: Answered) -> Any:
    """The JSON of an answer. Errors: what the face answered instead."""
    if answer.status < 400:
        return answer.json()
    if answer.status >= 500:
        raise ServiceUnavailable("The service does not answer; try again later")
    body: object = answer.json() or {}
    said: object = body.get("error", body) if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    text = str(said.get("message", "The call was refused")) if isinstance(said, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    raise Fault(text or "The call was refused", status=answer.status)


async def _json(send: Send, value: object) -> None:
    await respond(send, 200, msgspec.json.encode(value), _JSON, [(b"cache-control", b"no-store")])
