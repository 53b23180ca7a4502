"""The applications of an earlier deployment (docs/api-guide.md)."""

from typing import Any

from vetro.environments import TaskResult

Api = Any  # the fixture of conftest.py


async def test_a_session_has_the_applications_of_an_earlier_deployment(api: Api) -> None:
    """The rest of the model is as it is now, and other sessions stay; who may not see it gets nothing."""
    environment, session = await api.opened()
    web = await api.add(environment, session, name="web", port=80)
    await api.add(environment, session, name="db", password="first")
    await api.deploy(environment, session)
    first = await api.finish()
    session = await api.session(environment)
    base = f"/environments/{environment}"
    assert (await api.call("DELETE", f"{base}/services/1", session=session)).status == 200
    patched = f"{base}/services/{web['?']['id']}/port"
    assert (await api.call("PUT", patched, 81, session=session)).status == 200
    await api.deploy(environment, session)
    lease, task = await api.take()
    task.model["Objects"]["applications"][0]["url"] = "http://written"
    made = {**task.model, "ObjectsCopy": task.model["Objects"]}
    made["Attributes"] = [["x", "c", "kept", 1]]
    await api.rooms.tasks.finish_task(lease, TaskResult(made))
    path = f"{base}/deployments/{first.id}/restore"
    assert (await api.call("POST", path, user="eve")).status == 403
    answer = await api.call("POST", path)
    assert answer.status == 200, answer.text
    restored = answer.json()["id"]
    rows = (await api.call("GET", f"{base}/services", session=restored)).json()
    assert [(one["name"], one.get("port"), one.get("password")) for one in rows] == [
        ("web", 80, None),
        ("db", None, "first"),
    ]
    (held,) = (await api.call("GET", f"{base}/sessions")).json()["sessions"]
    assert (held["id"], held["summary"]) == (restored, "changed web: port; added db (org.App)")
    assert rows[0]["url"] == "http://written"
    await api.deploy(environment, restored)
    assert (await api.finish()).model["Attributes"] == [["x", "c", "kept", 1]]


async def test_what_is_not_kept_cannot_be_restored(api: Api) -> None:
    """Unknown deployments, those of other environments, and those whose session was deleted."""
    environment, session = await api.configured()
    await api.deploy(environment, session)
    task = await api.finish()
    base = f"/environments/{environment}/deployments"
    assert (await api.call("POST", f"{base}/nope/restore")).status == 404
    other = await api.environment("other")
    path = f"/environments/{other}/deployments/{task.id}/restore"
    assert (await api.call("POST", path)).status == 400
    gone = f"/environments/{environment}/sessions/{session}"
    assert (await api.call("DELETE", gone)).status == 200
    answer = await api.call("POST", f"{base}/{task.id}/restore")
    assert answer.status == 409
    assert "are not kept" in answer.text
