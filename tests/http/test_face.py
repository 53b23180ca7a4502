"""What a face does around its handlers."""

from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get, post, put

from vetro.http import Assembly, assemble, make_face, receive_multipart
from vetro.http.bodies import SMALL_UPLOAD, SpooledWriter
from vetro.http.client import HttpClient
from vetro.http.faults import InsufficientStorage
from vetro.http.media_types import prefers_html

ANONYMOUS = {"X-Auth-Token": ""}


async def test_every_response_carries_a_request_id(client: HttpClient) -> None:
    """Good answers, missing paths, wrong methods, refusals and crashes all have one."""
    answers = [
        await client.request("GET", "/t/who"),
        await client.request("GET", "/t/nothing"),
        await client.request("DELETE", "/t/who"),
        await client.request("GET", "/t/things/broken"),
        await client.request("GET", "/t/who", headers=ANONYMOUS),
    ]
    assert [answer.status for answer in answers] == [200, 404, 405, 500, 401]
    ids = {answer.headers["x-openstack-request-id"] for answer in answers}
    assert len(ids) == 5
    assert all(one.startswith("req-") for one in ids)


async def test_a_fault_body_has_one_object(client: HttpClient) -> None:
    """The error body has the shape that every known client can read."""
    answer = await client.request("GET", "/t/things/none")
    body = answer.json()
    assert set(body) == {"error"}
    assert body["error"]["message"] == "Thing none not found"
    assert body["error"]["type"] == "ThingNotFound"
    assert body["error"]["code"] == 404
    assert body["error"]["title"] == "Not Found"
    assert body["error"]["request_id"] == answer.headers["x-openstack-request-id"]
    assert answer.headers["content-type"] == "application/json"


async def test_an_unexpected_error_tells_no_secret(client: HttpClient) -> None:
    """A crash of a handler is a 500 whose text is only the request id."""
    answer = await client.request("GET", "/t/things/broken")
    assert answer.status == 500
    assert "secret detail" not in answer.text
    assert answer.headers["x-openstack-request-id"] in answer.text


async def test_html_is_served_when_preferred(client: HttpClient) -> None:
    """A client that ranks HTML above JSON gets an escaped page."""
    answer = await client.request(
        "GET", "/t/things/none", headers={"Accept": "text/html, application/json;q=0.5"}
    )
    assert answer.headers["content-type"].startswith("text/html")
    assert "<h1>404 Not Found</h1>" in answer.text
    assert prefers_html("*/*") is False
    assert prefers_html("text/html;q=0.1, application/json") is False


async def test_the_token_is_checked_before_anything_else(client: HttpClient) -> None:
    """Without a valid token the path and the body do not matter; public paths stay open."""
    for path in ("/t/who", "/t/nothing"):
        answer = await client.request("POST", path, headers={"X-Auth-Token": "bad"}, content=b"{")
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Keystone uri=")
    assert (await client.request("POST", "/t/echo", headers=ANONYMOUS)).status == 200


async def test_headers_of_the_token_filter_cannot_be_forged(client: HttpClient) -> None:
    """Identity headers from outside never reach a handler."""
    answer = await client.request("GET", "/t/who", headers={"X-User-Id": "root"})
    assert answer.json() == {"user": "ann", "spoofed": None}


async def test_wrong_method_names_the_right_ones(client: HttpClient) -> None:
    """405 carries ``Allow``."""
    assert "GET" in (await client.request("DELETE", "/t/who")).headers["allow"]


async def test_trailing_slash_and_head(client: HttpClient) -> None:
    """One trailing slash is tolerated, and HEAD is GET without a body."""
    assert (await client.request("GET", "/t/who/")).status == 200
    answer = await client.request("HEAD", "/t/who")
    assert (answer.status, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("content", "content_type", "status", "value"),
    [
        (b'{"a": 1}', "application/json; charset=utf-8", 200, {"a": 1}),
        (b"", "application/json", 200, None),
        (b"{}", "", 200, None),
        (b"{", "application/json", 400, "Malformed request body"),
        (b"\xff", "application/json", 400, "Malformed request body"),
        (b"[" * 100_000, "application/json", 400, "Malformed request body"),
        (b"<a/>", "text/xml", 415, "text/xml"),
    ],
)
async def test_json_bodies(
    client: HttpClient, content: bytes, content_type: str, status: int, value: Any
) -> None:
    """Bodies are JSON or empty; everything else is refused with the reason."""
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await client.request("POST", "/t/echo", content=content, headers=headers)
    assert answer.status == status
    if status == 200:
        assert answer.json() == {"body": value}
    else:
        assert value in answer.json()["error"]["message"]


