"""Bodies are never held whole, and clients that go away in the middle of one leave nothing."""

import asyncio
import os
import tracemalloc
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get, post, put

from vetro.http import (
    ANY_ACCEPT,
    Assembly,
    assemble,
    download,
    make_face,
    receive_multipart,
    receive_upload,
)

AnyRequest = Request[Any, Any, Any]
MEBIBYTE = 2**20
SIZE = 64
"""MiB that are sent; a process that holds a body needs as much."""
MOST = 6
"""MiB that may be allocated meanwhile."""
HEAD = b'--b\r\nContent-Disposition: form-data; name="f"; filename="a.zip"\r\n\r\n'
GONE: dict[str, Any] = {"type": "http.disconnect"}


@pytest.fixture
async def assembly(tmp_path: Path) -> AsyncGenerator[Assembly, None]:
    """A face that takes uploads in both forms, and gives a large file."""
    directory = tmp_path / "up"
    directory.mkdir()
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(SIZE * MEBIBYTE)

    @put("/upload")
    async def upload(request: AnyRequest) -> Any:
        path = await receive_upload(request, directory, SIZE * MEBIBYTE * 2)
        return {"size": path.stat().st_size}

    @post("/form", status_code=200)
    async def form(request: AnyRequest) -> Any:
        (part,) = await receive_multipart(request, directory, SIZE * MEBIBYTE * 2, max_parts=2)
        return {"size": part.size}

    @get("/file", opt=ANY_ACCEPT)
    async def file(request: AnyRequest) -> Any:
        return await download(request, large, digest="d")

    made = assemble([make_face(name="d", prefix="", handlers=[upload, form, file], title="D")])
    async with made.running():
        yield made


def pieces(path: str, number: int) -> Iterator[dict[str, Any]]:
    """The messages of a body of ``number`` MiB."""
    form = path == "/form"
    number = 0 if path == "/file" else number
    if form:
        yield {"type": "http.request", "body": HEAD, "more_body": True}
    for _ in range(number * 16):
        yield {"type": "http.request", "body": bytes(MEBIBYTE // 16), "more_body": True}
    yield {"type": "http.request", "body": b"\r\n--b--\r\n" if form else b"", "more_body": False}


async def call(
    assembly: Assembly, method: str, path: str, messages: Iterator[dict[str, Any]]
) -> tuple[int, int]:
    """The status of a call whose client sends these messages, and the bytes of its answer.

    After the last message the client goes on to wait, as clients do.
    """
    status, size = 0, 0
    answered = asyncio.Event()

    async def receive() -> Any:
        message = next(messages, None)
        if message is None:
            await answered.wait()
            return GONE
        return message

    async def send(message: Any) -> None:
        nonlocal status, size
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            size += len(message.get("body", b""))
            if not message.get("more_body"):
                answered.set()

    headers = [(b"host", b"test"), (b"content-type", b"multipart/form-data; boundary=b")]
    scope: Any = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("test", 80),
    }
    await assembly(scope, receive, send)
    return status, size


@pytest.mark.parametrize(("method", "path"), [("PUT", "/upload"), ("POST", "/form")])
async def test_a_body_is_never_held_whole(
    assembly: Assembly, tmp_path: Path, method: str, path: str
) -> None:
    """Uploads of 64 MiB take a tenth of that at their peak."""
    # What a first call loads and keeps is no body.
    assert (await call(assembly, method, path, pieces(path, 1)))[0] == 200
    tracemalloc.start()
    try:
        status, _ = await call(assembly, method, path, pieces(path, SIZE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status == 200
    stored = [file.stat().st_size for file in (tmp_path / "up").iterdir()]
    assert sorted(stored) == [MEBIBYTE, SIZE * MEBIBYTE]
    assert peak < MOST * MEBIBYTE


@pytest.mark.parametrize(("method", "path"), [("PUT", "/upload"), ("POST", "/form")])
async def test_a_client_that_goes_away_in_an_upload_leaves_nothing(
    assembly: Assembly, tmp_path: Path, method: str, path: str
) -> None:
    """No file stays, no error of the service is counted, and the next upload is served."""

    def broken() -> Iterator[dict[str, Any]]:
        for number, message in enumerate(pieces(path, 2)):
            if number == 20:
                yield GONE
            yield message

    status, _ = await call(assembly, method, path, broken())
    assert status < 500
    assert list((tmp_path / "up").iterdir()) == []
    assert (await call(assembly, method, path, pieces(path, 1)))[0] == 200


async def test_a_client_that_goes_away_in_a_download_keeps_no_file_open(
    assembly: Assembly, tmp_path: Path
) -> None:
    """The descriptor of what was being sent is closed when the call ends."""
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}, GONE])
    await call(assembly, "GET", "/file", messages)
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if link.is_symlink()]
    assert str(tmp_path / "large") not in targets
