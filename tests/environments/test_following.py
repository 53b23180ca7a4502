"""What is told of a project's environments to those who show them."""

from typing import Any

from tests.waiting import PATIENCE_SECONDS

from vetro.environments import TaskResult
from vetro.environments.store import project_channel
from vetro.storage import Subscription

Api = Any  # the fixture of conftest.py
MARK = "mark"


async def notified(api: Api, told: Subscription) -> list[str]:
    """What was delivered before a mark sent now: PostgreSQL delivers later, in the order of commits."""
    await api.database.notify(told.channel, MARK)
    found: list[str] = []
    while (payload := await told.wait(PATIENCE_SECONDS)) != MARK:
        assert payload is not None, "the mark was not delivered"
        found.append(payload)
    return found


async def test_every_change_of_an_environment_is_told_to_its_project(api: Api) -> None:
    """Making, renaming, editing, discarding, deploying, its end and removing: each tells which one it was."""
    async with (
        api.database.listen(project_channel("p")) as told,
        api.database.listen(project_channel("q")) as others,
    ):
        one = await api.environment()
        at = f"/environments/{one}"
        assert await notified(api, told) == [one]
        await api.call("PUT", at, {"name": "renamed"})
        assert await notified(api, told) == [one]
        session = await api.session(one)
        await api.add(one, session)
        assert await notified(api, told) == [one]
        await api.call("DELETE", f"{at}/sessions/{session}")
        assert await notified(api, told) == [one]
        session = await api.session(one)
        await api.add(one, session)
        await notified(api, told)
        await api.deploy(one, session)
        assert await notified(api, told) == [one]
        lease, task = await api.take()
        await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
        assert await notified(api, told) == [one]
        await api.call("DELETE", f"{at}?abandon=true")
        assert await notified(api, told) == [one]
        assert await notified(api, others) == []


async def test_a_stream_begins_with_reading_anew_and_ends(api: Api) -> None:
    """Who is connected again reads what is shown; the stream ends when it was asked to."""
    answer = await api.call("GET", "/events?seconds=0")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "event: begin" in answer.text
    assert (await api.call("GET", "/events?seconds=x")).status == 400
    assert (await api.call("GET", "/events", user="nobody")).status == 401
