"""Calls of the earlier dashboard's pages, as programs and bookmarks still make them."""

import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, Response, get, post

from vetro.http import assemble, dashboard_face, make_face
from vetro.http.client import HttpClient
from vetro.http.dashboard.sessions import COOKIE, Sealer, Session
from vetro.http.dashboard.topology import EXTERNAL, topology_of
from vetro.json_texts import decode_json

WEB, MACHINE, DB = "a" * 32, "b" * 32, "c" * 32
HOSTILE = "<img src=x onerror=alert(1)>"
ENVIRONMENT: dict[str, Any] = {
    "id": "e",
    "name": "shop",
    "status": "pending",
    "services": [
        {
            "?": {"id": WEB, "type": "org.acme.Web/1.0.0@org.acme"},
            "name": HOSTILE,
            "hosts": ["a", "b"],
            "adminPassword": "hidden",
            "database": DB,
            "instance": {
                "?": {"id": MACHINE, "type": "io.murano.resources.LinuxMuranoInstance"},
                "assignFloatingIp": True,
                "ipAddresses": ["10.0.0.5"],
            },
        },
        {"?": {"id": DB, "type": "org.acme.Db"}, "name": "data"},
    ],
}
FILE = {
    "?": {"type": "io.murano.File/1.0.0@io.murano"},
    "filename": "../../backup.tgz",
    "mimeType": "application/gzip",
    "base64Content": base64.b64encode(b"bytes").decode(),
}
RESULTS: dict[str, Any] = {
    "none": None,
    "null": {"isException": False, "result": None},
    "text": {"isException": False, "result": HOSTILE},
    "failed": {"isException": True, "result": {"message": "no"}},
    "file": {"isException": False, "result": FILE},
}


@get("/v1/environments/{name:str}")
async def environment(request: Request[Any, Any, Any]) -> Response[Any]:
    name = request.path_params["name"]
    if name == "gone":
        return Response({"message": "There is no environment gone"}, status_code=404)
    changed = request.headers.get("x-configuration-session") == "mine"
    return Response(ENVIRONMENT if changed else {**ENVIRONMENT, "services": []})


@get("/v1/environments/{name:str}/sessions")
async def sessions(request: Request[Any, Any, Any]) -> dict[str, Any]:
    if request.path_params["name"] == "empty":
        return {"sessions": []}
    made = {"own": True, "overtaken": False, "state": "opened", "created": "2026-01-01"}
    return {"sessions": [{"id": "mine", **made}, {"id": "theirs", **made, "own": False}]}


@post("/v1/environments/{name:str}/actions/{action:str}", status_code=200)
async def start(request: Request[Any, Any, Any]) -> Response[Any]:
    action = request.path_params["action"]
    if action == "not-mine":
        return Response({"message": "no"}, status_code=403)
    return Response({"task_id": f"{action}-{len(await request.body())}"})


@get("/v1/environments/{name:str}/actions/{task:str}")
async def result(request: Request[Any, Any, Any]) -> Any:
    return RESULTS[request.path_params["task"]]


@pytest.fixture
async def http(tmp_path: Path) -> AsyncGenerator[HttpClient, None]:
    """A browser with a session."""
    handlers = [environment, sessions, start, result]
    face = make_face(name="catalog", prefix="", handlers=handlers, title="T")
    assembly = assemble([face, dashboard_face([face], tmp_path, "key")])
    cookie = Sealer("key").seal(Session("token", 4e9))
    headers = {"Cookie": f"{COOKIE}={cookie}", "Accept": "application/json"}
    async with (
        assembly.running(),
        HttpClient(app=assembly, base_url="http://vetro/dashboard", headers=headers) as client,
    ):
        yield client


CSRF = {"X-Vetro-Dashboard": "1"}


@pytest.mark.parametrize("slug", ["", "/app-catalog"])
async def test_an_action_is_started_and_its_result_has_an_address(
    http: HttpClient, slug: str
) -> None:
    """The answer has the address of the result; without arguments the action gets none."""
    answer = await http.request("POST", f"{slug}/environments/e/start_action/act/", headers=CSRF)
    assert answer.json() == {"url": "/dashboard/environments/e/actions/act-2/"}


async def test_an_action_that_is_not_allowed_has_no_result(http: HttpClient) -> None:
    answer = await http.request("POST", "/environments/e/start_action/not-mine", headers=CSRF)
    assert (answer.status, answer.json()) == (200, {})


