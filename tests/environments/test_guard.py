"""What a request lets its deployment lose, and what a refusal leaves (api-guide.md, losses)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.environments.conftest import Api, Users

from vetro.catalog import Catalog
from vetro.environments import ApiSection, EngineTask, TaskResult, environments_face
from vetro.http import assemble
from vetro.http.client import HttpClient

REQUESTS: list[tuple[str, bool, list[str] | None]] = [
    ("", False, None),
    ("?mayLose=", False, []),
    ("?mayLose=machine%20a", False, ["machine a"]),
    ("?mayLose=machine%20a&mayLose=&mayLose=address%20b", False, ["machine a", "address b"]),
    ("?pending=refuse&mayLose=", False, []),
    ("?maylose=", False, None),
    ("", True, []),
    ("?mayLose=machine%20a", True, ["machine a"]),
    ("?mayLose=*", False, None),
    ("?mayLose=machine%20a&mayLose=*", True, None),
    ("?mayLose=machine%20*", True, ["machine *"]),
]
LOSS = {"key": "machine a", "text": "replaces machine a, its data is lost"}


async def strict(api: Api, directory: Path) -> Any:
    """The same API with the setting that guards every request."""
    return assemble(
        [
            environments_face(
                Catalog(api.database, directory / "packages"),
                api.rooms.tasks,
                Users(),
                api=ApiSection(guard_deployments=True),
            )
        ]
    )


@pytest.mark.parametrize("dialect", ["/v1", ""])
@pytest.mark.parametrize(("query", "always", "wanted"), REQUESTS)
async def test_what_may_be_lost_goes_from_the_request_to_the_engine(
    api: Api, tmp_path: Path, dialect: str, query: str, always: bool, wanted: list[str] | None
) -> None:
    """Without the field anything, as the original API has it, unless the setting guards all requests."""
    environment, session = await api.configured()
    path = f"{dialect}/environments/{environment}/sessions/{session}/deploy{query}"
    headers = {"X-Auth-Token": "ann"}
    if always:
        face = await strict(api, tmp_path)
        async with face.running(), HttpClient(app=face, base_url="http://test") as http:
            answer = await http.request("POST", path, headers=headers)
    else:
        answer = await api.http.request("POST", path, headers=headers)
    assert answer.status == 200, answer.text
    assert (await api.take())[1].may_lose == wanted


async def acted(api: Api, name: str = "act") -> tuple[str, str]:
    """An environment whose application has an action; its id and the action's."""
    environment, _ = await api.submitted()
    lease, task = await api.take()
    objects = task.model["Objects"]
    objects["applications"][0]["?"]["_actions"] = {"act": {"name": name, "enabled": True}}
    model = {**task.model, "Objects": objects, "ObjectsCopy": objects}
    await api.rooms.tasks.finish_task(lease, TaskResult(model))
    return environment, f"/environments/{environment}/actions/act"


async def test_an_action_lets_go_what_its_request_names(api: Api) -> None:
    """In the same way."""
    _, path = await acted(api)
    assert (await api.call("POST", path + "?mayLose=machine%20a", {})).status == 200
    assert (await api.take())[1].may_lose == ["machine a"]


async def test_destroying_an_environment_is_never_guarded(api: Api) -> None:
    """Neither by DELETE, nor by a session that has no objects any more."""
    environment, _ = await acted(api)
    assert (await api.call("DELETE", f"/environments/{environment}?mayLose=")).status == 200
    assert (await api.take())[1].may_lose is None


async def refused(api: Api, *, untouched: bool = False, halfway: bool = False) -> EngineTask:
    """Be an engine: refuse the waiting task."""
    lease, task = await api.take()
    result = {"message": "Nothing was changed", "details": None, "losses": [LOSS]}
    await api.rooms.tasks.reports.add(task.id, None, "error", "Nothing was changed")
    made = TaskResult(task.model, result, is_exception=True, untouched=untouched, halfway=halfway)
    await api.rooms.tasks.finish_task(lease, made)
    return task


