"""Environments, sessions and the services tree over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from vetro.environments import (
    EnvironmentSettings,
    NetworkTemplateError,
    read_network_template,
)
from vetro.http import Principal
from vetro.server.settings import load_settings

Api = Any  # the fixture of conftest.py


async def test_a_renamed_environment_has_its_name_in_the_next_session(api: Api) -> None:
    """Its model, too; the network that is named after it as long as nothing is deployed (Beyond upstream)."""
    e, early = await api.opened("first")

    async def names(session: str | None = None) -> tuple[str, str]:
        headers = {"session": session} if session else {}
        model = (await api.call("GET", f"/environments/{e}/model/", **headers)).json()
        return model["name"], model["defaultNetworks"]["environment"]["name"]

    assert (await api.call("PUT", f"/environments/{e}", {"name": "second"})).status == 200
    assert await names() == await names(early) == ("first", "first-network")
    late = await api.session(e)
    assert await names(late) == ("second", "second-network")
    sessions = (await api.call("GET", f"/environments/{e}/sessions")).json()["sessions"]
    assert [one["changes"] for one in sessions] == [[], []]
    await api.deploy(e, early)  # which has the old name
    await api.finish()
    assert await names() == ("first", "first-network")
    late = await api.session(e)
    assert await names(late) == ("second", "first-network")
    await api.deploy(e, late)
    await api.finish()
    assert await names() == await names(await api.session(e)) == ("second", "first-network")
    patch = [{"op": "replace", "path": "/name", "value": "own"}]
    last = await api.session(e)
    answer = await api.call("PATCH", f"/environments/{e}/model/", patch, session=last,
                            type="application/env-model-json-patch")  # fmt: skip
    assert answer.status == 200, answer.text
    await api.deploy(e, last)
    await api.finish()
    assert await names(await api.session(e)) == ("own", "first-network")


async def test_a_new_environment_is_ready_and_pending_with_a_session(api: Api) -> None:
    """The status follows the sessions."""
    environment = await api.environment()
    assert await api.status(environment) == "ready"
    await api.session(environment)
    assert await api.status(environment) == "pending"
    rows = (await api.call("GET", "/environments?all_tenants=False")).json()["environments"]
    assert [(row["name"], row["status"], row["version"]) for row in rows] == [("e", "pending", 0)]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "name is required"),
        ({"name": " "}, 400, "must not be blank"),
        ({"name": 5}, 400, "as text"),
        ({"name": "x" * 256}, 400, "255"),
        ([], 400, "object"),
        (None, 400, "object"),
        ({"name": "a", "region": 5}, 400, "region"),
        ({"name": "a", "defaultNetworks": []}, 400, "defaultNetworks"),
    ],
)
async def test_bad_environments_are_refused(api: Api, body: Any, status: int, message: str) -> None:
    """Each wrong create request is a 400 that says what is wrong."""
    answer = await api.call("POST", "/environments", body)
    assert answer.status == status
    assert message in answer.json()["error"]["message"]


async def test_names_are_unique_in_a_project(api: Api) -> None:
    """The same name is a conflict within a project but not in another, also when renaming."""
    first = await api.environment("a")
    assert (await api.call("POST", "/environments", {"name": "a"})).status == 409
    await api.environment("a", user="eve")
    await api.environment("b")
    path = f"/environments/{first}"
    assert (await api.call("PUT", path, {"name": "b"})).status == 409
    assert (await api.call("PUT", path, {"name": "c"})).json()["name"] == "c"
    assert (await api.call("PUT", path, {})).status == 400


async def test_own_properties_go_to_the_model_and_column_fields_do_not(api: Api) -> None:
    """Unknown properties become the root object's; ids and versions cannot be chosen."""
    body = {"name": "m", "region": "here", "colour": "red", "id": "mine", "version": 7}
    made = (await api.call("POST", "/environments", body)).json()
    assert (made["version"], made["colour"]) == (0, "red")
    assert made["id"] != "mine"
    model = (await api.call("GET", f"/environments/{made['id']}/model//")).json()
    assert (model["region"], model["colour"]) == ("here", "red")
    assert model["?"] == {"id": made["id"], "type": "io.murano.Environment", "metadata": {}}
    assert model["defaultNetworks"]["environment"]["name"] == "m-network"