async def test_uploads_are_limited_and_leave_nothing(client: HttpClient, tmp_path: Path) -> None:
    """A body over the limit is 413, and no file stays behind."""
    assert (await client.request("PUT", "/t/upload", content=b"x" * 1000)).json() == {"size": 1000}
    assert (await client.request("PUT", "/t/upload", content=b"x" * 1001)).status == 413
    assert list((tmp_path / "up").iterdir()) == []


async def test_parts_of_a_form_have_names_and_sizes(client: HttpClient, tmp_path: Path) -> None:
    """Files and texts of a form are told apart; small files leave nothing on the disk."""
    answer = await client.request(
        "POST", "/t/form", files={"f": ("a.zip", b"12345")}, data={"j": "{}"}
    )
    assert sorted(answer.json(), key=lambda p: p["name"]) == [
        {"name": "f", "file": "a.zip", "text": "", "size": 5},
        {"name": "j", "file": None, "text": "{}", "size": 2},
    ]
    assert list((tmp_path / "up").iterdir()) == []


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"x", "application/json", 415),
        (b"x", "multipart/form-data", 400),
        (b"garbage", "multipart/form-data; boundary=b", 400),
        (
            b"".join(
                b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nx\r\n'
                for _ in range(5)
            )
            + b"--b--\r\n",
            "multipart/form-data; boundary=b",
            400,
        ),
        (
            b'--b\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'
            + b"x" * 2000
            + b"\r\n--b--\r\n",
            "multipart/form-data; boundary=b",
            413,
        ),
    ],
)
async def test_bad_forms_are_refused_and_leave_nothing(
    client: HttpClient, tmp_path: Path, content: bytes, content_type: str, status: int
) -> None:
    """Broken, over-long and over-numerous forms end with a 4xx and no file."""
    answer = await client.request(
        "POST", "/t/form", content=content, headers={"Content-Type": content_type}
    )
    assert answer.status == status, answer.text
    directory = tmp_path / "up"
    assert list(directory.iterdir()) == []


async def test_a_full_disk_is_a_507(tmp_path: Path) -> None:
    """ENOSPC during a write becomes a fault that says so, and no file stays."""
    writer = SpooledWriter(tmp_path, 100)
    writer._opened().close()
    # The kernel's own full disk.
    writer._file = Path("/dev/full").open("wb", buffering=0)
    await writer.write(b"x")
    with pytest.raises(InsufficientStorage, match="disk is full"):
        await writer.close(to_file=True)
    writer.discard()
    assert list(tmp_path.iterdir()) == []


async def test_a_small_file_of_a_form_stays_in_memory(tmp_path: Path) -> None:
    """A file of at most 64 KiB is given as its content, a larger one as a file."""
    sizes = {"small": SMALL_UPLOAD, "large": SMALL_UPLOAD + 1, "empty": 0}
    stored: dict[str, Path | bytes | None] = {}

    @post("/form", status_code=200)
    async def form(request: Request[Any, Any, Any]) -> None:
        parts = await receive_multipart(request, tmp_path, 2 * SMALL_UPLOAD)
        stored.update({part.name: part.stored for part in parts})

    body = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%s"; filename="f"\r\n\r\n%s\r\n'
        % (name.encode(), b"a" * size)
        for name, size in sizes.items()
    )
    text = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nword\r\n--x--\r\n'
    assembly = assemble([make_face(name="f", prefix="", handlers=[form], title="F")])
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as client:
        answer = await client.request("POST", "/form", content=body + text, headers=headers)
    assert answer.status == 200
    (file,) = tmp_path.iterdir()
    assert file.read_bytes() == b"a" * sizes["large"]
    assert stored == {"small": b"a" * SMALL_UPLOAD, "large": file, "empty": b"", "text": None}


