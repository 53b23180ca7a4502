"""Services whose clocks differ by minutes write the same environments (catalog-api.md §5)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from vetro.environments import TaskResult
from vetro.storage import ManualClock

Api = Any  # the fixture of conftest.py
MINUTES = 600.0


@pytest.fixture
async def elsewhere(api: Api) -> Callable[[float], None]:
    """Let what follows be done by a service whose clock is so many seconds ahead (or behind)."""
    here = ManualClock(api.database.clock.now())
    api.database.clock = here
    async with api.database.transaction() as tx:
        await api.database.steady.agree(tx, here)
    ahead = 0.0

    def move(seconds: float) -> None:
        nonlocal ahead
        here.jump(seconds - ahead)
        ahead = seconds

    return move


async def shown(api: Api, environment: str) -> set[str]:
    """The environment's status, by itself and in the list."""
    listed = (await api.call("GET", "/environments")).json()["environments"]
    (one,) = [each["status"] for each in listed if each["id"] == environment]
    return {one, await api.status(environment)}


@pytest.mark.parametrize("api_ahead", [MINUTES, -MINUTES])
async def test_sessions_of_before_a_deployment_no_longer_count(
    api: Api, elsewhere: Callable[[float], None], api_ahead: float
) -> None:
    """Whichever clock is ahead: that of the service with the sessions, or that of the engine."""
    environment, session = await api.configured()
    elsewhere(api_ahead)
    overtaken = await api.session(environment)
    await api.add(environment, overtaken)
    assert await shown(api, environment) == {"pending"}
    elsewhere(0)
    await api.deploy(environment, session)
    assert await shown(api, environment) == {"deploying"}
    await api.finish()
    assert await shown(api, environment) == {"ready"}
    path = f"/environments/{environment}/sessions/{overtaken}"
    assert (await api.call("GET", path)).status == 403
    await api.session(environment)
    assert await shown(api, environment) == {"pending"}


@pytest.mark.parametrize("later", [MINUTES, -MINUTES])
async def test_a_failure_stays_until_a_later_success(
    api: Api, elsewhere: Callable[[float], None], later: float
) -> None:
    """The status is that of the later deployment, also when its service's clock is behind."""
    environment = await api.environment()
    await api.deploy(environment, await api.session(environment))
    lease, task = await api.take()
    await api.rooms.tasks.fail_task(lease, "no")
    elsewhere(later)
    session = await api.session(environment)
    assert await shown(api, environment) == {"deploy failure"}
    await api.deploy(environment, session)
    newest = (await api.finish()).id
    assert await shown(api, environment) == {"ready"}
    listed = (await api.call("GET", f"/environments/{environment}/deployments")).json()
    assert [one["id"] for one in listed["deployments"]] == [newest, task.id]


@pytest.mark.parametrize("engine_ahead", [MINUTES, -MINUTES])
async def test_a_deployment_does_not_end_before_it_began(
    api: Api, elsewhere: Callable[[float], None], engine_ahead: float
) -> None:
    """Its times are in order, its reports too, and what it built has not existed for less than no time."""
    environment = await api.environment()
    await api.deploy(environment, await api.session(environment))
    elsewhere(engine_ahead)
    lease, task = await api.take()
    await api.rooms.tasks.reports.add(task.id, None, "info", "built")
    web = {"instance_id": "web", "instance_type": 200, "type_name": "t", "type_title": "T",
           "unit_count": 1}  # fmt: skip
    await api.rooms.tasks.instances.track(environment, web)
    elsewhere(-engine_ahead)
    model = {**task.model, "ObjectsCopy": task.model["Objects"]}
    await api.rooms.tasks.finish_task(lease, TaskResult(model))
    path = f"/environments/{environment}/deployments"
    (one,) = (await api.call("GET", path)).json()["deployments"]
    began, ended = (datetime.fromisoformat(one[name]) for name in ("started", "finished"))
    assert one["state"] == "success"
    assert began <= ended
    reports = (await api.call("GET", f"{path}/{task.id}")).json()["reports"]
    assert [report["text"] for report in reports] == [
        "Action deploy is scheduled",
        "built",
        "Deployment finished",
    ]
    (raw,) = (await api.call("GET", f"/environments/{environment}/instance-statistics/raw")).json()
    assert raw["duration"] >= 0
