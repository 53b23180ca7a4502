"""A face with one handler of each kind, served in process."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get, post, put
from litestar.params import FromPath

from vetro.http import (
    Assembly,
    Face,
    NotFound,
    Principal,
    ServerEvent,
    assemble,
    event_stream,
    make_face,
    principal_of,
    read_json,
    receive_multipart,
    receive_upload,
    unless_closing,
)
from vetro.http.client import HttpClient

AnyRequest = Request[Any, Any, Any]


class Tokens:
    """Knows one token."""

    async def authenticate(self, token: str) -> Principal | None:
        return Principal("u", "ann", "p", roles=frozenset({"member"})) if token == "good" else None


@get("/who")
async def who(request: AnyRequest) -> dict[str, Any]:
    return {"user": principal_of(request).user_name, "spoofed": request.headers.get("x-user-id")}


@get("/things/{name:str}")
async def thing(name: FromPath[str]) -> dict[str, str]:
    if name == "broken":
        raise RuntimeError("secret detail")
    if name == "none":
        raise NotFound("Thing none not found", type_="ThingNotFound")
    return {"name": name}


@post("/echo", status_code=200)
async def echo(request: AnyRequest) -> Any:
    return {"body": await read_json(request)}


@get("/events")
async def events(request: AnyRequest) -> Any:
    async def source() -> AsyncIterator[ServerEvent]:
        for number in range(3):
            yield ServerEvent("count", {"n": number}, id=str(number))
        if request.query_params.get("endless"):
            await asyncio.Event().wait()

    return event_stream(request, source())


@get("/poll")
async def poll(request: AnyRequest) -> Any:
    async def never() -> str:
        await asyncio.Event().wait()
        return "never"

    return {"result": await unless_closing(request, never())}


@pytest.fixture
def face(tmp_path: Path) -> Face:
    """The face under test."""
    directory = tmp_path / "up"
    directory.mkdir()

    @post("/form", status_code=200)
    async def form(request: AnyRequest) -> Any:
        parts = await receive_multipart(request, directory, 1000, max_parts=3)
        result = [
            {"name": p.name, "file": p.filename, "text": p.value, "size": p.size} for p in parts
        ]
        for part in parts:
            if isinstance(part.stored, Path):
                part.stored.unlink()
        return result

    @put("/upload")
    async def upload(request: AnyRequest) -> Any:
        path = await receive_upload(request, directory, 1000)
        size = path.stat().st_size
        path.unlink()
        return {"size": size}

    return make_face(
        name="test",
        prefix="/t",
        handlers=[who, thing, echo, form, upload, events, poll],
        title="Test",
        authenticator=Tokens(),
        public=lambda method, path: path == "/echo",
    )


@pytest.fixture
async def assembly(face: Face) -> AsyncGenerator[Assembly, None]:
    """The face behind the dispatcher, its life span running."""
    assembled = assemble([face])
    async with assembled.running():
        yield assembled


@pytest.fixture
async def client(assembly: Assembly) -> AsyncGenerator[HttpClient, None]:
    """A client with a good token."""
    async with HttpClient(
        app=assembly, base_url="http://test", headers={"X-Auth-Token": "good"}
    ) as opened:
        yield opened
