"""What a node says when the compute service does not take what it sends."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from vetro.http.client import HttpClient, Response
from vetro.node.service_client import ServiceClient

NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_taken_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Not only that a token is not valid: which key is wanted, where it is, and where to put it."""

    async def refuse(_self: HttpClient, *_arguments: Any, **_options: Any) -> Response:
        return Response(status, {}, b'{"message": "The token is not valid"}')

    monkeypatch.setattr(HttpClient, "request", refuse)
    client = ServiceClient("http://service/compute", NODE, "wrong", "1")
    with capture_logs() as said:
        assert await client.post("/sysinfo", {}) == status
    await client.close()
    (entry,) = said
    assert entry["log_level"] == "error"
    for needed in ("node-key", "VETRO_NODE_KEY", "[node] key"):
        assert needed in entry["remedy"]
    assert entry["key_of"] == f"GET http://service/compute/servers/{NODE}/key"


@asynccontextmanager
async def listening() -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A service that takes everything: its address, and the requests it heard."""
    heard: list[bytes] = []
    ended: list[asyncio.Task[Any]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ended.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                heard.append(head)
                length = re.search(rb"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        await asyncio.gather(*ended)


@pytest.mark.parametrize(
    ("named", "with_key"),
    [
        ("", True),
        ("SERVICE/compute", True),
        ("SERVICE/compute/", True),
        ("OTHER/compute", False),
        # The same machine, but not the compute service.
        ("SERVICE", False),
        ("SERVICE/elsewhere", False),
        ("SERVICE/compute/../elsewhere", False),
    ],
)
async def test_the_key_goes_to_the_service_only(tmp_path: Path, named: str, with_key: bool) -> None:
    """A service of images that a request names (imgapi_url) gets the image, not this node's key."""
    file = tmp_path / "file"
    file.write_bytes(b"data")
    manifest = {"uuid": NODE, "sha256": "0" * 64}
    async with listening() as (service, heard), listening() as (other, heard_there):
        client = ServiceClient(f"{service}/compute", NODE, "the key", "1")
        where = named.replace("SERVICE", service).replace("OTHER", other)
        await client.publish_image(manifest, file, where)
        await client.close()
        requests = [*heard, *heard_there]
    assert [one.split()[0] for one in requests] == [b"POST", b"PUT"]
    assert [b"the key" in one for one in requests] == [with_key] * 2
