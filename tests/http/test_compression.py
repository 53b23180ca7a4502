"""Answers compressed for who takes it, and never where that would tell a secret."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
from litestar import Request, get

from vetro.http import ANY_ACCEPT, ServerEvent, assemble, event_stream, known_content, make_face
from vetro.http.client import HttpClient

AnyRequest = Request[Any, Any, Any]
LONG = {"words": ["again and again"] * 20_000}
SMALL = {"words": ["once"]}


@get("/long")
async def long() -> Any:
    return LONG


@get("/small")
async def small() -> Any:
    return SMALL


@get("/tagged", opt=ANY_ACCEPT)
async def tagged(request: AnyRequest) -> Any:
    return known_content(request, b"text " * 1000, "text/plain")


@get("/bytes", opt=ANY_ACCEPT)
async def some_bytes(request: AnyRequest) -> Any:
    return known_content(request, bytes(5000))


@get("/events", opt=ANY_ACCEPT)
async def events(request: AnyRequest) -> Any:
    async def source() -> AsyncIterator[ServerEvent]:
        yield ServerEvent("said", {"text": "x" * 5000})

    return event_stream(request, source())


@pytest.fixture
async def client() -> AsyncGenerator[HttpClient, None]:
    """A face that compresses, and one that does not."""
    handlers = [long, small, tagged, some_bytes, events]
    faces = [
        make_face(name="open", prefix="", handlers=handlers, title="O", compresses=True),
        make_face(name="secret", prefix="/secret", handlers=handlers, title="S"),
    ]
    assembly = assemble(faces)
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as opened:
        yield opened


@pytest.mark.parametrize(
    ("path", "accepts", "is_compressed"),
    [
        *(("/long", "gzip", True), ("/long", "deflate, GZIP;q=0.5", True), ("/long", "*", True)),
        *(("/long", "identity", False), ("/long", "gzip;q=0", False), ("/long", "br", False)),
        *(("/long", "*;q=1, gzip;q=0", False), ("/long", "gzip;q=x", False)),
        *(("/small", "gzip", False), ("/bytes", "gzip", False), ("/events", "gzip", False)),
        *(("/tagged", "gzip", True), ("/secret/long", "gzip", False)),
    ],
)
async def test_who_takes_gzip_gets_it_where_it_is_good(
    client: HttpClient, path: str, accepts: str, is_compressed: bool
) -> None:
    """Long text is compressed for who accepts that; streams, bytes and secrets never are."""
    plain = await client.request("GET", path, headers={"Accept-Encoding": "identity"})
    answer = await client.request("GET", path, headers={"Accept-Encoding": accepts})
    assert (answer.headers.get("content-encoding") == "gzip") == is_compressed
    assert answer.content == plain.content  # the client has unpacked it
    varies = answer.headers.get("vary") == "Accept-Encoding"
    assert varies == (path in ("/long", "/small", "/tagged"))
    if is_compressed:
        assert int(answer.headers["content-length"]) < len(plain.content) / 5


async def test_a_request_that_another_site_caused_is_not_compressed(client: HttpClient) -> None:
    """Its page could learn something from the length."""
    headers = {"Accept-Encoding": "gzip", "Sec-Fetch-Site": "cross-site"}
    answer = await client.request("GET", "/long", headers=headers)
    assert "content-encoding" not in answer.headers
    assert json.loads(answer.content) == LONG


async def test_the_compressed_form_has_a_tag_of_its_own(client: HttpClient) -> None:
    """Both tags are known again, with and without compression."""
    plain = await client.request("GET", "/tagged", headers={"Accept-Encoding": "identity"})
    packed = await client.request("GET", "/tagged", headers={"Accept-Encoding": "gzip"})
    tags = [one.headers["etag"] for one in (plain, packed)]
    assert tags[1] == tags[0][:-1] + '-gzip"'
    for tag in tags:
        for accepts in ("gzip", "identity"):
            headers = {"If-None-Match": tag, "Accept-Encoding": accepts}
            again = await client.request("GET", "/tagged", headers=headers)
            assert (again.status, again.content) == (304, b"")


async def test_head_describes_the_plain_form(client: HttpClient) -> None:
    """It has no body whose compressed length could be told."""
    head = await client.request("HEAD", "/long", headers={"Accept-Encoding": "gzip"})
    assert (head.content, head.headers["vary"]) == (b"", "Accept-Encoding")
    assert head.headers["content-length"] == str(len(json.dumps(LONG, separators=(",", ":"))))