async def test_services_are_added_read_changed_and_removed(api: Api) -> None:
    """Applications change within a session; the environment itself does not change."""
    environment, session = await api.opened()
    base = f"/environments/{environment}/services"
    added = await api.add(environment, session, name="web", ports=[80])
    id_ = added["?"]["id"]
    assert (await api.call("GET", base)).json() == []
    listed = (await api.call("GET", base + "/", session=session)).json()
    assert listed[0]["?"]["status"] == "pending"

    async def get(path: str) -> Any:
        return await api.call("GET", f"{base}/{path}", session=session)

    assert (await get(f"{id_}/ports/0")).json() == 80
    assert (await get(f"{id_}/none")).status == 404
    assert (await get(f"{id_}/name/deeper")).status == 404
    put = await api.call("PUT", f"{base}/{id_}/ports", [81, 82], session=session)
    assert put.json() == [81, 82]
    assert (await api.call("POST", f"{base}/{id_}/ports", 5, session=session)).status == 400
    replaced = {"?": {"type": "org.App", "id": id_, "status": "x"}, "name": "other"}
    assert (await api.call("PUT", f"{base}/{id_}", replaced, session=session)).status == 200
    assert (await get(id_)).json() == {"?": {"type": "org.App", "id": id_}, "name": "other"}
    gone = await api.call("DELETE", f"{base}/{id_}", session=session)
    assert (gone.status, gone.content) == (200, b"")
    assert (await api.call("DELETE", f"{base}/{id_}", session=session)).status == 404


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (None, "must be an application"),
        ({}, "must be an application"),
        ({"name": "x"}, "'?' block"),
        ({"?": {}}, "no '?/type'"),
        ({"?": {"type": "a", "id": 5}}, "must be text"),
        ([{"?": {"type": "a", "id": "x"}}, {"?": {"type": "a", "id": "x"}}], "have the id x"),
        ({"?": {"type": "a"}, "inner": {"?": {"id": "y"}}}, "no '?/type'"),
    ],
)
async def test_bad_services_are_refused(api: Api, body: Any, message: str) -> None:
    """Values that would make the environment unreadable are refused."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    answer = await api.call("POST", path, body, session=session)
    assert answer.status == 400
    assert message in answer.json()["error"]["message"]
    assert (await api.call("GET", path, session=session)).json() == []


async def test_the_session_header_is_checked(api: Api) -> None:
    """Absent, unknown and foreign sessions are refused, for writes and reads."""
    one, two = await api.environment("one"), await api.environment("two")
    foreign = await api.session(two)
    path = f"/environments/{one}/services"
    body = {"?": {"type": "a"}}
    statuses = [
        (await api.call("POST", path, body)).status,
        (await api.call("POST", path, body, session="none")).status,
        (await api.call("POST", path, body, session=foreign)).status,
        (await api.call("GET", path, session="none")).status,
        (await api.call("GET", path, session=foreign)).status,
        (await api.call("GET", f"/environments/{one}", session=foreign)).status,
        (await api.call("GET", f"/environments/{one}/model/", session=foreign)).status,
        (await api.call("GET", f"/environments/{one}/lastStatus", session=foreign)).status,
    ]
    assert statuses == [400, 404, 400, 404, 400, 400, 400, 400]


async def test_the_model_is_patched_atomically(api: Api) -> None:
    """A patch with one bad operation changes nothing."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/model/"
    kind = "application/env-model-json-patch"

    async def patch(*operations: Any) -> int:
        answer = await api.call("PATCH", path, list(operations), session=session, type=kind)
        return answer.status

    good = {"op": "add", "path": "/note", "value": "n"}
    assert await patch(good) == 200
    assert await patch({"op": "replace", "path": "/note", "value": "m"}, {"op": "x"}) == 400
    assert await patch({"op": "replace", "path": "/?/id", "value": "x"}) == 403
    assert await patch({"op": "add", "path": "/name", "value": "x"}) == 403
    assert await patch({"op": "replace", "path": "/name", "value": 5}) == 400
    assert await patch({"op": "remove", "path": "/none"}) == 404
    assert await patch({"op": "replace", "path": "a//b", "value": 1}) == 400
    assert await patch({"op": "move", "path": "/note", "value": 1}) == 403
    assert (await api.call("GET", path, session=session)).json()["note"] == "n"
    assert (await api.call("PATCH", path, [good], session=session)).status == 415