async def test_an_action_is_started_by_our_own_pages_only(http: HttpClient) -> None:
    """Without the header that no other page can send it is 403; read, it is 405."""
    path = "/environments/e/start_action/act"
    assert (await http.request("POST", path)).status == 403
    assert (await http.request("GET", path)).headers["allow"] == "POST"
    headers = {**CSRF, "Cookie": "none=1"}
    assert (await http.request("POST", path, headers=headers)).status == 401


@pytest.mark.parametrize(
    ("task", "polled", "name", "content"),
    [
        ("null", {"isException": False, "result": None}, "result.json", b"null"),
        (
            "text",
            {"isException": False, "result": {"name": "result.json", "type": "application/json"}},
            "result.json",
            f'"{HOSTILE}"'.encode(),
        ),
        (
            "failed",
            {"isException": True, "result": {"name": "exception.json", "type": "application/json"}},
            "exception.json",
            b'{\n  "message": "no"\n}',
        ),
        (
            "file",
            {"isException": False, "result": {"name": "backup.tgz", "type": "application/gzip"}},
            "backup.tgz",
            b"bytes",
        ),
    ],
)
async def test_a_result_is_polled_without_its_content_and_downloaded_with_it(
    http: HttpClient, task: str, polled: dict[str, Any], name: str, content: bytes
) -> None:
    assert (await http.request("GET", f"/environments/e/actions/{task}/poll/")).json() == polled
    answer = await http.request("GET", f"/environments/e/actions/{task}/")
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{name}"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.content == content


async def test_a_result_that_is_not_there_yet_is_empty(http: HttpClient) -> None:
    for path in ("/environments/e/actions/none/", "/environments/e/actions/none/poll/"):
        assert (await http.request("GET", path)).json() == {}


async def test_the_topology_is_data_for_programs(http: HttpClient) -> None:
    """With one's own changes; without components it is null, and what the API refuses is refused."""
    shown = (await http.request("GET", "/environments/e/services/get_d3_data")).json()
    assert [one["name"] for one in shown["nodes"]] == [HOSTILE, "instance", EXTERNAL, "data"]
    assert (await http.request("GET", "/environments/empty/services/get_d3_data")).json() is None
    assert (await http.request("GET", "/environments/gone/services/get_d3_data")).status == 404


def test_each_node_says_who_needs_it_and_how() -> None:
    shown = topology_of(ENVIRONMENT)
    assert shown is not None
    assert [(one["id"], one["link_type"], one["required_by"]) for one in shown["nodes"]] == [
        (WEB, "relation", ["e"]),
        (MACHINE, "aggregation", [WEB]),
        (EXTERNAL, "relation", [WEB]),
        (DB, "relation", ["e", WEB]),
    ]
    assert shown["environment"]["name"] == "shop"
    web, machine = shown["nodes"][:2]
    assert (web["status"], machine["status"]) == ("Waiting for deployment", "Deployed")


def test_the_box_of_a_node_shows_no_secret_and_no_markup_of_tenants() -> None:
    shown = topology_of(ENVIRONMENT)
    assert shown is not None
    box = shown["nodes"][0]["info_box"]
    assert "<tr><th>hosts</th><td>a, b</td></tr>" in box
    assert "hidden" not in box
    assert "<img" not in box


def test_an_object_in_itself_ends_the_walk() -> None:
    """A model is JSON, so it is deep at most; units of flat services are units."""
    deep: dict[str, Any] = {"?": {"id": "0", "type": "a.B"}}
    for number in range(1, 200):
        deep = {"?": {"id": str(number), "type": "a.B"}, "of": deep}
    flat = {
        "id": "s",
        "type": "linuxApacheService",
        "name": "web",
        "units": [{"id": "u", "name": "1"}],
    }
    shown = topology_of({"id": "e", "name": "n", "status": "ready", "services": [deep, flat]})
    assert shown is not None
    assert len(shown["nodes"]) < 40
    assert shown["nodes"][-1]["link_type"] == "unit"


def test_bytes_of_json_are_read_back() -> None:
    """What is downloaded is the JSON of the result."""
    from vetro.http.dashboard.earlier import result_file

    assert decode_json(result_file({"result": {"a": [1]}}).content) == {"a": [1]}


@pytest.mark.parametrize("content", ["%%%", "ü"])
def test_a_file_whose_content_cannot_be_decoded_is_downloaded_as_it_is(content: str) -> None:
    """Nobody gets an empty file instead of what the action returned."""
    from vetro.http.dashboard.earlier import result_file

    given = {"?": {"type": "io.murano.File"}, "base64Content": content, "filename": "a.txt"}
    file = result_file({"result": given})
    assert (file.name, decode_json(file.content)) == ("result.json", given)
