"""Deployments that no engine takes (catalog-api.md §8)."""

from typing import Any

import pytest
from tests.interrupting import interruptions

from vetro.environments import UnansweredTasks
from vetro.storage import ManualClock

Api = Any  # the fixture of conftest.py


@pytest.fixture
def clock(api: Api) -> ManualClock:
    """The clock of the database, which only the test moves."""
    api.database.clock = ManualClock(api.database.clock.now())
    return api.database.clock


async def submitted(api: Api, name: str) -> str:
    """An environment whose deployment waits for an engine."""
    environment = await api.environment(name)
    await api.deploy(environment, await api.session(environment))
    return environment


async def test_what_no_engine_takes_in_time_fails(api: Api, clock: ManualClock) -> None:
    """With the reason as its report; its environment can be deployed again, and younger ones wait on."""
    old = await submitted(api, "old")
    clock.advance(50)
    young = await submitted(api, "young")
    clock.advance(20)
    failing = UnansweredTasks(api.rooms.tasks, 60)
    assert await failing.fail_all() == 1
    assert await failing.fail_all() == 0
    assert (await api.status(old), await api.status(young)) == ("deploy failure", "deploying")
    (row,) = (await api.call("GET", f"/environments/{old}/deployments", fields="all")).json()[
        "deployments"
    ]
    assert (row["state"], row["outcome"]) == ("completed_w_errors", "failed")
    path = f"/environments/{old}/deployments/{row['id']}"
    texts = [one["text"] for one in (await api.call("GET", path)).json()["reports"]]
    assert "within 60 seconds (engine.task_timeout)" in texts[-2]
    await api.deploy(old, await api.session(old))
    await api.finish()
    await api.finish()
    assert (await api.status(old), await api.status(young)) == ("ready", "ready")


async def test_what_an_engine_has_taken_is_left_alone(api: Api, clock: ManualClock) -> None:
    """When its engine dies, the time begins with the end of its lease; what that one kept is kept."""
    environment = await submitted(api, "e")
    await api.rooms.tasks.claim("engine", 300)
    row = ["an-object", "a.Class", "install", {"begun": True}]

    async def kept(_task: str) -> list[object]:
        return [row]

    failing = UnansweredTasks(api.rooms.tasks, 60, kept)
    clock.advance(299)
    assert await failing.fail_all() == 0
    clock.advance(60)
    assert await failing.fail_all() == 0
    clock.advance(2)
    assert await failing.fail_all() == 1
    assert await api.status(environment) == "deploy failure"
    await api.deploy(environment, await api.session(environment))
    _, task = await api.take()
    assert task.model["Attributes"] == [row]


async def test_what_an_engine_gives_back_waits_anew(api: Api, clock: ManualClock) -> None:
    """An engine that stops in order hands its work to the next; the time before does not count."""
    environment = await submitted(api, "e")
    lease, _ = await api.take()
    clock.advance(40)
    await api.rooms.tasks.queue.release(lease)
    clock.advance(40)
    assert await UnansweredTasks(api.rooms.tasks, 60).fail_all() == 0
    await api.finish()
    assert await api.status(environment) == "ready"


async def test_one_service_looks_and_the_next_one_later(api: Api, clock: ManualClock) -> None:
    """Several services share the rounds; each is a quarter of the time after the last."""
    environment = await submitted(api, "e")
    clock.advance(100)
    first = await UnansweredTasks(api.rooms.tasks, 60).worker("one")
    second = await UnansweredTasks(api.rooms.tasks, 60).worker("two")
    assert await first.once()
    assert not await second.once()
    assert await api.status(environment) == "deploy failure"
    clock.advance(16)
    assert await second.once()


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_a_time_out_that_is_cancelled_keeps_no_deployment_from_an_engine(
    api: Api, clock: ManualClock, again: bool
) -> None:
    """A service that stops while it fails a deployment has failed it, or an engine can take it at once."""
    environment = await submitted(api, "e")
    failing = UnansweredTasks(api.rooms.tasks, 60)
    failed: list[bool] = []
    clock.advance(100)
    async for _ in interruptions(failing.fail_all, again=again):
        failed.append(await api.status(environment) == "deploy failure")
        if not failed[-1]:
            lease, _task = await api.take()
            assert lease.attempt == 1
            await api.rooms.tasks.queue.unclaim(lease)
        else:
            await api.deploy(environment, await api.session(environment))
            clock.advance(100)
    assert failed[-1]
