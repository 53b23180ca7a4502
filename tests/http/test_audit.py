"""Audit events of calls: who, what, which one, how it ended; nothing of what bodies hold."""

import json
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

import pytest
from litestar import delete, get, post
from litestar.params import FromPath

from vetro.http import Audit, BadRequest, NotFound, Principal, assemble, make_face
from vetro.http.client import HttpClient
from vetro.http.endpoint import Call, Endpoint, routes, serving

Events = list[tuple[str, Mapping[str, Any]]]


class Tokens:
    """Knows one token."""

    async def authenticate(self, token: str) -> Principal | None:
        return Principal("u1", "ann", "p1") if token == "good" else None


@get("/v1/things")
async def listing() -> list[str]:
    return []


@post("/v1/things/{thing_id:str}/deploy", status_code=200)
async def deploy(thing_id: FromPath[str]) -> str:
    return thing_id


@delete("/v1/things/{thing_id:str}", status_code=200)
async def remove(thing_id: FromPath[str]) -> None:
    raise NotFound(f"no {thing_id}")


async def add(call: Call[None]) -> dict[str, str]:
    """Make a thing."""
    if call.flag("fail"):
        raise BadRequest("no")
    return {"id": "t7", "name": "new"}


ADDING = [
    Endpoint("add_thing", "POST", "/v1/things", add),
    Endpoint("add_part", "POST", "/v1/things/{thing_id}/parts", add),
]


@pytest.fixture
def events() -> Events:
    """The events that were written."""
    return []


@pytest.fixture
async def client(events: Events) -> AsyncGenerator[HttpClient, None]:
    """A face that is audited."""

    def sink(kind: str, event: Mapping[str, Any]) -> None:
        events.append((kind, event))

    face = make_face(
        name="a",
        prefix="",
        handlers=[listing, deploy, remove, *routes(ADDING, serving(partial(Call, None)))],
        title="A",
        authenticator=Tokens(),
        audit=Audit("catalog", (sink,)),
    )
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as opened:
        yield opened


async def test_a_change_is_an_event(client: HttpClient, events: Events) -> None:
    """It names caller, action, target and request; the body and the token are not in it."""
    headers = {"X-Auth-Token": "good", "User-Agent": "x" * 500}
    body = {"password": "hunter2"}
    path = "/v1/things/t1/deploy"
    answer = await client.request("POST", path, json=body, headers=headers)
    assert answer.status == 200
    ((kind, event),) = events
    assert kind == "audit.http.request"
    assert event["typeURI"] == "http://schemas.dmtf.org/cloud/audit/1.0/event"
    assert (event["action"], event["outcome"]) == ("deploy", "success")
    assert event["target"] == {"typeURI": "service/catalog/things/deploy", "id": "t1"}
    assert event["initiator"]["id"] == "u1"
    assert event["initiator"]["project_id"] == "p1"
    assert len(event["initiator"]["host"]["agent"]) == 256
    request = answer.headers["x-openstack-request-id"]
    assert event["tags"] == [f"correlation_id?value={request}"]
    assert "hunter2" not in json.dumps(event)
    assert "good" not in json.dumps(event)


@pytest.mark.parametrize(("token", "status"), [("good", 404), ("bad", 401)])
async def test_a_refused_change_is_an_event_too(
    client: HttpClient, events: Events, token: str, status: int
) -> None:
    """Its outcome is failure with the status as the reason, also for somebody unknown."""
    await client.request("DELETE", "/v1/things/t1", headers={"X-Auth-Token": token})
    event = events[0][1]
    assert (event["action"], event["outcome"]) == ("delete", "failure")
    assert event["reason"]["reasonCode"] == str(status)
    assert event["initiator"]["id"] == ("u1" if token == "good" else "unknown")


async def test_reading_is_no_event(client: HttpClient, events: Events) -> None:
    """Only what may change something is."""
    await client.request("GET", "/v1/things", headers={"X-Auth-Token": "good"})
    assert events == []


@pytest.mark.parametrize(
    ("path", "target"),
    [("/v1/things", "t7"), ("/v1/things/t1/parts", "t1"), ("/v1/things?fail=true", "unknown")],
)
async def test_what_is_created_is_named(
    client: HttpClient, events: Events, path: str, target: str
) -> None:
    """By the id that the answer gives it, where the address names nothing; a refused one has none."""
    await client.request("POST", path, headers={"X-Auth-Token": "good"})
    assert events[0][1]["target"]["id"] == target
