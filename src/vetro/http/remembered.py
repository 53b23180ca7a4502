"""Answers of reading calls, kept until anything is written.

Dashboards and scripts ask the same again and again, and most of what they ask did not change. An answer
that depends on nothing but the database, the caller and the request (its endpoint says so) is kept with the
revision of the database from before it was read. While the revision is the same, it is sent again: after
the token was checked, with a request id of its own.

Where a database has no revision (`Database.revision`), nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from litestar.types import Message, Send

from vetro.http.headers import Headers
from vetro.http.principal import Principal

OPTION = "vetro_remembered"
MOST_BYTES = 4 * 2**20
"""Of all kept answers of a face."""
LARGEST_BYTES = 2**20
"""Of one."""
#: Headers that no answer depends on, beside the caller's token. All others are part of the question.
_WITHOUT_MEANING = frozenset(
    {
        *(b"x-auth-token", b"authorization", b"user-agent", b"connection", b"content-length"),
        *(b"content-type", b"x-openstack-request-id", b"traceparent", b"tracestate"),
    }
)


@dataclass(frozen=True)
class Kept:
    """An answer as it was sent, without the headers of its exchange. ``template``: of its path."""

    status: int
    headers: Headers
    body: bytes
    template: str

    async def send(self, send: Send, extra: Headers) -> None:
        """Send it again, with these headers."""
        start = {
            "type": "http.response.start",
            "status": self.status,
            "headers": [*self.headers, *extra],
        }
        await send(cast("Message", start))
        await send(
            cast("Message", {"type": "http.response.body", "body": self.body, "more_body": False})
        )


class Recording:
    """``send``, and what was sent with it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._size = 0
        self._start: Mapping[str, Any] | None = None
        self._parts: list[bytes] = []
        self._complete = False

    async def send(self, message: Message) -> None:
        """Send a message of an answer."""
        given = cast("dict[str, Any]", message)
        if given["type"] == "http.response.start":
            self._start = given
        else:
            part: bytes = given.get("body", b"")
            self._size += len(part)
            if self._size <= LARGEST_BYTES:
                self._parts.append(part)
            else:
                self._parts.clear()
            self._complete = not given.get("more_body", False)
        await self._send(message)

    def kept(self, template: str, without: frozenset[bytes]) -> Kept | None:
        """The answer, if it is whole and not too large; ``without`` these headers."""
        if (
            self._start is None
            or self._start["status"] not in (200, 304)
            or not self._complete
            or self._size > LARGEST_BYTES
        ):
            return None
        headers = [pair for pair in self._start["headers"] if pair[0].lower() not in without]
        return Kept(self._start["status"], headers, b"".join(self._parts), template)


class Remembered:
    """The kept answers of a face. ``revision()``: of all that they depend on; ``None``: not known."""

    def __init__(self, revision: Callable[[], Hashable]) -> None:
        self._of_now = revision
        self._revision: Hashable = None
        self._kept: dict[Hashable, Kept] = {}
        self._size = 0

    def question(
        self, path: str, query: bytes, headers: Headers, caller: Principal
    ) -> Hashable | None:
        """What is asked, and at which revision; ``None`` when that is not known."""
        revision = self._of_now()
        if revision is None:
            return None
        if revision != self._revision:
            self._forget()
            self._revision = revision
        asked = tuple([pair for pair in headers if pair[0] not in _WITHOUT_MEANING])
        who = (caller.user_id, caller.project_id, caller.roles, caller.domain_id)
        return (revision, path, query, asked, who)

    def find(self, question: Hashable) -> Kept | None:
        """The answer to a question that is as old as now."""
        return self._kept.get(question)

    def keep(self, question: Hashable, kept: Kept) -> None:
        """Keep an answer, unless anything was written since the question."""
        if cast("tuple[object, ...]", question)[0] != self._revision:
            return
        size = len(kept.body) + 1024
        if self._size + size > MOST_BYTES:
            self._forget()
        self._kept[question] = kept
        self._size += size

    def _forget(self) -> None:
        self._kept.clear()
        self._size = 0
