"""The face at ``/dashboard``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from litestar.types import Receive, Scope, Send

from vetro.http.assembly import refuse, respond
from vetro.http.dashboard.bookmarks import moved
from vetro.http.dashboard.consoles import serve_stream, wanted_at
from vetro.http.dashboard.customs import Customs
from vetro.http.dashboard.earlier import EarlierCalls, earlier_call
from vetro.http.dashboard.files import Files
from vetro.http.dashboard.forwarding import FORWARDED, check_origin, forward, is_own_origin
from vetro.http.dashboard.sessions import Sealer
from vetro.http.dashboard.signing_in import ENDPOINTS, Call, Parts, SigningIn, no_parts
from vetro.http.endpoint import routes, serving
from vetro.http.envelope import Envelope
from vetro.http.face import Face, make_face
from vetro.http.faults import Fault, MethodNotAllowed, Unauthorized
from vetro.http.headers import Headers, header

PREFIX = "/dashboard"


def dashboard_face(
    faces: Sequence[Face],
    directory: Path,
    key: str,
    parts: Parts = no_parts,
    customs: Customs | None = None,
) -> Face:
    """The dashboard of these faces.

    ``directory``: its built files; without them a page says how to build them. ``key`` seals the
    sessions: its owner can make a session from any token. ``parts``: how the service is.
    ``customs``: what this installation's pages offer, and to whom.
    """
    sealer = Sealer(key)
    signing = SigningIn(faces, sealer, parts, customs or Customs())
    made = make_face(
        name="dashboard",
        prefix=PREFIX,
        handlers=routes(ENDPOINTS, serving(partial(Call, signing))),
        title="Vetro dashboard sessions",
        public=lambda method, path: True,
    )
    front = _Front(made.app, faces, Files(directory), sealer)
    return Face(
        made.name,
        made.prefix,
        cast("Envelope", front),
        made.document,
        lambda path: wanted_at(path) is not None,
    )


class _Front:
    """Decides what a request below ``/dashboard`` is for."""

    def __init__(
        self, sessions: Envelope, faces: Sequence[Face], files: Files, sealer: Sealer
    ) -> None:
        self.app = sessions.app
        self.closing = sessions.closing
        self.sessions = sessions
        self.faces = faces
        self.files = files
        self.sealer = sealer
        self.earlier = EarlierCalls(faces, sealer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one web socket."""
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        try:
            await self._serve(scope, receive, send)
        except Fault as fault:
            await refuse(send, fault)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = cast("dict[str, Any]", scope)
        path: str = given["path"]
        method: str = given["method"]
        headers: Headers = given["headers"]
        first, _, rest = path.lstrip("/").partition("/")
        if first == "schema":
            await self.sessions(scope, receive, send)
        elif first == "api":
            check_origin(method, headers, given["scheme"])
            if rest.partition("/")[0] not in FORWARDED:
                await self.sessions(scope, receive, send)
                return
            session = self.sealer.session_of(header(headers, b"cookie"))
            if session is None:
                raise Unauthorized("The session is over; sign in again")
            await forward(self.faces, scope, receive, send, "/" + rest, session.token)
        elif (call := earlier_call(path, headers)) is not None:
            await self.earlier.serve(call, scope, receive, send)
        elif method not in ("GET", "HEAD"):
            raise MethodNotAllowed(
                "Pages of the dashboard are only read", headers={"Allow": "GET, HEAD"}
            )
        elif (target := moved(path)) is not None:
            location = quote(target, safe="/?=").encode()
            if given["query_string"]:  # what a catalog is filtered by, where to go next
                location += b"&" if b"?" in location else b"?"
                location += given["query_string"]
            await respond(send, 302, b"", "", [(b"location", location)])
        else:
            await self.files.send(path, headers, send)

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = cast("dict[str, Any]", scope)
        headers: Headers = given["headers"]
        session = self.sealer.session_of(header(headers, b"cookie"))
        wanted = wanted_at(given["path"])
        if wanted is None or session is None or not is_own_origin(headers, given["scheme"]):
            # Before it is accepted, this is a 403.
            await send(cast("Any", {"type": "websocket.close"}))
            return
        await serve_stream(self.faces, wanted, session, self.closing, scope, receive, send)
