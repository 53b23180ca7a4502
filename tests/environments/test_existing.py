"""Telling which environments exist (catalog-api.md §11)."""

from datetime import timedelta
from typing import Any

import pytest

from vetro.environments import (
    Ending,
    Existing,
    ExistingEnvironments,
    TaskResult,
    listening_for_endings,
)
from vetro.environments import existing as existing_module
from vetro.storage import ManualClock

Api = Any  # the fixture of conftest.py


async def test_what_was_deployed_successfully_is_told_of(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a later deployment failed; never what was not deployed, failed or was removed."""
    monkeypatch.setattr(existing_module, "BATCH", 1)
    ids = {}
    for name in ("good", "other", "later failed", "failed", "new", "gone"):
        ids[name] = await api.environment(name)
    for name in ("good", "other", "later failed", "gone"):
        await api.deploy(ids[name], await api.session(ids[name]))
        await api.finish()
    for name in ("failed", "later failed"):
        await api.deploy(ids[name], await api.session(ids[name]))
        lease, task = await api.take()
        await api.rooms.tasks.reports.add(task.id, None, "error", "it broke")
        await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    await api.call("DELETE", f"/environments/{ids['gone']}?abandon=true")
    told: list[Existing] = []
    await ExistingEnvironments(api.database, told.append, 60).report_all()
    assert {one.environment for one in told} == {ids["good"], ids["other"], ids["later failed"]}
    assert len(told) == 3
    for one in told:
        path = f"/environments/{one.environment}/deployments"
        runs = (await api.call("GET", path)).json()["deployments"]
        assert one.deployment == runs[-1]["id"]
        assert one.created <= one.started <= one.finished
        assert (one.project, ids[one.name]) == ("p", one.environment)


async def test_one_service_tells_every_period(api: Api) -> None:
    """Whichever is there when the period is over; a restart tells nothing twice."""
    api.database.clock = ManualClock(api.database.clock.now())
    environment = await api.environment()
    await api.deploy(environment, await api.session(environment))
    await api.finish()
    told: list[Existing] = []
    first = await ExistingEnvironments(api.database, told.append, 30).worker("one")
    assert await first.once()
    second = await ExistingEnvironments(api.database, told.append, 30).worker("two")
    assert not await second.once()
    assert len(told) == 1
    api.database.clock.advance(timedelta(minutes=31).total_seconds())
    assert await second.once()
    assert not await first.once()
    assert len(told) == 2


async def test_an_ending_says_when_its_environment_was_created(api: Api) -> None:
    """Also that of a deployment that an abandoned environment took with it."""
    endings: list[Ending] = []
    with listening_for_endings(endings.append):
        for name in ("deployed", "abandoned"):
            environment = await api.environment(name)
            await api.deploy(environment, await api.session(environment))
            if name == "deployed":
                await api.finish()
            else:
                await api.call("DELETE", f"/environments/{environment}?abandon=true")
    assert [one.outcome for one in endings] == ["success", "abandoned"]
    assert all(one.identity.created is not None for one in endings)
