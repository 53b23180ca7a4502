"""The framework's handler of an endpoint: what it works out of a handler's signature is worked out once.

All handlers of endpoints take a request and give a response. A face has up to 180 of them, an installation
has seven faces: to read the same signature for each took half of the time in which a face is made.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from litestar import Response
from litestar.handlers import HTTPRouteHandler
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
