"""Deployments, reports, actions, failures and deletion; the engine's side is played by the test."""

import asyncio
import json
from typing import Any

import pytest

from vetro.environments import TaskResult
from vetro.storage import LeaseLost

Api = Any  # the fixture of conftest.py


async def deployed(api: Api, name: str = "e") -> tuple[str, dict[str, Any]]:
    """An environment with one deployed application that offers an action."""
    environment, session = await api.opened(name)
    service = await api.add(environment, session, name="web")
    await api.deploy(environment, session)
    lease, task = await api.take()
    objects = task.model["Objects"]
    application = objects["applications"][0]
    application["?"]["_actions"] = {
        "act": {"name": "restart", "title": "Restart", "enabled": True},
        "off": {"name": "off", "title": "Off", "enabled": False},
    }
    model = {**task.model, "Objects": objects, "ObjectsCopy": objects}
    await api.rooms.tasks.finish_task(lease, TaskResult(model))
    return environment, service


async def test_a_deployment_runs_from_submission_to_the_next_version(api: Api) -> None:
    """The engine gets the task; reports, final state, new model and version are stored."""
    environment, session = await api.opened()
    service = await api.add(environment, session, name="web", password="secret")
    await api.deploy(environment, session)
    assert await api.status(environment) == "deploying"
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert shown["acquired_by"] == session
    lease, task = await api.take()
    assert task.action == {"object_id": environment, "method": "deploy", "args": {}}
    assert task.model["Objects"]["applications"][0]["password"] == "secret"
    assert task.model["Objects"]["?"]["id"] == environment
    await api.rooms.tasks.reports.add(task.id, service["?"]["id"], "info", "Installing")
    listed = (await api.call("GET", f"/environments/{environment}/deployments")).json()
    deployment = listed["deployments"][0]
    assert (deployment["state"], deployment["finished"]) == ("running", None)
    assert deployment["description"]["services"][0]["password"] == "*** SANITIZED ***"
    objects = {**task.model["Objects"], "done": True}
    await api.rooms.tasks.finish_task(
        lease, TaskResult({**task.model, "Objects": objects, "ObjectsCopy": objects}, 5)
    )
    assert await api.status(environment) == "ready"
    path = f"/environments/{environment}/deployments/{task.id}"
    texts = [one["text"] for one in (await api.call("GET", path)).json()["reports"]]
    assert texts == ["Action deploy is scheduled", "Installing", "Deployment finished"]
    some = (await api.call("GET", f"{path}?service_id={service['?']['id']}")).json()["reports"]
    assert [one["text"] for one in some] == ["Installing"]
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert (shown["version"], shown["services"][0]["name"]) == (1, "web")
    done = (await api.call("GET", f"/environments/{environment}/deployments")).json()["deployments"]
    assert (done[0]["state"], done[0]["result"]) == ("success", {"result": 5, "isException": False})
    status = (await api.call("GET", f"/environments/{environment}/lastStatus")).json()
    assert status["lastStatuses"][service["?"]["id"]]["text"] == "Installing"


