"""Content negotiation, web origins, proxies, pages, and how serving ends."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from litestar import Request, get
from tests.waiting import eventually

from vetro.http import Cors, Face, PageRequest, assemble, base_url, make_face, paginate, serve
from vetro.http.client import HttpClient

AnyRequest = Request[Any, Any, Any]


@get("/where")
async def where(request: AnyRequest) -> dict[str, Any]:
    client = request.client
    return {"base": base_url(request), "client": client.host if client else None}


@get("/page")
async def page(request: AnyRequest) -> dict[str, Any]:
    wanted = paginate(request, default_limit=2, max_limit=3)
    rows = [str(n) for n in range(10) if wanted.marker is None or str(n) > wanted.marker]
    shown, marker = wanted.cut(rows[: wanted.fetch], lambda row: row)
    return {"rows": shown, "next": marker}


def open_face(handlers: list[Any] | None = None) -> Face:
    """A face that needs no token."""
    return make_face(
        name="conduct",
        prefix="/c",
        handlers=handlers or [where, page],
        title="Conduct",
        public=lambda method, path: True,
    )


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 200),
        ("*/*", 200),
        ("application/*", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/json;q=0.5, text/plain", 200),
        ("application/xml", 406),
        ("text/html", 406),
        ("application/json;q=0", 406),
    ],
)
async def test_a_client_that_takes_no_json_is_told_so(accept: str, status: int) -> None:
    """406 only when the Accept header excludes every possible answer."""
    async with HttpClient(app=assemble([open_face()]), base_url="http://test") as client:
        headers = {"Accept": accept} if accept else {}
        answer = await client.request("GET", "/c/where", headers=headers)
    assert answer.status == status
    if status == 406 and "html" not in accept:
        assert answer.json()["error"]["type"] == "NotAcceptable"


async def test_answers_of_a_process_that_stops_close_their_connections() -> None:
    """A client that keeps its connection goes to another process before this one closes it."""
    assembly = assemble([open_face()])
    async with HttpClient(app=assembly, base_url="http://test") as client:
        for stopping in (False, True):
            assembly.stopping = stopping
            for path, status in (("/c/where", 200), ("/c/none", 404), ("/healthz", 200)):
                answer = await client.request("GET", path)
                assert answer.status == status
                assert (answer.headers.get("connection") == "close") is stopping


#: catalog-api.md §11: what pages of other origins may send and read.
OF_THE_API = {
    *("X-Auth-Token", "X-Openstack-Request-Id", "X-Configuration-Session"),
    *("X-Roles", "X-User-Id", "X-Tenant-Id"),
}


async def test_web_origins_are_let_in_only_when_allowed() -> None:
    """A preflight needs no token; a foreign origin gets no permission; an allowed one may read."""
    assembly = assemble([open_face()], cors=Cors(["https://good.example"]))
    async with HttpClient(app=assembly, base_url="http://test") as client:
        ask = {"Access-Control-Request-Method": "PUT", "Origin": "https://good.example"}
        preflight = await client.request("OPTIONS", "/c/where", headers=ask)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == "https://good.example"
        methods = preflight.headers["access-control-allow-methods"].split(", ")
        assert sorted(methods) == ["DELETE", "GET", "PATCH", "POST", "PUT"]
        allowed = set(preflight.headers["access-control-allow-headers"].split(", "))
        assert allowed >= {*OF_THE_API, "If-Match", "If-None-Match", "Content-Type"}
        good = await client.request("GET", "/c/where", headers={"Origin": "https://good.example"})
        assert good.headers["access-control-allow-origin"] == "https://good.example"
        exposed = good.headers["access-control-expose-headers"]
        assert set(exposed.split(", ")) >= {*OF_THE_API, "ETag"}
        foreign = {"Origin": "https://bad.example"}
        strange = await client.request("GET", "/c/where", headers=foreign)
        assert "access-control-allow-origin" not in strange.headers
        refused = await client.request("GET", "/c/none", headers={"Origin": "https://good.example"})
        assert refused.status == 404
        assert refused.headers["access-control-allow-origin"] == "https://good.example"
    async with HttpClient(app=assemble([open_face()]), base_url="http://test") as client:
        # Off until an origin is allowed.
        for method, headers in (("OPTIONS", ask), ("GET", {"Origin": "https://good.example"})):
            answer = await client.request(method, "/c/where", headers=headers)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_proxy_headers_are_believed_only_when_trusted() -> None:
    """Any client can send them: without the setting they change nothing."""
    headers = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil, catalog.example",
        "X-Forwarded-For": "6.6.6.6, 192.0.2.7",
        "X-Forwarded-Prefix": "/vetro/",
    }
    async with HttpClient(app=assemble([open_face()]), base_url="http://test") as client:
        plain = (await client.request("GET", "/c/where", headers=headers)).json()
        assert plain["base"] == "http://test"
    trusting = assemble([open_face()], trust_proxy=True)
    async with HttpClient(app=trusting, base_url="http://test") as client:
        seen = (await client.request("GET", "/c/where", headers=headers)).json()
        assert seen == {"base": "https://catalog.example/vetro", "client": "192.0.2.7"}
        standard = {"Forwarded": 'for="[2001:db8::1]:4711";proto=https;host=c.example'}
        seen = (await client.request("GET", "/c/where", headers=standard)).json()
        assert seen == {"base": "https://c.example", "client": "2001:db8::1"}


async def test_pages_follow_their_markers_to_the_end() -> None:
    """Every row comes once; the last page has no marker."""
    rows: list[str] = []
    async with HttpClient(app=assemble([open_face()]), base_url="http://test") as client:
        marker = ""
        while marker is not None:
            path = f"/c/page?limit=3&marker={marker}"
            answer = (await client.request("GET", path)).json()
            assert len(answer["rows"]) <= 3
            rows += answer["rows"]
            marker = answer["next"]
    assert rows == [str(n) for n in range(10)]


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", "1_0", "+5", "", "٣"])
async def test_a_limit_that_is_no_number_is_refused(limit: str) -> None:
    """The answer is 400 and says what a limit is."""
    async with HttpClient(app=assemble([open_face()]), base_url="http://test") as client:
        answer = await client.request("GET", f"/c/page?limit={limit.replace('+', '%2B')}")
    assert answer.status == 400
    assert "whole number" in answer.json()["error"]["message"]


def test_a_limit_above_the_most_is_lowered() -> None:
    """One row more than shown is fetched to detect a next page."""
    assert PageRequest(3, None).fetch == 4
    assert PageRequest(None, None).cut([1, 2], str) == ([1, 2], None)


@asynccontextmanager
async def served(
    face: Face, **options: Any
) -> AsyncGenerator[tuple[str, asyncio.Event, asyncio.Task[None]], None]:
    """A face on a socket: address, the event that stops it, its task."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        serve(assemble([face]), [listener], stop, on_ready=ready.set, **options)
    )
    await ready.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", stop, task
    finally:
        stop.set()
        await task


