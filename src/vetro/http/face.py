"""Faces: one Litestar application each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from litestar import Litestar, Response
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.routes import HTTPRoute
from litestar.types import ControllerRouterHandler

from vetro.http.accept import check_accept
from vetro.http.any_request import AnyRequest
from vetro.http.audit import Audit
from vetro.http.conventions import CATALOG_CONVENTIONS, Conventions
from vetro.http.dispatch import endpoints_of
from vetro.http.document import BEARER, FAULT, TOKEN, Document, Named, Security, finish
from vetro.http.envelope import Envelope
from vetro.http.faults import CATALOG_FAULTS, FaultStyle
from vetro.http.handler import EndpointApplication, EndpointHandler
from vetro.http.principal import Authenticator
from vetro.http.project_limits import ProjectLimits
from vetro.http.remembered import Remembered
from vetro.http.request_counts import RequestCounts

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Face:
    """An HTTP face: everything below ``prefix``. ``document()`` is its OpenAPI document.

    ``is_socket(path)``: whether a path below ``prefix`` is a web socket.
    """

    name: str
    prefix: str
    app: Envelope
    document: Callable[[], Document] = dict[str, Any]
    is_socket: Callable[[str], bool] = lambda path: False


class _Rendered(JsonRenderPlugin):
    """Renders the framework's document after completing it."""

    def __init__(self, finished: Callable[[Document], Document]) -> None:
        super().__init__(path="/openapi.json")
        self._finished = finished

    def render(self, request: AnyRequest, openapi_schema: Document) -> bytes:
        return self.render_json(request, self._finished(openapi_schema))


def make_face(
    *,
    name: str,
    prefix: str,
    handlers: Sequence[ControllerRouterHandler],
    title: str,
    authenticator: Authenticator | None = None,
    public: Callable[[str, str], bool] = lambda method, path: False,
    dependencies: Mapping[str, Provide] | None = None,
    faults: FaultStyle = CATALOG_FAULTS,
    lifespan: Sequence[Lifespan] = (),
    conventions: Conventions = CATALOG_CONVENTIONS,
    www_authenticate: str = "",
    version: str = "1",
    debug: bool = False,
    security: Security | None = None,
    compresses: bool = False,
    conditional: bool = False,
    counts: RequestCounts | None = None,
    audit: Audit | None = None,
    project_limits: ProjectLimits | None = None,
    remembered: Remembered | None = None,
) -> Face:
    """Make a face.

    ``public(method, path)``: whether a call needs no token (then the principal is absent unless a
    token was sent); a handler gets the caller by ``principal_of(request)``. ``www_authenticate``:
    the header of a 401; by default it names the identity service beside this face. Path parameters
    are written ``name: FromPath[str]`` (Litestar). The OpenAPI document is at
    ``<prefix>/schema/openapi.json`` and always public: endpoints say what they answer, ``security``
    how callers authenticate (by default with a token). ``compresses``: whether
    answers are compressed; not for a face that answers with secrets (`vetro.http.compression`).
    ``conditional``: whether its answers have entity tags, for the document.
    ``counts``: counts its requests. ``audit``: writes its events. ``project_limits``: the share of each
    project.
    ``remembered``: keeps the answers of endpoints that say so.
    """

    def open_to_all(method: str, path: str) -> bool:
        return path.startswith("/schema") or public(method, path)

    calls = endpoints_of(handlers)
    said = security or Security({"token": TOKEN, "bearer": BEARER}, public)
    finished = functools.cache(
        lambda: finish(
            app.openapi_schema.to_schema(),
            calls,
            said,
            fault=Named("Fault", faults.schema) if faults.schema else FAULT,
            html=faults.html,
            text=faults.text,
            conditional=conditional,
            project_limits=project_limits is not None,
        )
    )
    ours = [one for one in handlers if isinstance(one, EndpointHandler)]
    app = EndpointApplication(
        route_handlers=[one for one in handlers if not isinstance(one, EndpointHandler)],
        dependencies=dict(dependencies or {}),
        # Faults leave Litestar as exceptions: the envelope writes their bodies for every path.
        exception_handlers={Exception: _reraise},
        before_request=_before,
        openapi_config=OpenAPIConfig(
            title=title,
            version=version,
            path="/schema",
            render_plugins=[_Rendered(lambda _given: finished())],
            use_handler_docstrings=True,
        ),
        lifespan=[*lifespan],
        logging_config=None,
        request_max_body_size=None,
    )
    app.register_endpoints(ours)
    envelope = Envelope(
        app,
        name=name,
        faults=faults,
        authenticator=authenticator,
        public=open_to_all,
        conventions=conventions,
        www_authenticate=www_authenticate,
        debug=debug,
        compresses=compresses,
        counts=counts,
        audit=audit,
        project_limits=project_limits,
        remembered=remembered,
    )
    envelope.document = finished
    envelope.calls = calls
    return Face(name, prefix.rstrip("/"), envelope, finished)


async def _before(request: AnyRequest) -> Response[None] | None:
    """Before each call: answer ``OPTIONS``, and check the ``Accept`` header of other calls."""
    if request.method == "OPTIONS":
        # Litestar's own answer names the methods of only one of a path's handlers.
        template = request.scope["path_template"]
        methods = {"HEAD"}
        for route in request.app.routes:
            if isinstance(route, HTTPRoute) and route.path_format == template:
                methods |= route.methods
        allow = methods if "GET" in methods else methods - {"HEAD"}
        return Response(None, status_code=204, headers={"Allow": ", ".join(sorted(allow))})
    check_accept(request)
    return None


def _reraise(_request: AnyRequest, error: Exception) -> Any:
    raise error
