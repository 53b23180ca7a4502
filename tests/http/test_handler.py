"""The handlers of endpoints share what the framework works out of their signature."""

from typing import Any

import pytest
from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler

from vetro.http.any_request import AnyRequest
from vetro.http.endpoint import Endpoint, routes
from vetro.http.handler import EndpointApplication, EndpointHandler


async def _around(endpoint: Any, request: AnyRequest) -> Response[object]:
    raise NotImplementedError


def _handlers(path: str) -> tuple[HTTPRouteHandler, HTTPRouteHandler]:
    """An endpoint's handler, and one of its function whose signature the framework reads itself."""
    (ours,) = routes([Endpoint("show", "GET", path, lambda _call: None)], _around)
    return ours, HTTPRouteHandler(path, http_method="GET", status_code=200)(ours.fn)


@pytest.mark.parametrize("names", [(), ("id",), ("id", "name")])
def test_what_handlers_share_is_what_the_framework_would_read(names: tuple[str, ...]) -> None:
    """The shared signature, model and arguments are those of the handler's own function."""
    ours, plain = _handlers("/things" + "".join(f"/{{{name}}}" for name in names))
    assert isinstance(ours, EndpointHandler)
    assert ours.parsed_fn_signature.return_type == plain.parsed_fn_signature.return_type
    assert ours.parsed_fn_signature.parameters == plain.parsed_fn_signature.parameters
    assert ours.signature_model._fields == plain.signature_model._fields
    given: Any = dict.fromkeys(names)
    mine, its = ours.create_kwargs_model(given), plain.create_kwargs_model(given)
    assert {one: getattr(mine, one) for one in mine.__slots__ if one not in _MADE_ANEW} == {
        one: getattr(its, one) for one in its.__slots__ if one not in _MADE_ANEW
    }


#: Functions, which the framework makes anew for each handler.
_MADE_ANEW = {"extractors"}


def test_handlers_of_two_faces_share_them() -> None:
    """The signature is read once, however many endpoints there are."""
    one, other = _handlers("/a/{id}")[0], _handlers("/b/{id}")[0]
    assert one.signature_model is other.signature_model
    assert one.create_kwargs_model({"id": None}) is other.create_kwargs_model({"id": None})  # type: ignore[dict-item]


def test_what_is_added_to_a_handlers_parameters_reaches_no_other() -> None:
    """The framework adds path parameters to the handler that it describes."""
    one, other = _handlers("/a/{id}")[0], _handlers("/b")[0]
    one.parsed_fn_signature.parameters["id"] = one.parsed_fn_signature.return_type
    assert list(other.parsed_fn_signature.parameters) == ["request"]
    assert list(other.signature_model._fields) == ["request"]


def test_endpoints_registered_at_once_are_routed_as_the_framework_routes_them() -> None:
    """Each method of each path leads to its handler, and the document has the same operations."""
    endpoints = [
        Endpoint("list", "GET", "/things", lambda _call: None),
        Endpoint("show", "GET", "/things/{id}", lambda _call: None),
        Endpoint("create", "POST PUT", "/things", lambda _call: None),
        Endpoint("remove", "DELETE", "/things/{id}", lambda _call: None),
    ]
    ours = EndpointApplication(openapi_config=None)
    ours.register_endpoints(
        one for one in routes(endpoints, _around) if isinstance(one, EndpointHandler)
    )
    plain = Litestar(list(routes(endpoints, _around)), openapi_config=None)

    def routed(app: Litestar, method: Any, path: str) -> tuple[str | None, object, str]:
        _, handler, _, parameters, template = app.asgi_router.handle_routing(path, method)
        return handler.name, parameters, template

    for one in endpoints:
        for method in one.verbs.split():
            path = one.path.replace("{id}", "7")
            assert routed(ours, method, path) == routed(plain, method, path)
            assert routed(ours, method, path)[0] == f"{one.name} {one.verbs} {one.path}"
    assert [route.path for route in ours.routes] == [route.path for route in plain.routes]
    assert {r.path: {*r.methods} for r in ours.routes} == {
        "/things": {"GET", "POST", "PUT", "OPTIONS"},
        "/things/{id:str}": {"GET", "DELETE", "OPTIONS"},
    }
    with pytest.raises(Exception, match="already registered"):
        ours.register_endpoints(
            one for one in routes([endpoints[0]] * 2, _around) if isinstance(one, EndpointHandler)
        )
