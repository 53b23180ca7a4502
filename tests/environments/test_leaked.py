"""Objects that could not be destroyed: listed until somebody has looked after them."""

from typing import Any

import pytest

from vetro.environments import LeakedObject, TaskResult, leaked

Api = Any  # the fixture of conftest.py


def leak(id_: str, error: str = "the volume is busy") -> LeakedObject:
    return LeakedObject(id_, "org.Disk", f"disk {id_}", error)


async def ended(api: Api, environment: str, *leaks: LeakedObject, **changes: Any) -> str:
    """Deploy, and end as an engine that could not destroy these; the task's id."""
    await api.deploy(environment, await api.session(environment))
    lease, task = await api.take()
    model = {**task.model, "ObjectsCopy": task.model["Objects"], **changes}
    await api.rooms.tasks.finish_task(lease, TaskResult(model, leaked=leaks))
    return task.id


async def listed(api: Api, environment: str) -> list[tuple[str, str]]:
    """Ids and errors."""
    answer = await api.call("GET", f"/environments/{environment}/leaked")
    return [(one["id"], one["error"]) for one in answer.json()["leaked"]]


async def test_what_could_not_be_destroyed_is_listed_until_it_is_dismissed(api: Api) -> None:
    """Later deployments keep it; a second failure of one replaces its error."""
    environment = await api.environment()
    assert await listed(api, environment) == []
    first = await ended(api, environment, leak("a"), leak("b"))
    path = f"/environments/{environment}/leaked"
    row = (await api.call("GET", path)).json()["leaked"][0]
    assert row.pop("created")
    assert row == {
        "id": "a",
        "type": "org.Disk",
        "name": "disk a",
        "error": "the volume is busy",
        "deployment_id": first,
    }
    await ended(api, environment)
    assert len(await listed(api, environment)) == 2
    await ended(api, environment, leak("a", "it is attached"))
    assert sorted(await listed(api, environment)) == [
        ("a", "it is attached"),
        ("b", "the volume is busy"),
    ]
    assert (await api.call("DELETE", f"{path}/b")).status == 200
    assert await listed(api, environment) == [("a", "it is attached")]
    refused = await api.call("DELETE", f"{path}/b")
    assert refused.status == 404
    assert "lists no leaked object b" in refused.text


async def test_what_the_model_still_has_is_not_leaked(api: Api) -> None:
    """It is destroyed again: an object of the model, or of the copy that the next task compares with."""
    environment = await api.environment()
    await ended(api, environment, leak("a"), leak("b"))
    again = {"?": {"id": "a", "type": "org.Disk"}}
    stub = {"?": {"id": "b", "type": "org.Disk", "destroyed": True}}
    await ended(api, environment, leak("c"), ObjectsCopy={"x": again, "y": stub})
    assert [id_ for id_, _ in await listed(api, environment)] == ["b", "c"]


async def test_leaked_objects_are_the_projects_own(api: Api) -> None:
    """Others neither see nor dismiss them; they go with their environment."""
    environment = await api.environment()
    await ended(api, environment, leak("a"))
    path = f"/environments/{environment}/leaked"
    assert (await api.call("GET", path, user="eve")).status == 403
    assert (await api.call("DELETE", f"{path}/a", user="eve")).status == 403
    assert len(await listed(api, environment)) == 1
    assert (await api.call("DELETE", f"/environments/{environment}?abandon=true")).status == 200
    assert (await api.call("GET", path)).status == 404


async def test_the_newest_leaked_objects_are_kept(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application that leaks with each deployment does not fill the database."""
    monkeypatch.setattr(leaked, "MOST", 3)
    environment = await api.environment()
    await ended(api, environment, leak("a"), leak("b"))
    await ended(api, environment, leak("c"), leak("d"))
    assert [id_ for id_, _ in await listed(api, environment)] == ["b", "c", "d"]