async def test_sessions_belong_to_their_user_and_die_when_overtaken(api: Api) -> None:
    """Another user may deploy a session but not read it; the loser of a race is invalid."""
    environment = await api.environment()
    first, second = await api.session(environment), await api.session(environment, user="bob")
    base = f"/environments/{environment}/sessions"
    assert (await api.call("GET", f"{base}/{first}", user="bob")).status == 401
    assert (await api.call("GET", f"{base}/none")).status == 404
    await api.add(environment, first)
    await api.deploy(environment, first)
    assert (await api.call("POST", f"{base}/{second}/deploy", user="bob")).status == 403
    assert (await api.call("POST", f"{base}/{first}/deploy")).status == 403
    assert (await api.call("POST", f"/environments/{environment}/configure")).status == 403
    assert (await api.call("DELETE", f"{base}/{first}")).status == 403
    await api.finish()
    assert (await api.call("GET", f"{base}/{first}")).json()["state"] == "deployed"
    assert (await api.call("GET", f"{base}/{second}", user="bob")).status == 403
    assert (await api.call("DELETE", f"{base}/{second}", user="bob")).status == 200


async def test_two_deploys_at_once_start_one(api: Api) -> None:
    """The first deploy is accepted, the other one is refused."""
    environment = await api.environment()
    sessions = [await api.session(environment) for _ in range(4)]
    for session in sessions:
        await api.add(environment, session)
    answers = await asyncio.gather(
        *(
            api.call("POST", f"/environments/{environment}/sessions/{session}/deploy")
            for session in sessions * 2
        )
    )
    assert sorted(answer.status for answer in answers) == [200] + [403] * 7
    await api.take()
    assert await api.rooms.tasks.claim("other", 60) is None


async def test_changes_of_one_session_side_by_side_are_all_kept(api: Api) -> None:
    """Concurrent additions do not overwrite each other."""
    environment, session = await api.opened()
    await asyncio.gather(*(api.add(environment, session, name=f"a{i}") for i in range(8)))
    path = f"/environments/{environment}/services"
    assert len((await api.call("GET", path, session=session)).json()) == 8


async def test_another_project_gets_nothing(api: Api) -> None:
    """Each environment, session and deployment call of a foreign project is 403 or 404."""
    environment, session = await api.submitted()
    task = await api.finish()
    await api.session(environment)
    base = f"/environments/{environment}"
    calls = [
        ("GET", base),
        ("PUT", base),
        ("DELETE", base),
        ("DELETE", base + "?abandon=true"),
        ("GET", base + "/lastStatus"),
        ("GET", base + "/model/"),
        ("GET", base + "/services"),
        ("POST", base + "/services"),
        ("POST", base + "/configure"),
        ("GET", f"{base}/sessions/{session}"),
        ("DELETE", f"{base}/sessions/{session}"),
        ("POST", f"{base}/sessions/{session}/deploy"),
        ("GET", base + "/deployments"),
        ("GET", f"{base}/deployments/{task.id}"),
        ("GET", f"{base}/deployments/{task.id}/events"),
        ("POST", base + "/actions/x"),
        ("GET", f"{base}/actions/{task.id}"),
        ("GET", base + "/instance-statistics/raw"),
    ]
    for method, path in calls:
        answer = await api.call(method, path, {"name": "x"}, user="eve", session=session)
        assert answer.status in (403, 404), (method, path, answer.status)
    assert (await api.call("GET", "/deployments", user="eve")).json() == {"deployments": []}
    assert (await api.call("GET", "/environments", user="eve")).json() == {"environments": []}
    assert (await api.call("GET", "/environments?all_tenants=true", user="eve")).status == 403
    assert (await api.call("GET", base, user="root")).status == 200


