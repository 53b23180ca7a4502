"""What goes between the API and an engine (catalog-api.md §8): tasks, reports, instances, results."""

from dataclasses import fields
from typing import Any

import pytest
from sqlalchemy import text

from vetro.environments import EngineTask, TaskResult

Api = Any  # the fixture of conftest.py
APP = {"?": {"id": "a1", "type": "org.App"}, "name": "web"}


async def deployed(api: Api, user: str = "ann") -> tuple[str, EngineTask]:
    """An environment of ann with an application that was deployed once, and the task of that."""
    environment = await api.environment()
    session = await api.session(environment, user=user)
    path = f"/environments/{environment}"
    added = await api.call("POST", f"{path}/services", APP, session=session, user=user)
    assert added.status == 200
    assert (await api.call("POST", f"{path}/sessions/{session}/deploy", user=user)).status == 200
    return environment, await api.finish()


async def test_a_task_has_the_model_in_the_engines_form(api: Api) -> None:
    """``services`` are ``applications``; the root has the environment's id; nothing else is added."""
    environment, task = await deployed(api)
    assert task.action == {"object_id": environment, "method": "deploy", "args": {}}
    assert set(task.model) == {"Objects", "Attributes", "project_id", "user_id"}
    assert task.model["Attributes"] == []
    objects = task.model["Objects"]
    assert objects["?"]["id"] == environment
    assert objects["applications"] == [APP]
    assert "services" not in objects
    assert (task.environment_id, task.model_kind) == (environment, "muranopl")
    assert "token" not in {one.name for one in fields(task)}


async def test_a_task_says_who_asked_for_it_and_whose_environment_it_is(api: Api) -> None:
    """An administrator deploys for others: the model, and what is made of it, are its owner's."""
    _, task = await deployed(api, user="root")
    assert (task.model["project_id"], task.model["user_id"]) == ("p", "id-ann")
    assert (task.project_id, task.user_id) == ("p", "id-root")


async def test_what_an_engine_adds_to_a_model_comes_back_to_it(api: Api) -> None:
    """The copy stays in its form; attributes, fixed packages and actions are given to the next task."""
    environment = await api.environment()
    await api.deploy(environment, await api.session(environment))
    lease, task = await api.take()
    actions = {f"{environment}_deploy": {"name": "deploy", "enabled": True, "title": "Deploy"}}
    objects = {**task.model["Objects"], "applications": [APP]}
    objects["?"] = {**objects["?"], "_actions": actions}
    attributes = [["a1", "org.App", "counter", 3]]
    model = {
        **task.model,
        "Objects": objects,
        "ObjectsCopy": objects,
        "Attributes": attributes,
        "SystemData": {"Packages": [{"Name": "org.app", "Version": "1.2.0"}]},
    }
    await api.rooms.tasks.finish_task(lease, TaskResult(model, result=[1]))
    shown = (await api.call("GET", f"/environments/{environment}/model/")).json()
    assert [one["?"]["id"] for one in shown["services"]] == ["a1"]
    assert "applications" not in shown
    called = await api.call("POST", f"/environments/{environment}/actions/{environment}_deploy", {})
    assert called.status == 200, called.text
    _, again = await api.take()
    assert again.id == called.json()["task_id"]
    assert again.action == {"object_id": environment, "method": "deploy", "args": {}}
    assert again.model["ObjectsCopy"]["applications"] == [APP]
    assert again.model["Attributes"] == attributes
    assert again.model["SystemData"] == model["SystemData"]


async def test_a_deletion_is_a_task_without_action_and_objects(api: Api) -> None:
    """What was deployed is in the copy; reports are of the deletion."""
    environment, task = await deployed(api)
    assert (await api.call("DELETE", f"/environments/{environment}")).status == 200
    assert await api.status(environment) == "deleting"
    lease, deletion = await api.take()
    assert (deletion.action, deletion.is_delete) == (None, True)
    assert deletion.model["Objects"] is None
    assert deletion.model["ObjectsCopy"] == task.model["Objects"]
    path = f"/environments/{environment}/deployments"
    newest = (await api.call("GET", path)).json()["deployments"][0]
    assert (newest["action"], newest["description"]) == (None, {"services": []})
    await api.rooms.tasks.finish_task(lease, TaskResult({**deletion.model, "ObjectsCopy": None}))
    assert (await api.call("GET", f"/environments/{environment}")).status == 404


async def test_a_deletion_that_leaves_something_ends_as_deployed(api: Api) -> None:
    """Without an error and with a copy that is left, the environment stays and is ready (§5.2)."""
    environment, _ = await deployed(api)
    await api.call("DELETE", f"/environments/{environment}")
    lease, deletion = await api.take()
    await api.rooms.tasks.finish_task(lease, TaskResult(deletion.model))
    assert await api.status(environment) == "ready"