async def test_reports_are_bounded_in_size_and_number(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long texts are cut in the middle; of too many, only the first of each level are kept."""
    monkeypatch.setattr("vetro.environments.task_reports.MOST_REPORTS", 4)
    environment, lease, task = await api.taken()
    long = "a" + "x" * 200_000 + "z"
    await api.rooms.tasks.reports.add(task.id, None, "info", long, long)
    for number in range(9):
        await api.rooms.tasks.reports.add(task.id, None, "info", f"n{number}")
    await api.rooms.tasks.reports.add(task.id, None, "error", "broke")
    await api.rooms.tasks.reports.add(task.id, None, "error", "again")
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    path = f"/environments/{environment}/deployments/{task.id}"
    reports = (await api.call("GET", path)).json()["reports"]
    for text in (reports[1]["text"], reports[1]["details"]):
        assert (text[0], text[-1]) == ("a", "z")
        assert len(text) <= 64 * 1024
    assert [one["text"] for one in reports[2:]] == [
        "n0",
        "n1",
        "There are more than 4 reports; the rest is not kept",
        "n2",
        "broke",
        "Deployment finished with errors",
    ]
    assert await api.status(environment) == "deploy failure"


async def test_an_error_report_fails_the_deployment(api: Api) -> None:
    """The status stays a failure until a later deployment succeeds; changes are possible."""
    environment, session = await api.submitted()
    lease, task = await api.take()
    await api.rooms.tasks.reports.add(task.id, None, "error", "Broke", "trace")
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model, {"message": "m"}, True))
    assert await api.status(environment) == "deploy failure"
    session = await api.session(environment)
    assert await api.status(environment) == "deploy failure"
    await api.deploy(environment, session)
    await api.finish()
    assert await api.status(environment) == "ready"


async def test_a_dead_engine_ends_as_a_failed_deployment(api: Api) -> None:
    """``fail_task`` gives the reason; the environment can be deployed and destroyed again."""
    environment, lease, task = await api.taken(name="web")
    await api.rooms.tasks.fail_task(lease, "The engine worker was killed by signal 9")
    assert await api.status(environment) == "deploy failure"
    path = f"/environments/{environment}/deployments/{task.id}"
    texts = [one["text"] for one in (await api.call("GET", path)).json()["reports"]]
    assert texts[-2:] == [
        "The engine worker was killed by signal 9",
        "Deployment finished with errors",
    ]
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert shown["services"][0]["name"] == "web"
    # Something may have been built: deletion goes to the engine.
    assert (await api.call("DELETE", f"/environments/{environment}")).status == 200
    _, task = await api.take()
    assert task.is_delete
    assert task.model["ObjectsCopy"] is not None


async def test_a_result_is_taken_once(api: Api) -> None:
    """The second result for the same lease is refused and changes nothing."""
    environment, lease, task = await api.taken()
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    with pytest.raises(LeaseLost):
        await api.rooms.tasks.fail_task(lease, "late")
    assert await api.status(environment) == "ready"


async def test_an_environment_that_was_never_deployed_is_removed_at_once(api: Api) -> None:
    """Deletion without built resources needs no engine."""
    environment = await api.environment()
    answer = await api.call("DELETE", f"/environments/{environment}")
    assert (answer.status, answer.content) == (200, b"")
    assert (await api.call("GET", f"/environments/{environment}")).status == 404


async def test_a_deployed_environment_is_deleted_by_the_engine(api: Api) -> None:
    """The engine gets null objects; success removes the environment, failure keeps it."""
    environment, _ = await deployed(api)
    await api.call("DELETE", f"/environments/{environment}")
    assert await api.status(environment) == "deleting"
    assert (await api.call("DELETE", f"/environments/{environment}")).status == 403
    lease, task = await api.take()
    assert (task.is_delete, task.action) == (True, None)
    await api.rooms.tasks.reports.add(task.id, None, "error", "cannot")
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model, {"message": "m"}, True))
    assert await api.status(environment) == "delete failure"
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert shown["services"][0]["name"] == "web"
    await api.call("DELETE", f"/environments/{environment}")
    await api.finish(Objects=None, ObjectsCopy=None)
    assert (await api.call("GET", f"/environments/{environment}")).status == 404


async def test_abandoning_forgets_whatever_the_state(api: Api) -> None:
    """The rows are removed at once; the engine's late result is dropped."""
    environment, lease, task = await api.taken()
    path = f"/environments/{environment}?abandon=True"
    assert (await api.call("DELETE", path)).status == 200
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    assert (await api.call("GET", f"/environments/{environment}")).status == 404


async def test_abandoning_withdraws_what_no_engine_began(api: Api) -> None:
    """A waiting deployment of an abandoned environment is not run."""
    environment = await api.environment()
    await api.deploy(environment, await api.session(environment))
    assert (await api.call("DELETE", f"/environments/{environment}?abandon=true")).status == 200
    assert await api.rooms.tasks.claim("engine", 60) is None


async def test_actions_are_called_and_return_their_result(api: Api) -> None:
    """An action is a task; its result is empty while it runs."""
    environment, service = await deployed(api)
    base = f"/environments/{environment}/actions"
    task_id = (await api.call("POST", f"{base}/act", {"hard": True})).json()["task_id"]
    assert (await api.call("GET", f"{base}/{task_id}")).json() == {}
    lease, task = await api.take()
    assert task.action == {
        "object_id": service["?"]["id"],
        "method": "restart",
        "args": {"hard": True},
    }
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model, {"restarted": 1}))
    result = (await api.call("GET", f"{base}/{task_id}")).json()
    assert result == {"result": {"restarted": 1}, "isException": False}


