"""A component that others use is not taken out without a word (catalog-api.md §5.3)."""

import asyncio
from typing import Any

import pytest
from tests.environments.conftest import next_call

from vetro.environments import CallAnswer
from vetro.environments.component_users import dangling

Api = Any  # the fixture of conftest.py

PATCH = "application/env-model-json-patch"
LOST = "d0" * 16
SERVER = {"?": {"id": "srv", "type": "org.S"}}
DATABASE = {"?": {"id": LOST, "type": "org.Db", "name": "db"}, "server": SERVER}
BLOG = {
    "?": {"id": "blog", "type": "org.App", "name": "blog"},
    "uses": [{"database": LOST}],
    "note": "db",
}
SHOP = {"?": {"id": "shop", "type": "org.App", "name": "shop"}, "at": {"host": "srv"}}
LONELY = {"?": {"id": "lonely", "type": "org.App", "name": "lonely"}, "self": "lonely"}


async def built(api: Api, *services: Any) -> tuple[str, str]:
    """An environment whose session has the services."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    answer = await api.call("POST", path, list(services), session=session)
    assert answer.status == 200, answer.text
    return environment, session


@pytest.mark.parametrize(
    "way", ["delete", "delete all but", "put all", "put in its place", "patch"]
)
@pytest.mark.parametrize("asked", [True, False])
async def test_users_of_what_is_taken_out_are_named(api: Api, way: str, asked: bool) -> None:
    """``uses=refuse``: 409 with each user and the path of its reference, and nothing is changed. A request
    without it does as the original did."""
    environment, session = await built(api, DATABASE, BLOG, SHOP, LONELY)
    path = f"/environments/{environment}/services"
    query = "?uses=refuse" if asked else ""
    other = {"?": {"id": "new", "type": "org.Db"}}
    calls: dict[str, tuple[str, str, Any, dict[str, str]]] = {
        "delete": ("DELETE", f"{path}/{LOST}", None, {}),
        "delete all but": ("DELETE", f"{path}/0", None, {}),
        "put all": ("PUT", path, [BLOG, SHOP, LONELY], {}),
        "put in its place": ("PUT", f"{path}/{LOST}", other, {}),
        "patch": (
            "PATCH", f"/environments/{environment}/model/",
            [{"op": "remove", "path": f"/services/{LOST}"}], {"type": PATCH},
        ),
    }  # fmt: skip
    method, where, body, headers = calls[way]
    answer = await api.call(method, f"{where}{query}", body, session=session, **headers)
    ids = [one["?"]["id"] for one in (await api.call("GET", path, session=session)).json()]
    if not asked:
        assert answer.status == 200, answer.text
        assert LOST not in ids
        return
    assert answer.status == 409, answer.text
    error = answer.json()["error"]
    assert error["type"] == "ComponentInUse"
    assert "blog (uses.0.database) uses db; shop (at.host) uses db" in error["message"]
    assert error["uses"] == [
        {"component": "blog", "component_id": "blog", "path": "uses.0.database", "of": "db", "id": LOST},
        {"component": "shop", "component_id": "shop", "path": "at.host", "of": "db", "id": "srv"},
    ]  # fmt: skip
    assert ids == [LOST, "blog", "shop", "lonely"]


async def test_what_nobody_uses_is_taken_out(api: Api) -> None:
    """Also what uses itself, everything at once, and users together with what they use."""
    environment, session = await built(api, DATABASE, BLOG, SHOP, LONELY)
    path = f"/environments/{environment}/services"
    gone = f"{path}/lonely?uses=refuse"
    assert (await api.call("DELETE", gone, session=session)).status == 200
    answer = await api.call("PUT", f"{path}?uses=refuse", [LONELY], session=session)
    assert answer.status == 200
    assert (await api.call("DELETE", f"{path}?uses=refuse", session=session)).status == 200
    answer = await api.call("DELETE", f"{path}?uses=maybe", session=session)
    assert answer.status == 400
    assert "uses" in answer.text


async def test_a_component_is_no_user_of_itself(api: Api) -> None:
    """What takes out a part of it may leave what a program has written about it; a deployment says so."""
    part = {"?": {"id": "part", "type": "org.S"}}
    whole = {
        "?": {"id": "whole", "type": "org.App", "name": "whole"},
        "server": part,
        "on": ["part"],
    }
    environment, session = await built(api, whole)
    await api.deploy(environment, session)
    await api.finish()
    session = await api.session(environment)
    path = f"/environments/{environment}/services/whole"
    without = {**whole, "server": None}
    answer = await api.call("PUT", f"{path}?uses=refuse", without, session=session)
    assert answer.status == 200, answer.text
    refusal = dangling([{"services": [whole]}], {"services": [without]})
    assert refusal is not None
    assert str(refusal).startswith(
        "a part of whole was taken out and is in use: whole (on.0) refers to it itself."
    )


async def test_users_in_a_template_are_named(api: Api) -> None:
    """The same of its components: an environment of it could not be deployed."""
    body = {"name": "t", "services": [DATABASE, BLOG]}
    made = (await api.call("POST", "/templates", body)).json()
    path = f"/templates/{made['id']}/services/{LOST}"
    answer = await api.call("DELETE", f"{path}?uses=refuse")
    assert answer.status == 409
    assert "blog (uses.0.database) uses db" in answer.json()["error"]["message"]
    assert len((await api.call("GET", f"/templates/{made['id']}/services")).json()) == 2
    assert (await api.call("DELETE", path)).status == 200


async def removed(api: Api) -> tuple[str, str]:
    """A deployed environment, and a session in which the blog's database was taken out."""
    environment, session = await built(api, DATABASE, BLOG)
    await api.deploy(environment, session)
    await api.finish()
    session = await api.session(environment)
    path = f"/environments/{environment}/services/{LOST}"
    assert (await api.call("DELETE", path, session=session)).status == 200
    return environment, session