async def test_a_report_belongs_to_the_task_that_made_it(api: Api) -> None:
    """Also one that comes late: not to the newest task of the environment."""
    environment, first = await deployed(api)
    await api.deploy(environment, await api.session(environment))
    _, second = await api.take()
    await api.rooms.tasks.reports.add(first.id, "a1", "info", "late", "why", entity="unit")
    path = f"/environments/{environment}/deployments"
    (*_, late) = (await api.call("GET", f"{path}/{first.id}")).json()["reports"]
    assert {**late, "id": "", "created": "", "updated": ""} == {
        "id": "", "task_id": first.id, "entity_id": "a1", "entity": "unit", "level": "info",
        "text": "late", "details": "why", "created": "", "updated": "",
    }  # fmt: skip
    texts = [
        one["text"] for one in (await api.call("GET", f"{path}/{second.id}")).json()["reports"]
    ]
    assert texts == ["Action deploy is scheduled"]


async def test_tracking_an_instance_again_changes_its_units_alone(api: Api) -> None:
    """One row for each instance of an environment; its end is recorded once; other rows stay."""
    environment, other = await api.environment(), await api.environment("other")
    instances = api.rooms.tasks.instances

    def values(**changes: Any) -> dict[str, Any]:
        return {"instance_id": "i", "instance_type": 200, "type_name": "org.App",
                "type_title": "App", "unit_count": 1, **changes}  # fmt: skip

    async def raw(of: str) -> list[tuple[Any, ...]]:
        path = f"/environments/{of}/instance-statistics/raw"
        names = ("instance_id", "type", "type_name", "type_title", "unit_count", "active")
        rows = (await api.call("GET", path)).json()
        return sorted(tuple(row[name] for name in names) for row in rows)

    for each in (environment, other):
        await instances.track(each, values())
    await instances.track(environment, values(instance_id="j", instance_type=0))
    await instances.track(environment, values(unit_count=3, type_title="Changed", type_name="x"))
    assert await raw(environment) == [
        ("i", 200, "org.App", "App", 3, True),
        ("j", 0, "org.App", "App", 1, True),
    ]
    assert await raw(other) == [("i", 200, "org.App", "App", 1, True)]
    for _ in range(2):
        await instances.untrack(environment, "i")
    assert [row[-1] for row in await raw(environment)] == [False, True]
    assert [row[-1] for row in await raw(other)] == [True]
    # Of an environment that is gone, nothing is kept.
    await api.call("DELETE", f"/environments/{other}?abandon=true")
    await instances.track(other, values())
    async with api.database.read() as tx:
        left = await tx.execute(text("SELECT count(*) FROM environments_instances"))
        assert left.scalar_one() == 2


@pytest.mark.parametrize(
    ("levels", "is_exception", "state", "last", "status"),
    [
        ((), False, "success", "Deployment finished", "ready"),
        (("warning",), False, "completed_w_warnings", "Deployment finished with warnings", "ready"),
        (("error",), False, "completed_w_errors", "Deployment finished with errors", "deploy failure"),
        (
            ("warning", "error"), False, "completed_w_errors",
            "Deployment finished with errors", "deploy failure",
        ),
        (("error",), True, "completed_w_errors", "Deployment finished with errors", "deploy failure"),
    ],
)  # fmt: skip
async def test_the_end_follows_from_reports_and_result(
    api: Api, levels: tuple[str, ...], is_exception: bool, state: str, last: str, status: str
) -> None:
    """The last report, the deployment's state, the session's and the environment's (§5.2, §5.5)."""
    environment, session = await api.opened()
    await api.deploy(environment, session)
    lease, task = await api.take()
    for level in levels:
        await api.rooms.tasks.reports.add(task.id, None, level, level)
    model = {**task.model, "ObjectsCopy": task.model["Objects"]}
    result = TaskResult(model, {"message": "no"}, is_exception=is_exception)
    await api.rooms.tasks.finish_task(lease, result)
    path = f"/environments/{environment}"
    (one,) = (await api.call("GET", f"{path}/deployments")).json()["deployments"]
    assert one["state"] == state
    reports = (await api.call("GET", f"{path}/deployments/{task.id}")).json()["reports"]
    assert (reports[-1]["text"], reports[-1]["level"]) == (last, "info")
    ended = (await api.call("GET", f"{path}/sessions/{session}")).json()["state"]
    assert ended == ("deployed" if status == "ready" else "deploy failure")
    assert await api.status(environment) == status
    assert (await api.call("GET", path)).json()["version"] == 1