async def test_arguments_are_checked_before_anything_is_deployed(api: Api) -> None:
    """Arguments that the model does not allow are refused without a deployment or a session."""
    environment, _ = await deployed(api)
    session = await api.session(environment)
    await api.deploy(environment, session)
    lease, task = await api.take()
    actions = task.model["Objects"]["applications"][0]["?"]["_actions"]
    actions["act"]["arguments"] = {"port": {"type": "integer"}, "hard": {"default": False}}
    actions["none"] = {"name": "none", "enabled": True, "arguments": {}}
    await api.rooms.tasks.finish_task(lease, TaskResult({**task.model, "ObjectsCopy": {}}))
    base = f"/environments/{environment}/actions"
    for path, body, said in (
        ("act", {}, "restart(port, hard): port is required"),
        ("act", {"port": "abc"}, "port must be a whole number, not 'abc'"),
        ("act", {"port": 1, "prot": 2}, "there is no argument prot; did you mean port?"),
        ("none", {"a": 1}, "there is no argument a"),
    ):
        answer = await api.call("POST", f"{base}/{path}", body)
        assert answer.status == 400
        assert said in answer.json()["error"]["message"]
    assert await api.status(environment) == "ready"
    assert await api.rooms.tasks.claim("engine", 60) is None
    assert (await api.call("POST", f"{base}/act", {"port": "80"})).status == 200


async def test_a_failed_lookup_of_an_action_leaves_no_session(api: Api) -> None:
    """Unknown, disabled and malformed calls are refused and the environment stays ready."""
    environment, _ = await deployed(api)
    base = f"/environments/{environment}/actions"
    assert (await api.call("POST", f"{base}/none", {})).status == 404
    assert (await api.call("POST", f"{base}/off", {})).status == 400
    assert (await api.call("POST", f"{base}/act", [1])).status == 400
    assert (await api.call("GET", f"{base}/none")).status == 404
    assert await api.status(environment) == "ready"


async def test_events_stream_reports_and_the_end(api: Api) -> None:
    """A listener gets past and new reports and the end, and can resume in the middle."""
    environment, lease, task = await api.taken()
    path = f"/environments/{environment}/deployments/{task.id}/events"
    stream = asyncio.create_task(api.call("GET", path))
    await api.rooms.tasks.reports.add(task.id, None, "info", "One")
    await api.rooms.tasks.reports.add(task.id, None, "warning", "Two")
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    text = (await stream).text
    data = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    texts = [one["text"] for one in data if "text" in one]
    assert texts == [
        "Action deploy is scheduled",
        "One",
        "Two",
        "Deployment finished with warnings",
    ]
    assert data[-1] == {"state": "completed_w_warnings", "outcome": "warnings"}
    answer = await api.http.request(
        "GET", f"/v1{path}", headers={"X-Auth-Token": "ann", "Last-Event-ID": "3"}
    )
    assert "One" not in answer.text
    assert "Deployment finished with warnings" in answer.text


async def test_statistics_count_what_is_tracked(api: Api) -> None:
    """Tracked instances are active until they are untracked."""
    environment = await api.environment()
    await api.rooms.tasks.instances.track(
        environment,
        {
            "instance_id": "i",
            "instance_type": 200,
            "type_name": "t",
            "type_title": "T",
            "unit_count": 1,
        },
    )
    path = f"/environments/{environment}/instance-statistics"
    assert (await api.call("GET", f"{path}/raw")).json()[0]["active"] is True
    await api.rooms.tasks.instances.untrack(environment, "i")
    assert (await api.call("GET", f"{path}/raw/i")).json()[0]["active"] is False
    assert (await api.call("GET", f"{path}/aggregated")).json()[0]["count"] == 1