async def test_events_are_streamed_to_their_end(client: HttpClient) -> None:
    """A stream has its media type, sends its events with ids and ends with its source."""
    answer = await client.request("GET", "/t/events")
    assert 'event: count\nid: 2\ndata: {"n":2}\n\n' in answer.text
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_closing_ends_streams_and_polls(client: HttpClient, assembly: Assembly) -> None:
    """When the process closes, an endless stream and a long poll return."""
    import asyncio

    stream = asyncio.create_task(client.request("GET", "/t/events?endless=1"))
    polling = asyncio.create_task(client.request("GET", "/t/poll"))
    await asyncio.sleep(0)
    assembly.close_streams()
    assert (await stream).status == 200
    assert (await polling).json() == {"result": None}


async def test_operations_pages(client: HttpClient, face: Any) -> None:
    """Health, readiness with reasons, and metrics that count by route."""
    assert (await client.request("GET", "/healthz")).json() == {"status": "ok"}
    assert (await client.request("GET", "/readyz")).status == 200
    await client.request("GET", "/t/things/a")
    text = (await client.request("GET", "/metrics")).text
    assert 'route="/things/{name}"' in text

    async def missing() -> dict[str, str]:
        return {"database": "does not answer"}

    async with HttpClient(app=assemble([face], readiness=missing), base_url="http://t") as other:
        answer = await other.request("GET", "/readyz")
    assert answer.status == 503
    assert answer.json()["waiting_on"] == {"database": "does not answer"}


async def test_the_openapi_document_is_public(client: HttpClient) -> None:
    """Each face describes itself."""
    answer = await client.request("GET", "/t/schema/openapi.json", headers=ANONYMOUS)
    assert answer.status == 200
    assert "/who" in answer.json()["paths"]


async def test_options_names_every_method_of_a_path(tmp_path: Path) -> None:
    """All methods are named, with HEAD where GET is; operations pages and ``*`` have theirs."""

    @get("/both")
    async def first() -> str:
        return ""

    @put("/both")
    async def second() -> str:
        return ""

    assembly = assemble([make_face(name="o", prefix="/o", handlers=[first, second], title="O")])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as client:
        for path, allow in (
            ("/o/both", "GET, HEAD, OPTIONS, PUT"),
            ("/healthz", "GET, HEAD, OPTIONS"),
        ):
            answer = await client.request("OPTIONS", path)
            assert (answer.status, answer.headers["allow"], answer.content) == (204, allow, b"")
        assert (await client.request("OPTIONS", "/o/none")).status == 404


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("/t/things/a%00b", None, "address"),
        ("/t/who?name=%00", None, "address"),
        ("/t/echo", rb'{"name": "a\u0000b"}', "in name;"),
        ("/t/echo", rb'{"list": [{"x": 1}, {"y": "\u0000"}]}', "in list[1].y;"),
        ("/t/echo", rb'{"a\u0000": 1}', "in a name"),
        ("/t/echo", rb'"\u0000"', "in the body;"),
    ],
)
async def test_no_text_has_a_nul(
    client: HttpClient, path: str, content: bytes | None, said: str
) -> None:
    """A NUL in the address or a body is a 400 that names its place; an escaped backslash is not."""
    headers = {"Content-Type": "application/json"}
    method = "POST" if content else "GET"
    answer = await client.request(method, path, content=content, headers=headers)
    assert answer.status == 400
    assert "NUL" in answer.json()["error"]["message"]
    assert said in answer.json()["error"]["message"]
    fine = await client.request("POST", "/t/echo", content=rb'"\\u0000"', headers=headers)
    assert fine.json() == {"body": r"\u0000"}


async def test_a_form_is_limited_as_a_whole(tmp_path: Path) -> None:
    """A body above the limit of the whole is 413, also without an announced length."""

    @post("/form", status_code=200)
    async def form(request: Request[Any, Any, Any]) -> int:
        return len(await receive_multipart(request, tmp_path, 5000, total_bytes=6000))

    async def chunks(size: int) -> Any:
        yield b'--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        yield b"a" * size
        yield b"\r\n--x--\r\n"

    assembly = assemble([make_face(name="f", prefix="", handlers=[form], title="F")])
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as client:
        for size, type_ in ((5500, "PartTooLarge"), (7000, "PayloadTooLarge")):
            answer = await client.request("POST", "/form", content=chunks(size), headers=headers)
            assert (answer.status, answer.json()["error"]["type"]) == (413, type_)
    assert list(tmp_path.iterdir()) == []
