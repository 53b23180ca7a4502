"""Downloads: not sent again to who has them, and in parts to who lost the rest."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get

from vetro.http import ANY_ACCEPT, assemble, download, known_content, make_face
from vetro.http.client import HttpClient

AnyRequest = Request[Any, Any, Any]
CONTENT = bytes(range(256)) * 2000  # more than one piece


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[HttpClient, None]:
    """A face with a file and some bytes."""
    file = tmp_path / "file"
    file.write_bytes(CONTENT)

    @get("/file", opt=ANY_ACCEPT)
    async def one(request: AnyRequest) -> Any:
        return await download(request, file, digest="d1", filename='a "b".zip')

    @get("/gone", opt=ANY_ACCEPT)
    async def gone(request: AnyRequest) -> Any:
        return await download(request, tmp_path / "none", digest="d1")

    @get("/text", opt=ANY_ACCEPT)
    async def text(request: AnyRequest) -> Any:
        return known_content(request, b"some text", "text/plain")

    assembly = assemble([make_face(name="d", prefix="", handlers=[one, gone, text], title="D")])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as opened:
        yield opened


async def test_a_file_comes_whole_with_what_names_it(client: HttpClient) -> None:
    """Length, entity tag and name are sent; HEAD has the same headers and no body."""
    answer = await client.request("GET", "/file")
    assert (answer.status, answer.content) == (200, CONTENT)
    assert answer.headers["etag"] == '"d1"'
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="a _b_.zip"'
    head = await client.request("HEAD", "/file")
    assert (head.status, head.content, head.headers["content-length"]) == (
        200,
        b"",
        answer.headers["content-length"],
    )
    assert (await client.request("GET", "/gone")).status == 404


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ('"d1"', 304),
        ('W/"d1"', 304),
        ('"other", "d1"', 304),
        ("*", 304),
        ('"other"', 200),
        ("d1", 200),
    ],
)
async def test_who_has_it_is_told_so(client: HttpClient, given: str, status: int) -> None:
    """A matching entity tag gets a 304 with the tag and without a body."""
    answer = await client.request("GET", "/file", headers={"If-None-Match": given})
    assert (answer.status, answer.headers["etag"]) == (status, '"d1"')
    assert answer.content == (CONTENT if status == 200 else b"")


async def test_who_has_it_since_a_time_is_told_so(client: HttpClient) -> None:
    """A date is compared unless a tag is given, which has priority; invalid ones are ignored."""
    now = datetime.now(UTC)
    for moment, status in ((now, 304), (now - timedelta(days=9), 200)):
        since = {"If-Modified-Since": format_datetime(moment, usegmt=True)}
        assert (await client.request("GET", "/file", headers=since)).status == status
    both = {"If-None-Match": '"other"', "If-Modified-Since": format_datetime(now, usegmt=True)}
    assert (await client.request("GET", "/file", headers=both)).status == 200
    nonsense = {"If-Modified-Since": "yesterday"}
    assert (await client.request("GET", "/file", headers=nonsense)).status == 200


@pytest.mark.parametrize(
    ("wanted", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-299999", 10, 300_000),
        ("bytes=511990-", 511_990, 512_000),
        ("bytes=-5", 511_995, 512_000),
        ("bytes=511999-600000", 511_999, 512_000),
        ("bytes=-600000", 0, 512_000),
    ],
)
async def test_a_part_can_be_asked_for(
    client: HttpClient, wanted: str, first: int, end: int
) -> None:
    """The answer is 206 with that part and its position in the whole."""
    answer = await client.request("GET", "/file", headers={"Range": wanted})
    assert (answer.status, answer.content) == (206, CONTENT[first:end])
    assert answer.headers["content-range"] == f"bytes {first}-{end - 1}/512000"


@pytest.mark.parametrize("wanted", ["bytes=512000-", "bytes=-0"])
async def test_a_part_outside_of_it_is_refused(client: HttpClient, wanted: str) -> None:
    """The answer is 416 with the size."""
    answer = await client.request("GET", "/file", headers={"Range": wanted})
    assert (answer.status, answer.headers["content-range"]) == (416, "bytes */512000")
    assert "512000 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "wanted", ["bytes=5-2", "bytes=-", "lines=1-2", "bytes=1-2,5-6", "bytes=a-b"]
)
async def test_a_range_of_another_kind_is_ignored(client: HttpClient, wanted: str) -> None:
    """The whole file is sent, as the standard allows."""
    headers = {"Range": wanted}
    answer = await client.request("GET", "/file", headers=headers)
    assert (answer.status, len(answer.content)) == (200, len(CONTENT))


async def test_a_part_of_something_else_is_not_sent(client: HttpClient) -> None:
    """``If-Range`` with another tag or date gets the whole file instead of a part."""
    modified = (await client.request("HEAD", "/file")).headers["last-modified"]
    for condition, status in (('"d1"', 206), (modified, 206), ('"old"', 200), ('W/"d1"', 200)):
        headers = {"Range": "bytes=1-2", "If-Range": condition}
        assert (await client.request("GET", "/file", headers=headers)).status == status


async def test_bytes_at_hand_are_not_sent_again(client: HttpClient) -> None:
    """Their tag is derived from the content."""
    answer = await client.request("GET", "/text")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    again = {"If-None-Match": answer.headers["etag"]}
    assert (await client.request("GET", "/text", headers=again)).status == 304


async def test_a_body_in_many_pieces_does_not_end_a_download(client: HttpClient) -> None:
    """Pieces of a request's body that come while its answer is streamed are dropped."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for _ in range(3000):
            yield b"?"

    answer = await client.request("GET", "/file", content=pieces())
    assert (answer.status, answer.content) == (200, CONTENT)