async def test_a_running_deployment_says_what_it_waits_on(api: Api) -> None:
    """The deployment shows it while it runs, and an event reports it; afterwards it is empty."""
    environment, lease, task = await api.taken()
    path = f"/environments/{environment}/deployments"
    await api.rooms.tasks.reports.say_waiting(task.id, "the agent of web")
    (shown,) = (await api.call("GET", path, fields="all")).json()["deployments"]
    assert shown["waiting_on"] == "the agent of web"
    await api.rooms.tasks.reports.say_waiting(task.id, "")
    (shown,) = (await api.call("GET", path, fields="all")).json()["deployments"]
    assert shown["waiting_on"] is None
    await api.rooms.tasks.reports.say_waiting(task.id, "the image debian")
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model))
    await api.rooms.tasks.reports.say_waiting(task.id, "too late")
    (shown,) = (await api.call("GET", path, fields="all")).json()["deployments"]
    assert shown["waiting_on"] is None


async def test_a_waiting_deployment_is_cancelled_at_once(api: Api) -> None:
    """No engine gets it; the reason is a report, and the environment can be deployed again."""
    environment, _ = await api.submitted(name="web")
    (waiting,) = (await api.call("GET", f"/environments/{environment}/deployments")).json()[
        "deployments"
    ]
    path = f"/environments/{environment}/deployments/{waiting['id']}"
    answer = await api.call("POST", f"{path}/cancel", {"reason": "wrong image"})
    assert answer.status == 202
    assert (answer.json()["state"], answer.json()["finished"] is None) == (
        "completed_w_errors",
        False,
    )
    reports = (await api.call("GET", path)).json()["reports"]
    assert ("error", "Cancelled by ann: wrong image") in [
        (one["level"], one["text"]) for one in reports
    ]
    assert await api.status(environment) == "deploy failure"
    assert await api.rooms.tasks.claim("engine", 30) is None
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert shown["services"][0]["name"] == "web"
    await api.deploy(environment, await api.session(environment))
    await api.finish()
    assert await api.status(environment) == "ready"


async def test_a_running_deployment_is_told_to_end(api: Api) -> None:
    """Its engine gets the reason; asking again changes nothing; after the end it is a conflict."""
    environment, lease, task = await api.taken()
    path = f"/environments/{environment}/deployments/{task.id}"
    watching = asyncio.create_task(api.rooms.tasks.cancelled(task.id))
    for reason in ("first", "second"):
        answer = await api.call("POST", f"{path}/cancel", {"reason": reason})
        assert (answer.status, answer.json()["finished"]) == (202, None)
    assert await watching == "Cancelled by ann: first"
    texts = [one["text"] for one in (await api.call("GET", path)).json()["reports"]]
    assert texts.count("Cancellation requested: Cancelled by ann: first") == 1
    assert not any("second" in text for text in texts)
    assert await api.status(environment) == "deploying"
    await api.rooms.tasks.finish_task(lease, TaskResult(task.model, {"message": "m"}, True))
    assert (await api.call("POST", f"{path}/cancel")).status == 409


async def test_a_deletion_that_waits_can_be_cancelled(api: Api) -> None:
    """The environment stays with its applications, and can be deleted later."""
    environment, _ = await api.submitted(name="web")
    await api.finish()
    assert (await api.call("DELETE", f"/environments/{environment}")).status == 200
    newest = (await api.call("GET", f"/environments/{environment}/deployments")).json()
    path = f"/environments/{environment}/deployments/{newest['deployments'][0]['id']}"
    assert (await api.call("POST", f"{path}/cancel")).status == 202
    assert await api.status(environment) == "delete failure"
    shown = (await api.call("GET", f"/environments/{environment}")).json()
    assert shown["services"][0]["name"] == "web"
    assert (await api.call("DELETE", f"/environments/{environment}")).status == 200
    assert (await api.take())[1].is_delete


@pytest.mark.parametrize("body", [["x"], {"reason": 3}, {"reason": "x" * 501}])
async def test_a_cancellation_is_checked(api: Api, body: Any) -> None:
    """An invalid reason is refused, and users of another project may not cancel."""
    environment, _, task = await api.taken()
    path = f"/environments/{environment}/deployments/{task.id}/cancel"
    assert (await api.call("POST", path, body)).status == 400
    assert (await api.call("POST", path, user="eve")).status == 403
    assert (await api.call("POST", path.replace(task.id, "none"))).status == 404
