"""Conditional requests on JSON (RFC 9110, section 13): entity tags, ``If-None-Match`` and ``If-Match``.

The tag of an answer is a digest of its content, so it needs no column and is the same in every
process. A change with ``If-Match`` is done only while the resource is as its sender read it: the
store gives the `Condition` what the same address would show *inside the transaction of the change*.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import msgspec
from litestar import Response

from vetro.http.any_request import AnyRequest
from vetro.http.declaration import Extras
from vetro.http.faults import PreconditionFailed
from vetro.http.parameters import STRING, Param

LARGE_BYTES = 2**17
#: Declares that a call takes ``If-Match``.
IF_MATCH = (Param("If-Match", STRING, where="header"),)


def tag_of(content: bytes) -> str:
    """The entity tag of content."""
    return f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'


def is_known(request: AnyRequest, tag: str) -> bool | None:
    """Whether the client has this content (``If-None-Match``); ``None`` when it does not say."""
    tags = request.headers.get("if-none-match")
    if tags is None:
        return None
    given = [one.strip().removeprefix("W/") for one in tags.split(",")]
    return tag in given or given == ["*"]


async def with_tag(request: AnyRequest, response: Response[object]) -> Response[object]:
    """The answer to a GET with its entity tag, or 304 when the client has it already."""
    content: object = response.content
    if (
        request.method != "GET"
        or response.status_code != 200
        or not isinstance(content, bytes)
        or "ETag" in response.headers
    ):
        return response
    if len(content) < LARGE_BYTES:
        tag = tag_of(content)
    else:
        tag = await asyncio.to_thread(tag_of, content)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if is_known(request, tag):
        return Response(None, status_code=304, headers=headers)
    response.headers.update(headers)
    return response


class Condition:
    """The ``If-Match`` of a change."""

    def __init__(self, given: str = "") -> None:
        self._tags = [one.strip() for one in given.split(",") if one.strip()]

    def __bool__(self) -> bool:
        """Whether there is one: what is shown need not be made otherwise."""
        return bool(self._tags)

    def check(self, shown: Any, extras: Extras | None = None) -> None:
        """Compare with what the address shows now, with or without ``extras``. Errors: 412."""
        if not self._tags or self._tags == ["*"]:
            return
        tags = {tag_of(msgspec.json.encode(shown))}
        if extras is not None:
            plain = dict(shown)
            extras.drop_from(plain)
            tags.add(tag_of(msgspec.json.encode(plain)))
        if tags.isdisjoint(self._tags):
            raise PreconditionFailed(
                "It was changed since it was read (If-Match): read it again, then change it",
            )


UNCONDITIONAL = Condition()
