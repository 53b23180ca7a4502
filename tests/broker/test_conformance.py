"""The checks of the Open Service Broker API (version 2.17), made against running processes.

https://github.com/openservicebrokerapi/servicebroker: the sections are named where they say it.
"""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import urlencode

import pytest

from .conftest import Platform, Site

pytestmark = pytest.mark.e2e
ASYNC = "?accepts_incomplete=true"


def which(body: dict[str, Any]) -> str:
    """The query that names a service and a plan."""
    names = ("service_id", "plan_id")
    return "?" + urlencode({**{one: body[one] for one in names}, "accepts_incomplete": "true"})


CALLS = [
    ("GET", "/v2/catalog"),
    ("PUT", "/v2/service_instances/i"),
    ("PATCH", "/v2/service_instances/i"),
    ("DELETE", "/v2/service_instances/i"),
    ("GET", "/v2/service_instances/i/last_operation"),
    ("PUT", "/v2/service_instances/i/service_bindings/b"),
    ("DELETE", "/v2/service_instances/i/service_bindings/b"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_each_call_needs_a_version_and_a_login(platform: Platform, method: str, path: str) -> None:
    """401 without or with a wrong login, 412 without or with another major version (API Version Header)."""
    said: dict[str, Any] = {"parameters": {}} if method in ("PUT", "PATCH") else {}
    body = said or None
    assert platform.send(method, path, body, Authorization=None)[0] == 401
    assert platform.answer_headers["www-authenticate"].startswith("Basic ")
    for wrong in ("Basic !!!", "Basic YWRtaW4=", "Bearer x", "Basic bm9ib2R5OndyOm9uZw=="):
        status, answer = platform.send(method, path, body, Authorization=wrong)
        assert (status, list(answer)) in ((401, ["description"]), (429, ["description"]))
    for version in (None, "", "1.9", "3.0", "2", "2.x", "x2.17"):
        assert platform.send(method, path, body, X_Broker_API_Version=version)[0] == 412
    assert platform.send(method, path, body, X_Broker_API_Version="2.0")[0] != 412


def test_the_catalog_describes_services_and_plans(platform: Platform) -> None:
    """Ids and names are there and unique; every plan is described (Catalog Management)."""
    status, body = platform.send("GET", "/v2/catalog", X_Broker_API_Request_Identity="one-two")
    assert status == 200
    assert platform.answer_headers["x-broker-api-request-identity"] == "one-two"
    services = {one["name"]: one for one in body["services"]}
    assert {"Database", "Mute"} <= set(services)
    assert len(services) == len({one["id"] for one in body["services"]}) == len(body["services"])
    found = services["Database"]
    assert found["bindable"] is True
    assert found["tags"] == ["database"]
    assert found["description"] == "x" * 253 + " ..."
    [plan] = found["plans"]
    assert plan["id"] == found["id"] + "-1"
    assert plan["name"] == "default"
    assert plan["description"]


def test_requests_for_instances_are_checked(either: Platform, instance: str) -> None:
    """400 for what is missing or of the wrong kind, 422 for platforms that do not poll (Provisioning)."""
    platform = either
    good = platform.wanted()
    for name in ("service_id", "plan_id", "organization_guid", "space_guid"):
        for value in (None, "", 7, "x" * 256, "a\u0001"):
            assert platform.send("PUT", instance + ASYNC, {**good, name: value})[0] == 400
    for name in ("service_id", "plan_id"):
        status, body = platform.send("PUT", instance + ASYNC, {**good, name: "../no such"})
        assert (status, list(body)) == (400, ["description"])
    several: list[object] = [[1], "text", 1]
    for parameters in several:
        wrong = {**good, "parameters": parameters}
        assert platform.send("PUT", instance + ASYNC, wrong)[0] == 400
    for raw in (b"", b"{", b"[]", b"null", b'{"service_id": ' + b"[" * 5000):
        assert platform.send("PUT", instance + ASYNC, raw)[0] == 400
    for query in ("", "?accepts_incomplete=false"):
        status, body = platform.send("PUT", instance + query, good)
        assert (status, body["error"]) == (422, "AsyncRequired")
    maintained = {**good, "maintenance_info": {"version": "1"}}
    status, body = platform.send("PUT", instance + ASYNC, maintained)
    assert (status, body["error"]) == (422, "MaintenanceInfoConflict")
    # Nothing of it was kept.
    assert platform.send("GET", f"{instance}/last_operation") == (410, {})


def test_an_instance_lives(either: Platform, instance: str) -> None:
    """Provision, repeat, poll, bind, unbind, deprovision, with the statuses of each repetition."""
    platform = either
    parameters: dict[str, Any] = {"password": "secret-of-ann", "?": {"id": "dropped"}}
    wanted = platform.wanted(**parameters)
    assert platform.send("PUT", instance + ASYNC, wanted) == (202, {})
    assert platform.settled(instance) == (200, {"state": "succeeded",
                                                "description": "operation succeed"})  # fmt: skip
    assert platform.send("PUT", instance + ASYNC, wanted) == (200, {})
    assert platform.send("PUT", instance + ASYNC, {**wanted, "space_guid": "other"})[0] == 409
    other = platform.wanted("Mute", wanted["space_guid"])
    assert platform.send("PUT", instance + ASYNC, other)[0] == 409
    assert platform.send("PATCH", instance + ASYNC, {"service_id": wanted["service_id"]})[0] == 422

    binding = f"{instance}/service_bindings/{uuid.uuid4()}"
    request = {name: wanted[name] for name in ("service_id", "plan_id")} | {"app_guid": "an-app"}
    for name in ("service_id", "plan_id"):
        for value in (None, "", "another"):
            assert platform.send("PUT", binding, {**request, name: value})[0] == 400
    credentials = {"uri": wanted["space_guid"], "password": "secret-of-ann"}
    assert platform.send("PUT", binding, request) == (201, {"credentials": credentials})
    assert platform.send("PUT", binding, request) == (200, {"credentials": credentials})
    assert platform.send("PUT", binding, {**request, "app_guid": "another"})[0] == 409
    for wrong in ("", f"?service_id={wanted['service_id']}", which({**wanted, "plan_id": "other"})):
        assert platform.send("DELETE", binding + wrong)[0] == 400
    assert platform.send("DELETE", binding + which(wanted)) == (200, {})
    # catalog-api.md §13: it has no effect, so there is nothing that could be gone.
    assert platform.send("DELETE", binding + which(wanted)) == (200, {})
    never = f"{instance}/service_bindings/{uuid.uuid4()}"
    assert platform.send("DELETE", never + which(wanted)) == (200, {})

    for wrong in ("", ASYNC, which({**wanted, "service_id": "another"})):
        assert platform.send("DELETE", instance + wrong)[0] == 400
    refused = which(wanted).replace("true", "false")
    assert platform.send("DELETE", instance + refused)[1]["error"] == "AsyncRequired"
    assert platform.send("DELETE", instance + which(wanted)) == (202, {})
    assert platform.settled(instance) == (410, {})
    assert platform.send("DELETE", instance + which(wanted)) == (410, {})
    for path in (binding, f"/v2/service_instances/{'x' * 300}/service_bindings/b"):
        assert platform.send("DELETE", path + which(wanted))[0] in (400, 410)
    assert platform.send("PUT", binding, request)[0] == 404
    assert platform.send("PATCH", instance, {"service_id": wanted["service_id"]}) == (410, {})


def test_what_names_no_credentials_becomes_them(platform: Platform, instance: str) -> None:
    """A result without ``credentials`` is what the platform gets under that name (§13)."""
    wanted = platform.wanted(bare=True)
    assert platform.send("PUT", instance + ASYNC, wanted) == (202, {})
    assert platform.settled(instance)[1]["state"] == "succeeded"
    request = {name: wanted[name] for name in ("service_id", "plan_id")}
    assert platform.send("PUT", f"{instance}/service_bindings/b", request) == (
        201,
        {"credentials": {"uri": wanted["space_guid"]}},
    )


def test_what_is_under_way_is_not_disturbed(site: Site, instance: str) -> None:
    """Meanwhile: in progress, 202 for a repetition, 422 ConcurrencyError for all else; then it failed."""
    platform = site.platform
    wanted = platform.wanted("Mute", seconds=600)
    assert platform.send("PUT", instance + ASYNC, wanted) == (202, {})
    assert platform.send("GET", f"{instance}/last_operation") == (
        200,
        {"state": "in progress", "description": "operation in progress"},
    )
    assert platform.send("PUT", instance + ASYNC, wanted) == (202, {})
    neighbour = f"/v2/service_instances/{uuid.uuid4()}"
    second = platform.wanted("Database", wanted["space_guid"])
    request = {name: wanted[name] for name in ("service_id", "plan_id")}
    for method, path, body in (
        ("PUT", neighbour + ASYNC, second),
        ("PUT", f"{instance}/service_bindings/b", request),
        ("DELETE", instance + which(wanted), None),
    ):
        status, answer = platform.send(method, path, body)
        assert (status, answer["error"]) == (422, "ConcurrencyError"), (method, path)
    assert platform.send("GET", f"{neighbour}/last_operation") == (410, {})

    [environment] = [
        one["id"] for one in site.vetro.json("env", "list") if one["status"] == "deploying"
    ]
    [deployment] = site.vetro.json("deployment", "list", environment)
    where = f"/v1/environments/{environment}/deployments/{deployment['id']}/cancel"
    assert site.vetro.http("POST", where, {})[0] == 202
    failed = {"state": "failed", "description": "deploy failure. Please correct it manually"}
    assert platform.settled(instance) == (200, failed)
    # An operator abandons the environment; the space gets a new one.
    assert site.vetro.http("DELETE", f"/v1/environments/{environment}?abandon=true")[0] == 200
    assert platform.send("DELETE", instance + which(wanted)) == (200, {})
    assert platform.send("PUT", neighbour + ASYNC, second) == (202, {})
    assert platform.settled(neighbour)[1]["state"] == "succeeded"

    # In the same space: an application that has no credentials.
    mute = platform.wanted("Mute", wanted["space_guid"])
    assert platform.send("PUT", instance + ASYNC, mute) == (202, {})
    assert platform.settled(instance)[1]["state"] == "succeeded"
    status, body = platform.send("PUT", f"{instance}/service_bindings/b", request)
    assert (status, "getCredentials" in body["description"]) == (500, True)


def test_the_document_lists_the_calls(platform: Platform) -> None:
    """The OpenAPI document has every call of the broker, and the login."""
    status, body = platform.send("GET", "/schema/openapi.json", Authorization=None)
    assert status == 200
    assert set(body["paths"]) == {
        path.replace("/i", "/{instance_id}").replace("/b", "/{binding_id}") for _, path in CALLS
    }
    assert body["components"]["securitySchemes"] == {"basic": {"type": "http", "scheme": "basic"}}
    assert "AsyncRequired" not in json.dumps(body["components"])
