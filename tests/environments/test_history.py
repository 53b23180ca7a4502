"""Deployments outlive their environment, for a time; old ones of living environments go too."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import func, insert, select, update

from vetro.engine.pool import CUT_OFF, ENDS_ENGINES, STOPPED
from vetro.environments import MIGRATIONS, HistoryPruning, HistorySection, TaskResult
from vetro.environments.lifecycle import Outcome
from vetro.environments.shapes import OUTCOMES
from vetro.environments.tables import statuses, tasks
from vetro.storage import Database, ManualClock, MigrationSet, migrate

Api = Any  # the fixture of conftest.py


@pytest.fixture
def clock(api: Api) -> ManualClock:
    """The clock of the database, which only the test moves."""
    api.database.clock = ManualClock(api.database.clock.now())
    return api.database.clock


async def deployed(api: Api, name: str = "e") -> str:
    """An environment with one application that was deployed; its id."""
    environment, session = await api.opened(name)
    service = await api.add(environment, session)
    await api.deploy(environment, session)
    lease, task = await api.take()
    await api.rooms.tasks.reports.add(task.id, service["?"]["id"], "warning", "it creaks")
    objects = task.model["Objects"]
    objects["applications"][0]["?"]["_actions"] = {
        "act": {"name": "restart", "title": "Restart", "enabled": True}
    }
    model = {**task.model, "Objects": objects, "ObjectsCopy": objects}
    await api.rooms.tasks.finish_task(lease, TaskResult(model))
    return environment


async def destroy(api: Api, environment: str) -> None:
    """Have it destroyed, by bob."""
    await api.call("DELETE", f"/environments/{environment}", user="bob")
    await api.finish(Objects=None, ObjectsCopy=None)
    assert (await api.call("GET", f"/environments/{environment}")).status == 404


async def rows(api: Api) -> tuple[int, int]:
    """How many deployments and reports there are."""
    async with api.database.read() as tx:
        many = (await tx.execute(select(func.count()).select_from(tasks))).scalar_one()
        reports = (await tx.execute(select(func.count()).select_from(statuses))).scalar_one()
    return many, reports


async def test_deployments_are_listed_as_they_were_begun(api: Api, clock: ManualClock) -> None:
    """The newest of an environment comes first, whatever the clocks of the services say."""
    environment = await deployed(api, "shop")
    clock.jump(-3600)
    await destroy(api, environment)
    path = f"/environments/{environment}/deployments"
    last, first = (await api.call("GET", path, fields="all")).json()["deployments"]
    assert (last["action"], first["action"]["method"]) == (None, "deploy")
    assert last["started"] < first["started"]
    page = (await api.call("GET", f"{path}?limit=1")).json()
    assert [one["id"] for one in page["deployments"]] == [last["id"]]
    rest = (await api.call("GET", f"{path}?limit=1&marker={last['id']}")).json()
    assert [one["id"] for one in rest["deployments"]] == [first["id"]]


async def test_a_listed_deployment_has_its_last_report(api: Api) -> None:
    """The beginning of its text, when and how severe; not for the stock clients, which do not know it."""
    environment, session = await api.opened()
    await api.deploy(environment, session)
    lease, task = await api.take()
    paths = ("/deployments", f"/environments/{environment}/deployments")
    for path in paths:
        (one,) = (await api.call("GET", path, fields="all")).json()["deployments"]
        assert one["last_report"]["text"] == "Action deploy is scheduled"
    await api.rooms.tasks.reports.add(task.id, None, "info", "it starts")
    await api.rooms.tasks.reports.add(task.id, None, "error", "it broke " + "x" * 300)
    for path in paths:
        (one,) = (await api.call("GET", path, fields="all")).json()["deployments"]
        assert one["last_report"]["text"] == "it broke " + "x" * 191
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    for path in paths:
        (one,) = (await api.call("GET", path, fields="all")).json()["deployments"]
        assert one["last_report"]["text"] == "Deployment finished with errors"
        assert one["last_report"]["created"].startswith("20")
        (stock,) = (await api.call("GET", path)).json()["deployments"]
        assert "last_report" not in stock


async def test_the_history_says_how_each_deployment_ended(api: Api) -> None:
    """Cancelled and interrupted ones are told from failed ones; those of an older version by their state."""
    environment = await api.environment()
    path = f"/environments/{environment}/deployments"
    engine = api.rooms.tasks

    async def begun() -> tuple[Any, Any]:
        await api.deploy(environment, await api.session(environment))
        return await api.take()

    await api.deploy(environment, await api.session(environment))
    (waiting,) = (await api.call("GET", path)).json()["deployments"]
    await api.call("POST", f"{path}/{waiting['id']}/cancel")
    lease, task = await begun()
    await api.call("POST", f"{path}/{task.id}/cancel")
    await engine.fail_task(lease, "Cancelled by ann")
    lease, task = await begun()
    await engine.fail_task(lease, "The service was killed", outcome="interrupted")
    lease, task = await begun()
    await engine.fail_task(lease, "The worker broke")
    lease, task = await begun()
    await engine.finish_task(lease, TaskResult(task.model))
    lease, task = await begun()
    await engine.reports.add(task.id, None, "warning", "it creaks")
    await engine.finish_task(lease, TaskResult(task.model))
    lease, task = await begun()
    ended = ["warnings", "success", "failed", "interrupted", "cancelled", "cancelled"]

    async def outcomes() -> list[str | None]:
        shown = (await api.call("GET", path, fields="all")).json()["deployments"]
        return [one["outcome"] for one in shown]

    assert await outcomes() == [None, *ended]
    await api.call("DELETE", f"/environments/{environment}?abandon=true")
    await engine.finish_task(lease, TaskResult(task.model))
    assert await outcomes() == ["abandoned", *ended]
    async with api.database.transaction() as tx:
        await tx.execute(update(tasks).values(outcome=None))
    assert get_args(Outcome) == OUTCOMES
    assert await outcomes() == ["failed", "warnings", "success", *["failed"] * 4]


async def test_history_of_a_destroyed_environment_can_be_read(api: Api) -> None:
    """User, action, time, reports and outcome can be read by its project only."""
    environment = await deployed(api, "shop")
    await destroy(api, environment)
    path = f"/environments/{environment}/deployments"
    for listing in (path, "/deployments"):
        last, first = (await api.call("GET", listing, fields="all")).json()["deployments"]
        assert (first["user_name"], first["action"]["method"]) == ("ann", "deploy")
        assert (last["user_name"], last["action"]) == ("bob", None)
        assert first["state"] == "completed_w_warnings"
        assert last["state"] == "success"
        assert first["environment_name"] == last["environment_name"] == "shop"
        assert first["environment_gone"] == last["environment_gone"] is not None
        assert last["finished"] is not None
    reports = (await api.call("GET", f"{path}/{first['id']}")).json()["reports"]
    assert "it creaks" in [one["text"] for one in reports]
    assert reports[-1]["text"] == "Deployment finished with warnings"
    last_words = (await api.call("GET", f"{path}/{last['id']}")).json()["reports"][-1]
    assert last_words["text"] == "Deletion finished"
    assert (await api.call("GET", path, user="eve")).status == 403
    assert (await api.call("GET", f"{path}/{first['id']}", user="eve")).status == 403
    assert (await api.call("GET", "/deployments", user="eve")).json()["deployments"] == []
    assert (await api.call("GET", path, user="root")).status == 200
    assert (await api.call("POST", f"{path}/{first['id']}/cancel")).status == 409


async def test_a_result_of_an_action_survives_its_environment(api: Api) -> None:
    """A user can fetch the result after the environment was removed."""
    environment = await deployed(api)
    answer = await api.call("POST", f"/environments/{environment}/actions/act", {"hard": True})
    task_id = answer.json()["task_id"]
    lease, task = await api.take()
    done = {**task.model, "ObjectsCopy": task.model["Objects"]}
    await api.rooms.tasks.finish_task(lease, TaskResult(done, {"restarted": 1}))
    await destroy(api, environment)
    found = await api.call("GET", f"/environments/{environment}/actions/{task_id}")
    assert found.json() == {"result": {"restarted": 1}, "isException": False}


async def test_the_stream_of_a_deletion_ends_with_its_success(api: Api) -> None:
    """A follower gets the last report, although the environment is removed by then."""
    environment = await deployed(api)
    await destroy(api, environment)
    path = f"/environments/{environment}/deployments"
    deletion = (await api.call("GET", path)).json()["deployments"][0]
    stream = (await api.call("GET", f"{path}/{deletion['id']}/events")).text
    assert "Deletion finished" in stream
    assert '"state":"success"' in stream.split("event: end")[1].replace(" ", "")


async def test_an_abandoned_environment_leaves_its_history(api: Api, clock: ManualClock) -> None:
    """Waiting tasks have ended, running ones end with their engine; none is revived."""
    running = await api.environment("running")
    await api.deploy(running, await api.session(running))
    lease, task = await api.take()
    waiting = await api.environment("waiting")
    await api.deploy(waiting, await api.session(waiting))
    for one in (running, waiting):
        await api.call("DELETE", f"/environments/{one}?abandon=true")
    of_waiting = (await api.call("GET", f"/environments/{waiting}/deployments")).json()
    assert of_waiting["deployments"][0]["finished"] is not None
    path = f"/environments/{running}/deployments"
    assert (await api.call("GET", path)).json()["deployments"][0]["finished"] is None
    clock.advance(timedelta(days=400).total_seconds())
    await HistoryPruning(api.database, HistorySection(days=30)).prune()
    assert (await api.call("GET", path)).json()["deployments"][0]["finished"] is None
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    assert (await api.call("GET", path)).json()["deployments"][0]["finished"] is not None
    assert (await api.call("GET", f"/environments/{running}")).status == 404


async def test_history_is_pruned_after_its_time(api: Api, clock: ManualClock) -> None:
    """Reports are pruned too; history of existing and recent environments stays; 0 days: all."""
    kept = await deployed(api, "kept")
    early = await deployed(api, "early")
    await destroy(api, early)
    clock.advance(timedelta(days=20).total_seconds())
    late = await deployed(api, "late")
    await destroy(api, late)
    clock.advance(timedelta(days=15).total_seconds())
    before = await rows(api)
    assert await HistoryPruning(api.database, HistorySection(days=0)).prune() == 0
    assert await rows(api) == before
    assert await HistoryPruning(api.database, HistorySection(days=30)).prune() == 2
    assert (await api.call("GET", f"/environments/{early}/deployments")).status == 404
    found = (await api.call("GET", "/deployments")).json()["deployments"]
    assert {one["environment_id"] for one in found} == {kept, late}
    async with api.database.read() as tx:
        alone = statuses.c.task_id.not_in(select(tasks.c.id))
        assert (await tx.execute(select(statuses).where(alone))).first() is None


async def test_a_living_environment_keeps_its_newest_deployments(api: Api) -> None:
    """The configured number is kept; an unfinished deployment is not removed."""
    environment = await deployed(api)
    for _ in range(3):
        await api.deploy(environment, await api.session(environment))
        await api.finish()
    await api.deploy(environment, await api.session(environment))
    path = f"/environments/{environment}/deployments"
    before = [one["id"] for one in (await api.call("GET", path)).json()["deployments"]]
    assert await HistoryPruning(api.database, HistorySection(deployments=2)).prune() == 3
    after = [one["id"] for one in (await api.call("GET", path)).json()["deployments"]]
    assert after == before[:2]


@pytest.mark.parametrize("planned", ["by nobody", "by another service"])
async def test_one_service_prunes_at_a_time(api: Api, clock: ManualClock, planned: str) -> None:
    """A turn is a lease; the next one is an hour later, in whichever service."""
    first = HistoryPruning(api.database, HistorySection(days=30))
    if planned == "by another service":
        async with api.database.transaction() as tx:
            await first.queue.enqueue(tx, "prune")
    assert await (await first.worker("one")).once()
    second = HistoryPruning(api.database, HistorySection(days=30))
    assert not await (await second.worker("two")).once()
    clock.advance(3601)
    assert await (await second.worker("two")).once()


async def test_deployments_that_older_versions_ended_say_how(
    database_url: str, tmp_path: Path
) -> None:
    """What their reports and cancellations tell becomes their outcome, at the upgrade."""
    before = MigrationSet(MIGRATIONS.room, tmp_path / "older")
    before.directory.mkdir()
    for file in sorted(MIGRATIONS.directory.glob("[0-9]*.py"))[:17]:
        shutil.copy(file, before.directory)
    ended: dict[str, tuple[str | None, str | None, str | None]] = {
        # The error that was reported, why it was cancelled, and the outcome.
        "killed": (CUT_OFF, None, "interrupted"),
        "stopped": (STOPPED, None, "interrupted"),
        "again": (ENDS_ENGINES, None, "interrupted"),
        "cancelled": ("Cancelled by ann", "too slow", "cancelled"),
        "late": (None, "too late", None),
        "failed": ("it said: " + CUT_OFF, None, None),
        "well": (None, None, None),
        "running": (CUT_OFF, None, None),
    }
    database = await Database.open(database_url)
    try:
        await migrate(database, [before])
        now = database.clock.now()
        async with database.transaction() as tx:
            for name, (error, cancelled, _) in ended.items():
                row: dict[str, Any] = {
                    "id": name, "environment_id": "e", "session_id": "s", "sequence": 1,
                    "action": None, "description": {}, "cancellation": cancelled, "started": now,
                    "finished": None if name == "running" else now, "created": now, "updated": now,
                }  # fmt: skip
                await tx.execute(insert(tasks).values(**row))
                if error is not None:
                    report = {"task_id": name, "sequence": 1, "id": name, "text": error}
                    report |= {"level": "error", "created": now}
                    await tx.execute(insert(statuses).values(**report))
        await migrate(database, [MIGRATIONS])
        async with database.read() as tx:
            found = await tx.execute(select(tasks.c.id, tasks.c.outcome))
            told: dict[str, str | None] = {row.id: row.outcome for row in found}
    finally:
        await database.close()
    assert told == {name: outcome for name, (_, _, outcome) in ended.items()}