async def test_requests_in_flight_finish_and_new_connections_are_refused() -> None:
    """After the stop signal requests in flight are answered, new connections are refused."""
    began, release = asyncio.Event(), asyncio.Event()

    @get("/slow")
    async def slow() -> dict[str, bool]:
        began.set()
        await release.wait()
        return {"whole": True}

    async with served(open_face([slow])) as (url, stop, task), HttpClient() as client:
        answer = asyncio.create_task(client.request("GET", f"{url}/c/slow"))
        await began.wait()
        stop.set()

        port = int(url.rsplit(":", 1)[1])

        async def refused() -> bool:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except (ConnectionRefusedError, ConnectionResetError):
                return True  # reset: it came while the socket was being closed
            writer.close()
            return False

        await eventually(refused)
        assert not task.done()
        release.set()
        assert (await answer).json() == {"whole": True}
        await asyncio.wait_for(task, 240)


async def test_a_request_that_never_ends_does_not_hold_the_process() -> None:
    """After the time for finishing, remaining requests are cancelled and the server ends."""
    began, cancelled = asyncio.Event(), asyncio.Event()

    @get("/stuck")
    async def stuck() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with (
        served(open_face([stuck]), drain_seconds=1) as (url, stop, task),
        HttpClient() as client,
    ):
        asking = asyncio.create_task(client.request("GET", f"{url}/c/stuck"))
        await began.wait()
        stop.set()
        await asyncio.wait_for(task, 240)
        assert cancelled.is_set()
        await asyncio.gather(asking, return_exceptions=True)


async def test_what_is_not_http_gets_an_explained_refusal() -> None:
    """Invalid bytes get a 400 with a fault body and a request id, and the connection closes."""
    async with served(open_face()) as (url, _, _):
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        await writer.drain()
        text = (await reader.read()).decode()
        writer.close()
    assert text.startswith("HTTP/1.1 400")
    assert "x-openstack-request-id: req-" in text
    assert '"MalformedBody"' in text
