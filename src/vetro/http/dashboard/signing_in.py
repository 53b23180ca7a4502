"""Signing in and out, changing the project, one-time links (``/dashboard/api/session``), and health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import time
from typing import NotRequired, TypedDict

from vetro import __version__
from vetro.http import endpoint as http
from vetro.http.any_request import AnyRequest
from vetro.http.context import base_url
from vetro.http.dashboard.customs import Customs
from vetro.http.dashboard.forwarding import CSRF_HEADER, Answered, ask
from vetro.http.dashboard.sessions import LINK_SECONDS, Link, Sealer, Session, cookie
from vetro.http.document import listed, shape
from vetro.http.endpoint import Answer
from vetro.http.face import Face
from vetro.http.faults import BadRequest, Fault, Forbidden, ServiceUnavailable, Unauthorized
from vetro.http.parameters import STRING, Param
from vetro.http.principal import Principal
from vetro.json_values import JsonObject


@dataclass(frozen=True)
class ServicePart:
    """A part of the service. ``made_of``: in a word; ``problem``: what is wrong, empty when it works."""

    name: str
    made_of: str
    problem: str = ""


Parts = Callable[[], Awaitable[Sequence[ServicePart]]]


async def no_parts() -> Sequence[ServicePart]:
    """Of a service that does not report it."""
    return ()


TOKENS = "/identity/v3/auth/tokens"
_SIGN_IN = "Sign in first"


@dataclass(frozen=True)
class SigningIn:
    """What the calls work on: the faces of this process, the key of the sessions, its parts, and what
    this installation's pages offer."""

    faces: Sequence[Face]
    sealer: Sealer
    parts: Parts = no_parts
    customs: Customs = field(default_factory=Customs)


class _Named(TypedDict):
    id: str
    name: str


class _User(_Named):
    domain: NotRequired[_Named | None]


class _Token(TypedDict):
    """What Keystone tells of a token. ``project``: absent of a token without one."""

    user: _User
    expires_at: str
    project: NotRequired[_Named | None]
    roles: NotRequired[list[_Named]]


Call = http.Call[SigningIn]
Endpoint = http.Endpoint[Call]


async def show(call: Call) -> dict[str, object]:
    """Who is signed in, in which project, until when, and the projects they can change to."""
    return await _shown(call, _session(call))


async def sign_in(call: Call) -> Answer:
    """Begin a session, with a name and a password or with a one-time link."""
    given = await _texts(call, "user", "password", "project", "domain", "link")
    if given.get("link"):
        return await _by_link(call, given["link"])
    if not given.get("user"):
        raise BadRequest("Give user and password, or link")
    domain = {"id": given.get("domain") or "default"}
    user = {"name": given["user"], "domain": domain, "password": given.get("password", "")}
    auth: dict[str, object] = {"identity": {"methods": ["password"], "password": {"user": user}}}
    if given.get("project"):
        auth["scope"] = {"project": {"name": given["project"], "domain": domain}}
    answer = await _ask(call, "POST", TOKENS, json={"auth": auth})
    if answer.status in (401, 403):
        raise Unauthorized("The user name or the password is wrong")
    session, has_project = _session_from(answer)
    if not has_project:
        session = await _scoped(call, session, await _first_project(call, session.token))
    return await _begun(call, session)


async def change_project(call: Call) -> Answer:
    """Go on in another project of the same user."""
    session = _session(call)
    given = await _texts(call, "project")
    if not given.get("project"):
        raise BadRequest("Give project, the id of one of the user's projects")
    changed = await _scoped(call, session, given["project"])
    await _revoke(call, session.token, session.token)
    return await _begun(call, changed)


async def sign_out(call: Call) -> Answer:
    """End the session; its token is not valid any more."""
    session = call.service.sealer.session_of(call.header("cookie"))
    if session is not None:
        await _revoke(call, session.token, session.token)
    return Answer(204, headers={"Set-Cookie": cookie("", expires=0, secure=_secure(call))})


async def make_link(call: Call) -> dict[str, object]:
    """A link that signs its first user in without a password, as the user who made it; valid for ten
    minutes."""
    token = call.header("x-auth-token")
    session = Session(token, time() + LINK_SECONDS) if token else _session(call)
    project = (await _known(call, session.token)).get("project")
    if not project:
        raise Forbidden(
            "The token is for no project, but a link signs in to one: use a token of a project"
        )
    # Each has a token of its own: the link stays valid when its maker signs out, and the other way round.
    begun = await _scoped(call, session, project["id"])
    once = await _scoped(call, session, project["id"])
    link = Link(begun, once.token, min(begun.expires, time() + LINK_SECONDS))
    code = call.service.sealer.seal(link)
    return {"url": f"{base_url(call.request)}/dashboard/sign-in#{code}", "seconds": LINK_SECONDS}