async def test_a_refused_session_waits_with_its_changes_and_is_sent_again(api: Api) -> None:
    """The environment is as before; other sessions are as valid as before."""
    environment, _ = await acted(api)
    path = f"/environments/{environment}"
    before = (await api.call("GET", f"{path}/model/")).json()
    session, other = await api.session(environment), await api.session(environment)
    await api.add(environment, session, name="second")
    await api.deploy(environment, session)
    await refused(api, untouched=True)
    assert (await api.call("GET", f"{path}/model/")).json() == before
    assert await api.status(environment) == "pending"
    shown = (await api.call("GET", f"{path}/sessions/{session}")).json()
    assert shown["state"] == "opened"
    assert (await api.call("GET", f"{path}/sessions/{other}")).status == 200
    (newest, *_) = (await api.call("GET", f"{path}/deployments")).json()["deployments"]
    assert (newest["state"], newest["result"]["result"]["losses"]) == ("completed_w_errors", [LOSS])
    await api.deploy(environment, session)
    task = await api.finish()
    assert [one.get("name") for one in task.model["Objects"]["applications"]] == [None, "second"]
    assert await api.status(environment) == "ready"


async def test_a_refused_session_can_be_dropped(api: Api) -> None:
    """Then nothing is left of it."""
    environment, _ = await acted(api)
    path = f"/environments/{environment}"
    session = await api.session(environment)
    await api.add(environment, session, name="second")
    await api.deploy(environment, session)
    await refused(api, untouched=True)
    assert (await api.call("DELETE", f"{path}/sessions/{session}")).status == 200
    assert await api.status(environment) == "ready"
    assert len((await api.call("GET", f"{path}/services")).json()) == 1


@pytest.mark.parametrize("way", ["sent again", "dropped", "restored"])
async def test_a_session_that_was_refused_halfway_waits_as_well(api: Api, way: str) -> None:
    """The environment has failed until a deployment succeeds, with the changes or without them."""
    environment, _ = await acted(api)
    path = f"/environments/{environment}"
    before = (await api.call("GET", f"{path}/services")).json()
    session = await api.session(environment)
    await api.add(environment, session, name="second")
    await api.deploy(environment, session)
    await refused(api, halfway=True)
    assert len((await api.call("GET", f"{path}/services")).json()) == 1
    (held,) = (await api.call("GET", f"{path}/sessions")).json()["sessions"]
    assert (held["id"], held["overtaken"]) == (session, False)
    assert held["summary"] == "added second (org.App)"
    assert await api.status(environment) == "deploy failure"
    if way != "sent again":
        assert (await api.call("DELETE", f"{path}/sessions/{session}")).status == 200
        assert await api.status(environment) == "deploy failure"
        session = await api.session(environment)
    if way == "restored":
        *_, first = (await api.call("GET", f"{path}/deployments")).json()["deployments"]
        answer = await api.call("POST", f"{path}/deployments/{first['id']}/restore")
        session = answer.json()["id"]
    await api.deploy(environment, session)
    task = await api.finish()
    assert task.model["ObjectsCopy"]["applications"][-1]["name"] == "second"
    assert await api.status(environment) == "ready"
    names = [one.get("name") for one in (await api.call("GET", f"{path}/services")).json()]
    wanted = [one.get("name") for one in before]
    assert names == ([*wanted, "second"] if way == "sent again" else wanted)


@pytest.mark.parametrize("name", ["act", "deploy"])
async def test_a_refused_action_leaves_no_session(api: Api, name: str) -> None:
    """The environment is ready, as before; the result says what would be lost. An application's own action
    may be called as a deployment is.
    """
    environment, path = await acted(api, name)
    task = (await api.call("POST", path + "?mayLose=", {})).json()["task_id"]
    assert not (await refused(api, untouched=True)).is_deployment
    assert (await api.call("GET", f"/environments/{environment}/sessions")).json() == {
        "sessions": []
    }
    assert await api.status(environment) == "ready"
    result = (await api.call("GET", f"/environments/{environment}/actions/{task}")).json()
    assert (result["isException"], result["result"]["losses"]) == (True, [LOSS])


async def test_the_stream_of_a_refused_deployment_ends_with_its_losses(api: Api) -> None:
    """Who follows it needs no further request to ask."""
    environment, session = await api.configured()
    await api.deploy(environment, session)
    await refused(api, untouched=False)
    (one,) = (await api.call("GET", f"/environments/{environment}/deployments")).json()[
        "deployments"
    ]
    path = f"/environments/{environment}/deployments/{one['id']}/events"
    lines = (await api.call("GET", path)).text.splitlines()
    end = json.loads(lines[lines.index("event: end") + 1].removeprefix("data: "))
    assert end == {"state": "completed_w_errors", "outcome": "failed", "losses": [LOSS]}
    assert await api.status(environment) == "deploy failure"