async def answered(api: Api, request: Any, answer: CallAnswer) -> Any:
    """What a request answers, when the engine gives this answer to its question."""
    asking = asyncio.create_task(request)
    while (claimed := await next_call(api.rooms.calls)) is None:
        work = asyncio.create_task(api.rooms.calls.queue.wait_for_work(60))
        await asyncio.wait({work, asking}, return_when=asyncio.FIRST_COMPLETED)
        assert not asking.done(), asking.result()
    lease, call = claimed
    assert call.kind == "upgrade"
    assert call.arguments["model"]["Objects"]["applications"][0]["?"]["id"] == "blog"
    await api.rooms.calls.answer(lease, answer)
    return await asking


def looked_at(*problems: str) -> CallAnswer:
    one: Any = {"changes": {}, "problems": list(problems), "notes": []}
    return CallAnswer({"applications": {"blog": one}, "problems": []})


@pytest.mark.parametrize("dialect", ["/v1", ""])
async def test_a_deployment_that_cannot_be_is_refused(api: Api, dialect: str) -> None:
    """An engine says that the model does not load: 409 names both and the way back; nothing is deployed."""
    environment, session = await removed(api)
    path = f"{dialect}/environments/{environment}/sessions/{session}/deploy"
    request = api.http.request("POST", path, headers={"X-Auth-Token": "ann"})
    answer = await answered(api, request, looked_at(f'Object "{LOST}" is not found'))
    assert answer.status == 409, answer.text
    for said in ("db was taken out", "blog (uses.0.database) uses db", "env changes --discard"):
        assert said in answer.text
    sessions = (await api.call("GET", f"/environments/{environment}/sessions")).json()["sessions"]
    assert [(one["id"], one["state"]) for one in sessions] == [(session, "opened")]


@pytest.mark.parametrize(
    "answer",
    [looked_at(), looked_at("size is required"), CallAnswer(failure="failed", message="m")],
)
async def test_references_that_do_no_harm_do_not_stop_a_deployment(
    api: Api, answer: CallAnswer
) -> None:
    """What a program has written; also when the engine cannot say: the deployment says it then."""
    environment, session = await removed(api)
    path = f"/environments/{environment}/sessions/{session}/deploy"
    assert (await answered(api, api.call("POST", path), answer)).status == 200
    await api.take()


async def test_a_deployment_without_such_references_asks_nobody(api: Api) -> None:
    """The blog uses another one: it is submitted at once."""
    environment, session = await removed(api)
    path = f"/environments/{environment}/services/blog/uses"
    assert (await api.call("PUT", path, [], session=session)).status == 200
    await api.deploy(environment, session)
    assert await next_call(api.rooms.calls) is None