async def health(call: Call) -> dict[str, object]:
    """The state of each part of the service, for every signed-in user."""
    await _known(call, _session(call).token)
    found = await call.service.parts()
    return {
        "version": __version__,
        "parts": [
            {"name": one.name, "made_of": one.made_of, "problem": one.problem} for one in found
        ],
    }


async def _by_link(call: Call, code: str) -> Answer:
    link = call.service.sealer.open(Link, code)
    # Only one of several who use it at once can end its token.
    if link is None or not await _revoke(call, link.session.token, link.once):
        raise Unauthorized(
            "This link was used before, or is older than ten minutes; "
            "'vetro dashboard' prints another, or sign in with a password"
        )
    return await _begun(call, link.session)


async def _begun(call: Call, session: Session) -> Answer:
    text = call.service.sealer.seal(session)
    header = cookie(text, expires=session.expires, secure=_secure(call))
    return Answer(200, await _shown(call, session), {"Set-Cookie": header})


async def _shown(call: Call, session: Session) -> dict[str, object]:
    known = await _known(call, session.token)
    projects = await _projects(call, session.token)
    customs = call.service.customs
    chosen = customs.settings
    return {
        "user": {"id": known["user"]["id"], "name": known["user"]["name"]},
        "project": _named(known.get("project")),
        "projects": sorted((_named(one) for one in projects), key=lambda one: one["name"].lower()),
        "roles": sorted(one["name"] for one in known.get("roles", [])),
        "expires": known["expires_at"],
        "allowed": sorted(customs.allowed(_principal(known))),
        "settings": {
            "title": chosen.title,
            "package_mib": customs.package_mib,
            "image_project": chosen.image_project,
            "fixed_network": await _fixed_network(call, session.token, known),
        },
    }


def _principal(known: _Token) -> Principal:
    """The user of a token, as the faces know it."""
    user, project = known["user"], _named(known.get("project"))
    domain = user.get("domain")
    return Principal(
        user_id=user["id"],
        user_name=user["name"],
        project_id=project["id"],
        project_name=project["name"],
        domain_id=domain["id"] if domain else "default",
        roles=frozenset(one["name"] for one in known.get("roles", [])),
    )


async def _fixed_network(call: Call, token: str, known: _Token) -> str:
    """The network that the project's new environments join (A4); empty: people choose."""
    chosen = call.service.customs.settings
    project = known.get("project")
    if not chosen.use_fixed_network or not project:
        return ""
    answer = await _ask(call, "GET", f"/identity/v3/projects/{project['id']}", token=token)
    shown: JsonObject = answer.json() if answer.status == 200 else {}
    named = shown.get("project", {}).get(chosen.fixed_network)
    return named if isinstance(named, str) and named else chosen.fixed_network


def _named(project: _Named | None) -> _Named:
    return {"id": project["id"], "name": project["name"]} if project else {"id": "", "name": ""}


async def _known(call: Call, token: str) -> _Token:
    """The data of a token. Errors: 401 when it is not valid any more."""
    answer = await _ask(call, "GET", TOKENS, token=token, subject=token)
    if answer.status != 200:
        raise Unauthorized("The session is over; sign in again")
    return answer.json()["token"]


async def _projects(call: Call, token: str) -> list[_Named]:
    answer = await _ask(call, "GET", "/identity/v3/auth/projects", token=token)
    return answer.json()["projects"] if answer.status == 200 else []


async def _first_project(call: Call, token: str) -> str:
    projects = await _projects(call, token)
    if not projects:
        raise Forbidden("This account has no project yet; an administrator can add it to one")
    return min(projects, key=lambda one: one["name"].lower())["id"]


async def _scoped(call: Call, session: Session, project_id: str) -> Session:
    """A session of the same user in a project. Errors: 401, 403."""
    auth = {
        "identity": {"methods": ["token"], "token": {"id": session.token}},
        "scope": {"project": {"id": project_id}},
    }
    answer = await _ask(call, "POST", TOKENS, json={"auth": auth})
    if answer.status in (401, 403, 404):
        raise Forbidden("The session is over, or its user may not use this project; sign in again")
    return _session_from(answer)[0]


