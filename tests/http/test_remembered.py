"""Answers that are kept until anything is written, and what makes another question."""

from typing import Any

import pytest

from vetro.http import Principal, Remembered, assemble, make_face
from vetro.http.client import HttpClient
from vetro.http.declaration import Answer
from vetro.http.endpoint import Call, Endpoint, routes, serving


class Projects:
    """A token is a project, after a dash a role; ``none`` is not valid."""

    async def authenticate(self, token: str) -> Principal | None:
        project, _, role = token.partition("-")
        return None if token == "none" else Principal("u", "ann", project, roles=frozenset({role}))


class Service:
    """A face with a call that is remembered and one that is not; it counts what handlers answer."""

    def __init__(self) -> None:
        self.revision: int | None = 1
        self.handled = 0
        self.size = 10

        async def answer(_call: Call[None]) -> Any:
            self.handled += 1
            return {"handled": self.handled, "text": "x" * self.size}

        async def moved(_call: Call[None]) -> Any:
            self.handled += 1
            return Answer(404)

        async def writes(_call: Call[None]) -> Any:
            # A change that comes while the answer is made.
            self.handled += 1
            self.revision = (self.revision or 0) + 1
            return {"handled": self.handled}

        ends: list[Endpoint[Call[None]]] = [
            Endpoint("kept", "GET POST", "/kept", answer, remembered=True),
            Endpoint("plain", "GET", "/plain", answer),
            Endpoint("absent", "GET", "/absent", moved, remembered=True),
            Endpoint("writes", "GET", "/writes", writes, remembered=True),
        ]
        face = make_face(
            name="t",
            prefix="/t",
            handlers=routes(ends, serving(lambda request: Call(None, request))),
            title="T",
            authenticator=Projects(),
            remembered=Remembered(lambda: self.revision),
            compresses=True,
        )
        self.client = HttpClient(app=assemble([face]), base_url="http://test")

    async def get(self, path: str, token: str = "p", method: str = "GET", **headers: str) -> Any:
        """A call; how many answers handlers have made by then, or its status if it is not 200."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.client.request(
            method, f"/t{path}", headers={"X-Auth-Token": token, **named}
        )
        return answer.json()["handled"] if answer.status == 200 else answer.status


async def test_an_answer_is_kept_until_something_is_written() -> None:
    """The handler is asked once a revision."""
    service = Service()
    assert [await service.get("/kept"), await service.get("/kept")] == [1, 1]
    service.revision = 2
    assert [await service.get("/kept"), await service.get("/kept")] == [2, 2]


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/kept?a=1"},
        {"token": "q"},
        {"token": "p-admin"},
        {"X_Configuration_Session": "s"},
        {"Accept": "text/plain, */*"},
        {"Accept_Encoding": "gzip"},
        {"If_None_Match": '"x"'},
        {"method": "POST"},
    ],
)
async def test_another_question_is_asked_again(other: dict[str, str]) -> None:
    """Another address, caller or header that answers depend on is another question."""
    service = Service()
    await service.get("/kept")
    assert await service.get(**{"path": "/kept", **other}) == 2


async def test_other_requests_of_the_same_question() -> None:
    """Programs and their request ids make no other question; each answer has an id of its own."""
    service = Service()
    found = [
        await service.client.request(
            "GET", "/t/kept", headers={"X-Auth-Token": "p", "User-Agent": agent}
        )
        for agent in ("a", "b")
    ]
    assert [one.json()["handled"] for one in found] == [1, 1]
    assert len({one.headers["x-openstack-request-id"] for one in found}) == 2


async def test_a_kept_answer_needs_a_valid_token() -> None:
    """The token is checked before anything is found."""
    service = Service()
    await service.get("/kept")
    assert await service.get("/kept", token="none") == 401


@pytest.mark.parametrize("path", ["/plain", "/absent", "/writes"])
async def test_what_is_not_kept(path: str) -> None:
    """Endpoints that do not say so, failures, and answers that were made while something was written."""
    service = Service()
    await service.get(path)
    await service.get(path)
    assert service.handled == 2


async def test_without_a_revision_nothing_is_kept() -> None:
    """A database that cannot say whether it changed is asked each time."""
    service = Service()
    service.revision = None
    assert [await service.get("/kept"), await service.get("/kept")] == [1, 2]


async def test_kept_answers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large answers are not kept; when all are too large together, they are forgotten."""
    service = Service()
    monkeypatch.setattr("vetro.http.remembered.LARGEST_BYTES", 500)
    service.size = 600
    assert [await service.get("/kept"), await service.get("/kept")] == [1, 2]
    service.size = 10
    monkeypatch.setattr("vetro.http.remembered.MOST_BYTES", 2500)
    assert [await service.get(f"/kept?a={number}") for number in (1, 2, 3)] == [3, 4, 5]
    assert await service.get("/kept?a=3") == 5
    assert await service.get("/kept?a=1") == 6
