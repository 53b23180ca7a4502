"""The way of a request to its endpoint, without what the framework does for other handlers.

For each request Litestar goes through its stack of middleware, parses the handler's arguments by a model,
enters stacks of contexts and builds an answer in three steps. An endpoint (`vetro.http.endpoint`) takes the
request and gives a response, so none of this is needed for it. Routes are Litestar's, and so is everything
that is no plain endpoint: streams, errors of routing, ``OPTIONS``, handlers of other kinds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import unquote

from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import Receive, Scope, Send
from litestar.utils import normalize_path

from vetro.http.accept import check_accept
from vetro.http.declaration import Endpoint
from vetro.http.faults import NoSuchPath
from vetro.http.headers import Headers

MARKED_KEY = "vetro_marked_path"
SLASH = "\0"
"""In a marked path: a slash that is no separator. (No request has a NUL in its path: that is a 400.)"""
_TREE = ":path}"
OPTION = "vetro_endpoint"
"""The `Endpoint` of a handler that takes the request, and only that, and gives a response."""
_HOST = re.compile(rb"[0-9A-Za-z!$&'()*+,;=\-._~:\[\]@%]*")
#: Answers with these statuses have no content.
_EMPTY = frozenset({204, 304})


class PlainResponse(Response[bytes]):
    """An answer of bytes. The framework's own looks at what it may be made of for 10 µs."""

    def __init__(
        self, content: bytes, status: int, headers: Mapping[str, str], media_type: str
    ) -> None:
        self.content, self.status_code, self.media_type = content, status, media_type
        self.headers, self.encoding = dict(headers), "utf-8"
        self.cookies, self.background, self.response_type_encoders = [], None, {}


class Dispatch:
    """Hands the requests of a face to its handlers."""

    def __init__(self, app: Litestar) -> None:
        self._app = app
        #: Below these paths is a tree: empty segments are dropped there, at the end too (catalog-api.md §1).
        self._trees = frozenset(
            _segments(one.path)[:-1]
            for route in app.routes
            if isinstance(route, HTTPRoute)
            for handler in route.route_handlers
            if isinstance(one := handler.opt.get(OPTION), Endpoint) and one.path.endswith(_TREE)
        )

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request. Errors: the handler's, and those of routing."""
        found = self._endpoint(scope)
        if found is None:
            await self._app(cast("Scope", scope), receive, send)
            return
        handler, path, parameters, template = found
        scope["app"] = scope["litestar_app"] = self._app
        scope.setdefault("state", {})
        scope["path"], scope["path_params"] = path, parameters
        scope["route_handler"], scope["path_template"] = handler, template
        given: Any = scope
        request: Request[Any, Any, Any] = Request(given, receive, send)
        check_accept(request)
        response: Response[Any] = await handler.fn(request)
        if not _is_plain(response):
            answer = await handler.to_response(app=self._app, data=response, request=request)
            await answer(given, receive, send)
            return
        start: Any = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": _headers(response),
        }
        await send(start)
        body: Any = {"type": "http.response.body", "body": response.content, "more_body": False}
        await send(body)

    def _endpoint(self, scope: dict[str, Any]) -> tuple[Any, str, dict[str, Any], str] | None:
        """The handler of an endpoint, with the path, its parameters and its template."""
        try:
            _, handler, path, parameters, template = self._app.asgi_router.handle_routing(
                path=normalize_path(scope["path"]), method=scope["method"]
            )
        except HTTPException:
            return None  # the framework says it itself
        endpoint: Endpoint[Any] | None = handler.opt.get(OPTION)
        if endpoint is None:
            return None
        self._refuse_empty(endpoint, scope)
        if scope.get("root_path") or not _HOST.fullmatch(_host(scope["headers"])):
            return None
        return handler, path, parameters, template

    def _refuse_empty(self, endpoint: Endpoint[Any], scope: dict[str, Any]) -> None:
        """Refuse a path in which nothing, or a slash that is written ``%2F``, is in a segment's place.

        The router drops empty segments: without an id, the call would be about another thing. Errors: 404.
        """
        path: str = scope["path"]
        marked: str = scope.get(MARKED_KEY, path)
        if "//" not in path and marked is path:
            return
        wanted = _segments(endpoint.path)
        given = marked.split("/")[1:]
        if endpoint.path.endswith(_TREE):
            given = given[: len(wanted) - 1]
        elif wanted in self._trees:
            given = given[: len(wanted)]
        if not all(given) or any(SLASH in one for one in given):
            raise NoSuchPath(
                f"{path} does not exist: a segment of it is empty, or has a slash in it"
            )


def mark_slashes(scope: Mapping[str, Any], path: str) -> str:
    """A request's path with `SLASH` for each slash that its client has written as ``%2F``."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return path
    marked = unquote(re.sub(b"%2f", SLASH.encode(), raw, flags=re.IGNORECASE).decode("latin-1"))
    # Before the face's prefix there may be more than the face sees.
    own = marked[-len(scope["path"]) :]
    return own[: len(path)] if own.replace(SLASH, "/") == scope["path"] else path


def _segments(path: str) -> tuple[str, ...]:
    return tuple(one for one in path.split("/") if one)


def endpoints_of(handlers: Iterable[object]) -> dict[str, Endpoint[Any]]:
    """The endpoints of a face's handlers by ``METHOD /path``, as its document writes them."""
    routes = (one for one in handlers if isinstance(one, HTTPRouteHandler) and OPTION in one.opt)
    return {
        f"{verb} {endpoint.path.replace(':path}', '}')}": endpoint
        for endpoint in (cast("Endpoint[Any]", one.opt[OPTION]) for one in routes)
        for verb in endpoint.verbs.split()
    }


def _host(headers: Headers) -> bytes:
    for name, value in headers:
        if name == b"host":
            return value
    return b""


def _is_plain(response: Response[object]) -> bool:
    """Whether an answer is bytes and headers, and nothing else."""
    return (
        type(response) in (PlainResponse, Response)
        and type(response.content) is bytes
        and response.status_code is not None
        and response.status_code not in _EMPTY
        and not response.cookies
        and response.background is None
    )


def _headers(response: Response[bytes]) -> Headers:
    """The headers of a plain answer."""
    pairs = {
        name.lower().encode("latin-1"): str(value).encode("latin-1")
        for name, value in response.headers.items()
    }
    pairs.setdefault(b"content-type", _kind(str(response.media_type or ""), response.encoding))
    pairs.setdefault(b"content-length", str(len(response.content)).encode())
    return list(pairs.items())


@functools.lru_cache(256)
def _kind(media_type: str, encoding: str) -> bytes:
    kind = media_type or "application/json"
    if kind.startswith("text/"):
        kind = f"{kind}; charset={encoding}"
    return kind.encode("latin-1")