async def test_a_model_grows_to_a_limit(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger model is refused with the setting's name; the stored one stays."""
    settings = EnvironmentSettings(model_limit=10_000)
    monkeypatch.setattr(api.rooms.store, "settings", settings)
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    await api.add(environment, session, text="x" * 6000)
    body = {"?": {"type": "org.App"}, "text": "x" * 6000}
    answer = await api.call("POST", path, body, session=session)
    assert answer.status == 413
    assert "engine.model_limit is 10000" in answer.json()["error"]["message"]
    assert len((await api.call("GET", path, session=session)).json()) == 1
    answer = await api.call("POST", "/environments", {"name": "n", "text": "x" * 10_000})
    assert answer.status == 413


@pytest.mark.parametrize("text", ["[", "a: 1", "[1]", "environment: {x: 1}\nflat: null", ""])
def test_a_template_of_networks_is_checked_at_the_start(tmp_path: Path, text: str) -> None:
    """A file that is not a template is refused with the file's name; a good one is as it stands."""
    file = tmp_path / "netconfig.yaml"
    file.write_text(text)
    with pytest.raises(NetworkTemplateError, match=r"netconfig\.yaml"):
        read_network_template(file)
    file.write_text("environment: {'?': {type: a.B}, name: n-%ENV%}\nflat: null\n")
    read: dict[str, Any] = read_network_template(file)
    assert read["environment"]["name"] == "n-%ENV%"


async def test_networks_are_those_of_the_template(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """%ENV% is the environment's name, objects get new ids; who names networks has those (§5.1)."""
    network = {
        "?": {"id": "x", "type": "my.Network"},
        "name": "net-%ENV%",
        "of": ["%ENV%", 1, None],
    }
    settings = EnvironmentSettings(networks={"environment": network, "flat": None})
    monkeypatch.setattr(api.rooms.store, "settings", settings)
    ids: set[str] = set()
    for name in ("a", "b"):
        path = f"/environments/{await api.environment(name)}/model/defaultNetworks"
        made = (await api.call("GET", path)).json()
        ids.add(made["environment"]["?"]["id"])
        assert made["environment"]["?"]["type"] == "my.Network"
        assert (made["environment"]["name"], made["flat"]) == (f"net-{name}", None)
        assert made["environment"]["of"] == [name, 1, None]
    assert len(ids | {"x"}) == 3
    own = {"environment": {"?": {"id": "o", "type": "o.N"}, "name": "%ENV%"}, "flat": None}
    answer = await api.call("POST", "/environments", {"name": "own", "defaultNetworks": own})
    assert answer.json()["defaultNetworks"] == own


@pytest.mark.parametrize(
    ("driver", "type_"), [("neutron", "NeutronNetwork"), ("nova", "NovaNetwork")]
)
async def test_networks_are_of_the_driver(
    api: Api, monkeypatch: pytest.MonkeyPatch, driver: str, type_: str
) -> None:
    """Without a template ``network.driver`` says of which class an environment's own network is (§5.1)."""
    settings = load_settings(environ={"VETRO_NETWORK_DRIVER": driver})
    chosen = EnvironmentSettings(network_driver=settings.network.driver)
    monkeypatch.setattr(api.rooms.store, "settings", chosen)
    path = f"/environments/{await api.environment('e')}/model/defaultNetworks"
    made = (await api.call("GET", path)).json()
    assert made["environment"]["?"]["type"] == f"io.murano.resources.{type_}"
    assert (made["environment"]["name"], made["flat"]) == ("e-network", None)


async def test_networks_are_of_the_driver_that_the_region_has(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the driver is looked up, it is for the caller and the region of the new environment."""
    asked: list[tuple[str, str | None]] = []

    async def driver(principal: Principal, region: str | None) -> str:
        asked.append((principal.user_name, region))
        return "nova" if region == "old" else "neutron"

    chosen = EnvironmentSettings(network_driver_of=driver)
    monkeypatch.setattr(api.rooms.store, "settings", chosen)
    types: list[str] = []
    for name, region in (("one", None), ("two", "old")):
        body = {"name": name, "region": region}
        made = (await api.call("POST", "/environments", body)).json()["id"]
        path = f"/environments/{made}/model/defaultNetworks/environment/?/type"
        types.append((await api.call("GET", path.replace("?", "%3F"))).json().rpartition(".")[2])
    assert types == ["NeutronNetwork", "NovaNetwork"]
    assert asked == [("ann", None), ("ann", "old")]