async def _revoke(call: Call, token: str, subject: str) -> bool:
    answer = await _ask(call, "DELETE", TOKENS, token=token, subject=subject)
    return answer.status == 204


def _session_from(answer: Answered) -> tuple[Session, bool]:
    """The session of a new token, and whether it has a project."""
    _passed_on(answer)
    known = answer.json()["token"]
    expires = datetime.fromisoformat(known["expires_at"].replace("Z", "+00:00")).timestamp()
    return Session(answer.headers["x-subject-token"], expires), bool(known.get("project"))


def _passed_on(answer: Answered) -> None:
    """Check that the identity service did what it was asked; its refusal is passed on."""
    if answer.status == 201:
        return
    if answer.status >= 500:
        raise ServiceUnavailable("The identity service does not answer; try again later")
    body: JsonObject = answer.json() or {"error": {}}
    said = str(body["error"].get("message", "The sign-in was refused"))
    wait = answer.headers.get("retry-after")
    raise Fault(said, status=answer.status, headers={"Retry-After": wait} if wait else None)


async def _ask(
    call: Call, method: str, path: str, *, token: str = "", subject: str = "", json: object = ...
) -> Answered:
    given = {"X-Auth-Token": token, "X-Subject-Token": subject}
    headers = {name: value for name, value in given.items() if value}
    scope: object = call.request.scope
    return await ask(call.service.faces, scope, method, path, headers=headers, json=json)


async def _texts(call: Call, *names: str) -> dict[str, str]:
    body = await call.json()
    if not isinstance(body, dict):
        raise BadRequest(f"The body must be an object with some of {', '.join(names)}")
    found: dict[str, str] = {}
    for name in names:
        value: object = body.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if value is None:
            continue
        if not isinstance(value, str) or len(value) > 8192:
            raise BadRequest(f"{name} must be a text of at most 8192 characters")
        found[name] = value
    return found


def _session(call: Call) -> Session:
    session = call.service.sealer.session_of(call.header("cookie"))
    if session is None:
        raise Unauthorized(_SIGN_IN)
    return session


def _secure(call: Call) -> bool:
    request: AnyRequest = call.request
    return request.scope["scheme"] == "https"


_CSRF = Param(CSRF_HEADER, STRING, True, "header", "Any text: shows that a page of ours asks")


def _takes(*names: str) -> tuple[Param, ...]:
    return (_CSRF, *(Param(name, STRING) for name in names))


_TEXT = {"type": "string"}
_NAMED = shape("NamedObject", {"id": _TEXT, "name": _TEXT})
_SESSION = shape(
    "DashboardSession",
    {
        "user": _NAMED,
        "project": _NAMED,
        "projects": listed(_NAMED),
        "roles": listed(_TEXT),
        "expires": _TEXT,
        "allowed": listed(_TEXT),
        "settings": shape(
            "DashboardSettings",
            {
                "title": _TEXT,
                "package_mib": {"type": "number"},
                "image_project": _TEXT,
                "fixed_network": _TEXT,
            },
        ),
    },
)
_LINK = shape("SignInLink", {"url": _TEXT, "seconds": {"type": "number"}})
_PART = shape("ServicePart", {"name": _TEXT, "made_of": _TEXT, "problem": _TEXT})
_HEALTH = shape("DashboardHealth", {"version": _TEXT, "parts": listed(_PART)})

ENDPOINTS = [
    Endpoint("show_session", "GET", "/api/session", show, reply=_SESSION, errors=(401,)),
    Endpoint("sign_in", "POST", "/api/session", sign_in,
             _takes("user", "password", "project", "domain", "link"), reply=_SESSION,
             errors=(401, 403, 429, 503)),
    Endpoint("change_project", "PUT", "/api/session", change_project, _takes("project"),
             reply=_SESSION, errors=(401, 403)),
    Endpoint("sign_out", "DELETE", "/api/session", sign_out, (_CSRF,), status=204, errors=(403,)),
    Endpoint("make_link", "POST", "/api/links", make_link, (_CSRF,), reply=_LINK,
             errors=(401, 403)),
    Endpoint("show_health", "GET", "/api/health", health, reply=_HEALTH, errors=(401,)),
]  # fmt: skip
