"""What lines of the log say of the work that they were written for."""

from __future__ import annotations

import asyncio

from vetro.http.logs import completed
from vetro.log_context import said, say, saying, take_back


def test_values_are_said_until_they_are_taken_back() -> None:
    """Those from before are said again then."""
    outer = say(request_id="r")
    with saying(deployment="d", request_id="other"):
        assert said() == {"deployment": "d", "request_id": "other"}
    assert said() == {"request_id": "r"}
    take_back(outer)
    assert said() == {}


async def test_tasks_say_what_was_said_when_they_began() -> None:
    """And what they add themselves, others do not say."""

    async def other() -> dict[str, str]:
        say(call="c")
        await asyncio.sleep(0)
        return dict(said())

    with saying(request_id="r"):
        assert await asyncio.create_task(other()) == {"request_id": "r", "call": "c"}
        assert said() == {"request_id": "r"}


def test_a_line_that_says_it_itself_keeps_its_own() -> None:
    """The context adds only what a line does not have."""
    with saying(request_id="r", call="c"):
        line = completed(None, "exception", {"event": "e", "call": "own"})
    assert (line["request_id"], line["call"]) == ("r", "own")
    assert line["level"] == "error"
