"""A hundred projects at once with one that floods: the others are answered, the flood waits or is refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar import Request, get
from tests.waiting import eventually

from vetro.http import (
    Principal,
    ProjectLimits,
    ServerEvent,
    TooManyRequests,
    assemble,
    event_stream,
    make_face,
)
from vetro.http.client import HttpClient, Response

AnyRequest = Request[Any, Any, Any]
FLOOD = 300


class Projects:
    """A token is the name of its project."""

    async def authenticate(self, token: str) -> Principal | None:
        return Principal("u", "ann", token)


class Service:
    """A face whose calls of the project ``flood`` are handled until they are let go."""

    def __init__(self) -> None:
        self.handled = 0
        self.let_go = asyncio.Event()

        @get("/thing")
        async def thing(request: AnyRequest) -> str:
            if request.headers["x-auth-token"] == "flood":
                self.handled += 1
                await self.let_go.wait()
            return "here"

        @get("/events")
        async def events(request: AnyRequest) -> Any:
            async def source() -> AsyncIterator[ServerEvent]:
                yield ServerEvent("first", {})
                await self.let_go.wait()

            return event_stream(request, source())

        face = make_face(
            name="t",
            prefix="/t",
            handlers=[thing, events],
            title="T",
            authenticator=Projects(),
            project_limits=ProjectLimits(at_once=4, waiting=8),
        )
        self.assembly = assemble([face])
        self.client = HttpClient(app=self.assembly, base_url="http://test")
        self.followers: list[asyncio.Task[None]] = []

    def send(self, project: str, path: str = "/t/thing") -> asyncio.Task[Response]:
        """Begin a request of a project."""
        headers = {"X-Auth-Token": project}
        return asyncio.create_task(self.client.request("GET", path, headers=headers))

    async def follow(self, project: str) -> None:
        """Open an event stream of a project; returns when its answer has begun."""
        begun = asyncio.Event()

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                begun.set()

        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "http_version": "1.1",
            "path": "/t/events",
            "raw_path": b"/t/events",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"host", b"test"), (b"x-auth-token", project.encode())],
        }
        self.followers.append(asyncio.create_task(self.assembly(scope, receive, send)))  # type: ignore[arg-type]
        await begun.wait()


@pytest.fixture
async def service() -> Any:
    """The service and its client."""
    made = Service()
    async with made.client:
        yield made
        made.let_go.set()
        for one in made.followers:
            one.cancel()
        await asyncio.gather(*made.followers, return_exceptions=True)


async def test_one_that_floods_stops_nobody_else(service: Service) -> None:
    """A stuck flood leaves 99 projects their answers; of it, 4 are handled, 8 wait, the rest is 429."""
    flood = [service.send("flood") for _ in range(FLOOD)]
    others = [service.send(f"p{number}") for number in range(99)]
    assert {one.status for one in await asyncio.gather(*others)} == {200}
    refused = lambda: [one for one in flood if one.done()]  # noqa: E731
    await eventually(lambda: len(refused()) == FLOOD - 12)
    for one in refused():
        answer = one.result()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["error"]["type"] == "TooManyRequests"
        assert "send fewer at a time" in answer.json()["error"]["message"]
    assert service.handled == 4
    service.let_go.set()
    answers = [one.status for one in await asyncio.gather(*flood)]
    assert (answers.count(200), answers.count(429)) == (12, FLOOD - 12)


async def test_who_goes_away_while_waiting_leaves_the_turn_to_the_next(service: Service) -> None:
    """Requests that are given up wait no more, whether their turn had come or not."""
    flood = [service.send("flood") for _ in range(12)]
    await eventually(lambda: service.handled == 4)
    for one in flood[5:]:
        one.cancel()
    await asyncio.wait(flood[5:])
    more = [service.send("flood") for _ in range(7)]
    service.let_go.set()
    left = [*flood[:5], *more]
    assert [one.status for one in await asyncio.gather(*left)] == [200] * 12


async def test_a_stream_takes_a_turn_only_until_it_begins(service: Service) -> None:
    """More event streams of a project are open than its limit, and its calls go on beside them."""
    for _ in range(13):
        await service.follow("p")
    assert (await service.send("p")).status == 200


async def test_a_rate_holds_one_project_back_and_no_other() -> None:
    """After its burst a project gets a request whenever its bucket has one, and is told when."""
    now = 0.0
    project_limits = ProjectLimits(at_once=0, waiting=0, rate=0.5, burst=3, clock=lambda: now)

    async def taken(project: str) -> str:
        try:
            (await project_limits.take(project)).end()
        except TooManyRequests as refusal:
            return refusal.headers["Retry-After"]
        return "taken"

    assert [await taken("flood") for _ in range(5)] == ["taken"] * 3 + ["2", "2"]
    assert [await taken(f"p{number}") for number in range(99)] == ["taken"] * 99
    now = 2.0
    assert [await taken("flood") for _ in range(2)] == ["taken", "2"]
    now = 1000.0
    assert [await taken("flood") for _ in range(4)] == ["taken"] * 3 + ["2"]
