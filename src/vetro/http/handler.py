"""The framework's application and handler of endpoints: what is the same for all of them is worked out once.

All handlers of endpoints take a request and give a response. A face has up to 180 of them, an installation
has seven faces: to read the same signature for each took half of the time in which a face is made. To
register them one after the other took half of the rest: the framework goes through all routes for each,
and makes a path's route again, with a handler for ``OPTIONS``, for each method (decision 0773).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute
from litestar.types.internal_types import PathParameterDefinition
from litestar.utils.signature import ParsedSignature

from vetro.http.any_request import AnyRequest

if TYPE_CHECKING:
    from litestar._kwargs.kwargs_model import KwargsModel
    from litestar._signature.model import SignatureModel


async def _like_all(request: AnyRequest) -> Response[Any]:
    """What every handler of an endpoint looks like."""
    raise NotImplementedError


_PLAIN = HTTPRouteHandler("/", http_method="GET", status_code=200)(_like_all)


@functools.cache
def _signature() -> ParsedSignature:
    return _PLAIN.parsed_fn_signature


@functools.cache
def _signature_model() -> type[SignatureModel]:
    return _PLAIN.signature_model


@functools.lru_cache(maxsize=256)
def _arguments(path_parameters: frozenset[str]) -> KwargsModel:
    named = {name: PathParameterDefinition(name, name, str, None) for name in path_parameters}
    return _PLAIN.create_kwargs_model(path_parameters=named)


class EndpointHandler(HTTPRouteHandler):
    """A handler whose function takes ``request`` and gives a response; it uses no dependency."""

    @property
    def parsed_fn_signature(self) -> ParsedSignature:
        """The signature that all of them have.

        Who describes a handler adds path parameters to its parameters: they are this reader's own.
        """
        shared = _signature()
        return ParsedSignature(
            dict(shared.parameters), shared.return_type, shared.original_signature
        )

    @property
    def signature_model(self) -> type[SignatureModel]:
        """The model of its arguments."""
        return _signature_model()

    def create_kwargs_model(
        self, path_parameters: dict[str, PathParameterDefinition]
    ) -> KwargsModel:
        """What a route with these path parameters passes."""
        return _arguments(frozenset(path_parameters))


class EndpointApplication(Litestar):
    """An application that registers the handlers of endpoints all at once."""

    def register_endpoints(self, handlers: Iterable[EndpointHandler]) -> None:
        """Register handlers that no application has yet, in the order of their paths' first ones.

        All handlers of a path are among them: the document has one route of each path.
        """
        options = EndpointHandler(
            "/", http_method="OPTIONS", status_code=200, include_in_schema=False
        )(_like_all)
        paths: dict[str, list[HTTPRouteHandler]] = {}
        for handler in (options, *handlers):
            handler.owner = self
            handler.on_registration(self)
            if handler is not options:
                for path in handler.paths:
                    paths.setdefault(path, []).append(handler)
        for path, found in paths.items():
            # `before_request` of a face answers OPTIONS. With such a handler the route makes none of its own.
            route = HTTPRoute(path=path, route_handlers=[*found, options])
            route.create_handler_map()
            self.routes.append(route)
            for plugin in self.plugins.receive_route:
                plugin.receive_route(route)
        self.asgi_router.construct_routing_trie()
