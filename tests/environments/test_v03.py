"""The v0.3 dialect: environments with flat services, without ``/v1`` (catalog-api.md §7)."""

import json
import re
from typing import Any

import pytest

from vetro.environments.flat import TYPES

from .conftest import Api

UNITS: list[dict[str, Any]] = [{}]
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
GOOD: dict[str, dict[str, Any]] = {
    "activeDirectory": {
        "name": "ad",
        "adminPassword": "p1",
        "domain": "acme.dc",
        "units": [{"isMaster": True, "recoveryPassword": "p2"}],
    },
    "webServer": {"name": "w", "units": UNITS, "domain": ""},
    "aspNetApp": {"name": "a", "repository": "git://x", "units": UNITS},
    "webServerFarm": {"name": "f", "loadBalancerPort": 80, "units": UNITS},
    "aspNetAppFarm": {"name": "g", "repository": "x", "loadBalancerPort": 80, "units": UNITS},
    "msSqlServer": {"name": "s", "mixedModeAuth": True, "saPassword": "p3", "units": UNITS},
    "msSqlClusterServer": {
        "name": "c",
        "adminPassword": "p4",
        "externalAD": False,
        "mixedModeAuth": False,
        "clusterIP": "10.0.0.9",
        "clusterName": "n",
        "agGroupName": "g",
        "agListenerName": "l",
        "agListenerIP": "",
        "sqlServicePassword": "p5",
        "units": [{"isMaster": True, "isSync": True}],
    },
    "linuxApacheService": {"name": "l", "deployApachePHP": True, "units": UNITS},
    "linuxTelnetService": {"name": "t", "units": UNITS, "osImage": {"name": "i"}},
}


class Old:
    """The dialect as its clients use it."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.environment = ""
        self.session = ""

    async def call(
        self, method: str, path: str, body: Any = None, *, user: str = "ann", session: str = ""
    ) -> Any:
        """A request without a version."""
        headers = {"X-Auth-Token": user, "X-Vetro-Fields": "all"}
        if session:
            headers["X-Configuration-Session"] = session
        return await self.api.http.request(method, path, json=body, headers=headers)

    async def ok(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """The body of a good answer, inside the environment and with its session."""
        answer = await self.call(
            method, f"/environments/{self.environment}{path}", body, session=self.session
        )
        assert answer.status == status, (answer.status, answer.text)
        return answer.json()

    async def begin(self) -> None:
        """An environment with an open session."""
        made = await self.call("POST", "/environments/", {"name": "dev"})
        assert made.status == 200, made.text
        self.environment = made.json()["id"]
        self.session = (await self.ok("POST", "/configure"))["id"]

    async def add(self, kind: str = "webServer", **more: Any) -> dict[str, Any]:
        """A service of a type."""
        body = {**json.loads(json.dumps(GOOD[kind])), "type": kind, **more}
        return await self.ok("POST", "/services", body)


@pytest.fixture
async def old(api: Api) -> Old:
    """An environment with an open session."""
    one = Old(api)
    await one.begin()
    return one


async def test_environments_say_their_kind(old: Old) -> None:
    """What is made here has flat services, what is made at /v1 objects; both list both."""
    await old.api.call("POST", "/environments", {"name": "new"})
    for path in ("/environments", "/v1/environments"):
        rows = (await old.call("GET", path)).json()["environments"]
        assert {row["name"]: row["model_kind"] for row in rows} == {
            "dev": "workflow",
            "new": "muranopl",
        }
    row = (await old.call("GET", "/environments")).json()["environments"][0]
    assert (row["status"], row["status_detail"]) == ("pending", "pending")
    assert (await old.ok("GET", ""))["services"] == []
    renamed = await old.ok("PUT", "", {"name": "prod"}, status=201)
    assert (renamed["name"], renamed["status"]) == ("prod", "pending")
    assert (await old.call("POST", "/environments", {"name": "prod"})).status == 409
    bodies: list[Any] = [None, {}, {"name": " "}, {"name": 1}, []]
    for body in bodies:
        assert (await old.call("POST", "/environments", body)).status == 400
    said = await old.ok("PUT", "", {"description_text": "ours"}, status=201)
    assert (said["description_text"], said["name"], "services" in said) == ("ours", "prod", False)
    path = f"/environments/{old.environment}"
    for body in (None, {}, {"id": "x"}, {"name": ""}, {"description_text": 1}):
        assert (await old.call("PUT", path, body)).status == 400, body


async def test_times_end_in_z(old: Old) -> None:
    """Times of this dialect end in Z, those of ``/v1`` in nothing."""
    made = await old.add()
    session = await old.ok("GET", f"/sessions/{old.session}")
    environment = await old.ok("GET", "")
    for row in (made, session, environment, environment["services"][0]):
        assert re.fullmatch(TIME, row["created"])
        assert re.fullmatch(TIME, row["updated"])
    row = (await old.api.call("GET", f"/environments/{old.environment}")).json()
    assert row["created"] == environment["created"].removesuffix("Z")


async def test_an_environment_that_was_never_deployed_goes_at_once(old: Old) -> None:
    """Deleting what was only composed removes it, its sessions and its services, without an engine."""
    await old.add()
    path = f"/environments/{old.environment}"
    assert (await old.call("DELETE", path, user="eve")).status == 401
    assert await old.ok("DELETE", "") is None
    for place in (path, f"{path}/services", f"{path}/sessions/{old.session}"):
        assert (await old.call("GET", place)).status == 404
    assert (await old.call("DELETE", path)).status == 404
    assert (await old.call("GET", "/environments")).json() == {"environments": []}
    assert await old.api.rooms.tasks.claim("engine", 60) is None


async def test_reports_name_what_they_are_about(old: Old) -> None:
    """Reports have the kind and the id of their entity; those of a service's units are its own."""
    web, other = await old.add(), await old.add(name="other")
    unit = web["units"][0]["id"]
    await old.ok("POST", f"/sessions/{old.session}/deploy")
    _, task = await old.api.take()
    for entity, id_, text in (
        ("environment", old.environment, "begun"),
        ("service", web["id"], "building"),
        ("unit", unit, "installed"),
        ("service", other["id"], "waits"),
    ):
        await old.api.rooms.tasks.reports.add(task.id, id_, "info", text, entity=entity)
    path = f"/deployments/{task.id}"
    reports = (await old.ok("GET", path))["reports"][1:]
    assert [(one["entity"], one["text"]) for one in reports] == [
        ("environment", "begun"),
        ("service", "building"),
        ("unit", "installed"),
        ("service", "waits"),
    ]
    assert re.fullmatch(TIME, reports[0]["created"])
    for wanted, texts in (
        (f"service_id={web['id']}", ["building", "installed"]),
        (f"service_id={other['id']}", ["waits"]),
        (f"service_id={web['id']}&service_id={other['id']}", ["building", "installed", "waits"]),
        ("service_id=none", []),
    ):
        found = (await old.ok("GET", f"{path}?{wanted}"))["reports"]
        assert [one["text"] for one in found] == texts, wanted
    newest = (await old.ok("GET", "/lastStatus"))["lastStatuses"]
    assert {id_: one["text"] for id_, one in newest.items()} == {
        web["id"]: "installed",
        other["id"]: "waits",
    }
    assert newest[web["id"]]["deployment_id"] == task.id


async def test_statuses_of_sessions(old: Old) -> None:
    """Without a session 403, unknown 403, of another environment 404, of another project 401."""
    path = f"/environments/{old.environment}/services"
    body = {**GOOD["webServer"], "type": "webServer"}
    assert (await old.call("POST", path, body)).status == 403
    assert (await old.call("POST", path, body, session="none")).status == 403
    assert (await old.call("GET", path, session="none")).status == 404
    assert (await old.call("GET", path, user="eve")).status == 401
    assert (await old.call("GET", "/environments/none")).status == 404
    assert (await old.call("GET", "/environments", user="")).status == 401
    other = (await old.call("POST", "/environments", {"name": "other"})).json()["id"]
    elsewhere = f"/environments/{other}/services"
    assert (await old.call("POST", elsewhere, body, session=old.session)).status == 404
    shown = await old.ok("GET", f"/sessions/{old.session}")
    assert (shown["state"], shown["state_detail"]) == ("open", "opened")
    assert await old.ok("DELETE", f"/sessions/{old.session}") is None


@pytest.mark.parametrize("kind", sorted(GOOD))
async def test_every_type_is_taken_completed_and_shown(old: Old, kind: str) -> None:
    """A service gets ids, times and names of units, and is read without what is only written."""
    assert set(GOOD) == set(TYPES)
    made = await old.add(kind)
    assert made["type"] == kind
    assert made["created"] == made["updated"]
    unit = made["units"][0]
    assert unit["name"] == f"{GOOD[kind]['name']}_instance_0"
    assert len(unit["id"]) == len(made["id"]) == 32
    read = await old.ok("GET", f"/services/{made['id']}")
    assert {**read, "status": ""} == {**made, "status": ""}
    hidden = TYPES[kind].hidden | TYPES[kind].hidden_of_unit
    for name in hidden:
        assert name not in read
        assert name not in unit
    if kind == "msSqlServer":
        assert read["saPassword"] == "p3"


@pytest.mark.parametrize("kind", sorted(GOOD))
async def test_what_is_required_is_named(old: Old, kind: str) -> None:
    """A service without a required attribute, or with one of another type, is 400 and named."""
    path = f"/environments/{old.environment}/services"
    for name in TYPES[kind].required:
        body = {**GOOD[kind], "type": kind}
        body.pop(name, None)
        body.pop("clusterIP", None) if name == "clusterIp" else None
        answer = await old.call("POST", path, body, session=old.session)
        assert answer.status == 400, name
        assert name in answer.text
        wrong = {**GOOD[kind], "type": kind, name: {"x": 1}}
        answer = await old.call("POST", path, wrong, session=old.session)
        assert answer.status == 400, name
        assert name in answer.text
    for name in TYPES[kind].unit:
        unit = dict(GOOD[kind]["units"][0])
        del unit[name]
        body = {**GOOD[kind], "type": kind, "units": [unit]}
        answer = await old.call("POST", path, body, session=old.session)
        assert (answer.status, name in answer.text) == (400, True)
    assert await old.ok("GET", "/services") == []


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        "x",
        [1],
        {"type": "none", "name": "x"},
        {"name": "x"},
        {"?": {"type": "org.App"}},
        {**GOOD["webServer"], "type": "webServer", "units": [1]},
        {**GOOD["webServer"], "type": "webServer", "units": [{"id": 5}]},
        {**GOOD["webServer"], "type": "webServer", "id": 5},
        {**GOOD["webServer"], "type": "webServer", "osImage": 5},
        {**GOOD["webServerFarm"], "type": "webServerFarm", "loadBalancerPort": "80"},
        {**GOOD["webServerFarm"], "type": "webServerFarm", "loadBalancerPort": 65536},
        {**GOOD["linuxApacheService"], "type": "linuxApacheService", "deployApachePHP": "true"},
        {**GOOD["msSqlClusterServer"], "type": "msSqlClusterServer", "agListenerIP": "1.2.3"},
    ],
)
async def test_services_that_cannot_be(old: Old, body: Any) -> None:
    """Anything but a service of a known type is 400, by both prefixes."""
    for prefix in ("", "/v1"):
        path = f"{prefix}/environments/{old.environment}/services"
        answer = await old.call("POST", path, body, session=old.session)
        assert answer.status == 400, (prefix, answer.text)


async def test_an_empty_unit_is_appended(old: Old) -> None:
    """A unit may have nothing but what it is given here; a body that is no unit is refused as such."""
    made = await old.add("webServer")
    units = f"/services/{made['id']}/units"
    added = await old.ok("POST", units, {})
    assert added["id"]
    assert added["name"] == "w_instance_1"
    assert [one["name"] for one in await old.ok("POST", units, [{}])] == ["w_instance_2"]
    path = f"/environments/{old.environment}"
    answer = await old.call("POST", f"/v1{path}{units}", {}, session=old.session)
    assert answer.status == 200, answer.text
    assert [one["name"] for one in (await old.ok("GET", units))] == [
        f"w_instance_{number}" for number in range(4)
    ]
    wrong: list[tuple[str, Any, str]] = [
        (units, [], "a unit"),
        (units, 5, "a unit"),
        ("/services", {}, "a service"),
    ]
    for where, body, said in wrong:
        answer = await old.call("POST", f"{path}{where}", body, session=old.session)
        assert answer.status == 400
        assert f"The body must be {said}" in answer.text


async def test_attributes_are_read_and_changed(old: Old) -> None:
    """Attributes of services and units are read, set, added and removed by their path."""
    made = await old.add("activeDirectory")
    service = f"/services/{made['id']}"
    unit = f"{service}/units/{made['units'][0]['id']}"
    assert await old.ok("GET", f"{service}/name") == "ad"
    assert await old.ok("PUT", f"{service}/name", "new", status=201) == "new"
    assert await old.ok("PUT", f"{unit}/isMaster", False, status=201) is False
    assert await old.ok("PUT", f"{service}/extra", {"a": 1}, status=201) == {"a": 1}
    added = await old.ok("POST", f"{service}/units", {"isMaster": False, "recoveryPassword": "x"})
    assert "recoveryPassword" not in added
    shown = await old.ok("GET", service)
    assert [one["name"] for one in shown["units"]] == ["ad_instance_0", "new_instance_1"]
    replaced = await old.ok("PUT", unit, {"isMaster": True}, status=201)
    assert replaced == {
        "isMaster": True,
        "id": made["units"][0]["id"],
        "name": "new_instance_0",
    }
    assert (await secrets(old))["units"][0]["recoveryPassword"] == "p2"
    await old.ok("DELETE", f"{service}/domain")
    await old.ok("DELETE", f"{service}/units/{added['id']}")
    shown = await old.ok("GET", service)
    assert "domain" not in shown
    assert len(shown["units"]) == 1
    path = f"/environments/{old.environment}"
    cases: list[tuple[str, str, Any]] = [
        ("PUT", f"{service}/id", "x"),
        ("PUT", f"{service}/type", "webServer"),
        ("DELETE", f"{service}/created", None),
        ("DELETE", f"{unit}/id", None),
        ("PUT", f"{unit}/isMaster", "true"),
        ("PUT", unit, {"id": "other"}),
        ("PUT", f"{service}/units", 5),
        ("PUT", service, []),
    ]
    for method, place, body in cases:
        answer = await old.call(method, path + place, body, session=old.session)
        assert answer.status == 400, (method, place, answer.text)
    for place in (f"{service}/adminPassword", f"{service}/none", "/services/none"):
        assert (await old.call("GET", path + place, session=old.session)).status == 404
    await old.ok("DELETE", "/services")
    assert await old.ok("GET", "/services") == []


async def test_replacing_keeps_what_is_only_written(old: Old) -> None:
    """A PUT of what was read keeps the passwords; an object on /services changes attributes."""
    made = await old.add("activeDirectory")
    read = await old.ok("GET", f"/services/{made['id']}")
    await old.ok("PUT", f"/services/{made['id']}", {**read, "name": "b"}, status=201)
    stored = await secrets(old)
    assert (stored["adminPassword"], stored["units"][0]["recoveryPassword"]) == ("p1", "p2")
    listed = await old.ok("GET", "/services")
    # All of a type is required of services in a list: hidden attributes are kept first.
    answer = await old.ok("PUT", "/services", listed, status=201)
    assert "adminPassword" not in answer[0]
    assert (await secrets(old))["adminPassword"] == "p1"
    changed = await old.ok("PUT", "/services", {"id": made["id"], "domain": "x"}, status=201)
    assert (changed["domain"], changed["name"], changed["created"]) == ("x", "b", made["created"])
    path = f"/environments/{old.environment}/services"
    for body in ({"domain": "x"}, {"id": "none"}, {"id": made["id"], "type": "webServer"}, 5):
        answer = await old.call("PUT", path, body, session=old.session)
        assert answer.status == 400, body


async def secrets(old: Old) -> dict[str, Any]:
    """The first service as it is stored."""
    from sqlalchemy import select

    from vetro.environments.tables import sessions

    async with old.api.database.read() as tx:
        query = select(sessions.c.model).where(sessions.c.id == old.session)
        model = (await tx.execute(query)).scalar_one()
    return model["Objects"]["services"][0]


async def test_passwords_in_force_are_not_read(old: Old) -> None:
    """What a deployment has noted in a state is read without its passwords, and stays when the service or a
    unit is sent back as it was read, or without its state.
    """
    made = await old.add("activeDirectory")
    service = f"/services/{made['id']}"
    unit = f"{service}/units/{made['units'][0]['id']}"
    for path, state in (
        (service, {"primaryDc": "m", "domainAdminPassword": "p1"}),
        (unit, {"hostname": "ad1", "adminPassword": "p9"}),
    ):
        assert await old.ok("PUT", f"{path}/state", state, status=201) is not None
    read = await old.ok("GET", service)
    assert (read["state"], read["units"][0]["state"]) == ({"primaryDc": "m"}, {"hostname": "ad1"})
    listed = await old.call("GET", f"/v1/environments/{old.environment}/model", session=old.session)
    assert "p9" not in listed.text
    bare = {**read, "units": [{"id": made["units"][0]["id"], "isMaster": True}]}
    for body in (read, {name: one for name, one in bare.items() if name != "state"}):
        answer = await old.ok("PUT", service, body, status=201)
        assert "p1" not in json.dumps(answer)
        stored = await secrets(old)
        assert stored["state"] == {"primaryDc": "m", "domainAdminPassword": "p1"}
        assert stored["units"][0]["state"] == {"hostname": "ad1", "adminPassword": "p9"}
    answer = await old.ok("PUT", unit, read["units"][0], status=201)
    assert "p9" not in json.dumps(answer)


async def test_deploying(old: Old) -> None:
    """A deployment takes the flat model to an engine, and its reports are served."""
    made = await old.add("linuxTelnetService")
    assert await old.ok("POST", f"/sessions/{old.session}/deploy") is None
    assert (await old.ok("GET", ""))["status"] == "deploying"
    _, task = lease = await old.api.take()
    assert task.model_kind == "workflow"
    objects = task.model["Objects"]
    assert objects["id"] == old.environment
    assert objects["tenant_id"] == "p"
    assert objects["services"][0]["id"] == made["id"]
    unit = made["units"][0]["id"]
    await old.api.rooms.tasks.fail_task(lease[0], "no such image")
    (deployment,) = (await old.ok("GET", "/deployments"))["deployments"]
    reports = (await old.ok("GET", f"/deployments/{deployment['id']}"))["reports"]
    assert reports[0]["text"] == "Deployment scheduled"
    assert "no such image" in [one["text"] for one in reports]
    assert {one["deployment_id"] for one in reports} == {deployment["id"]}
    assert "task_id" not in reports[0]
    found = await old.ok("GET", f"/deployments/{deployment['id']}?service_id={made['id']}")
    assert found["reports"] == []
    assert (await old.ok("GET", "/lastStatus"))["lastStatuses"] == {made["id"]: None}
    assert await old.ok("GET", "/instance-statistics/raw") == []
    assert await old.ok("GET", "/instance-statistics/raw/none") == []
    shown = await old.ok("GET", "")
    assert (shown["status"], shown["status_detail"]) == ("ready", "deploy failure")
    assert shown["services"][0]["units"][0]["id"] == unit
    assert await old.ok("DELETE", "") is None


async def test_both_prefixes_reach_both_kinds(old: Old) -> None:
    """Services of either kind are read by either prefix; no kind takes the other's services."""
    made = await old.add("activeDirectory")
    v1 = f"/v1/environments/{old.environment}/services"
    assert (await old.call("GET", f"{v1}/{made['id']}/name", session=old.session)).json() == "ad"
    assert "adminPassword" not in (await old.call("GET", v1, session=old.session)).json()[0]
    assert (await old.call("GET", f"/v1/environments/{old.environment}")).status == 200
    assert (await old.call("GET", f"/v1/environments/{old.environment}/lastStatus")).status == 200
    assert (await old.call("GET", f"/v1/environments/{old.environment}/sessions")).status == 200

    new = await old.api.environment("new")
    session = await old.api.session(new)
    app = await old.api.add(new, session)
    path = f"/environments/{new}/services"
    shown = await old.call("GET", f"{path}/{app['?']['id']}", session=session)
    assert shown.json()["?"]["type"] == "org.App"
    body = {**GOOD["webServer"], "type": "webServer"}
    assert (await old.call("POST", path, body, session=session)).status == 400


async def test_changes_through_the_other_prefix_keep_what_is_only_written(old: Old) -> None:
    """Stock clients read a list at /v1, change it and send it back: the passwords stay, and are not shown."""
    made = await old.add("activeDirectory")
    path = f"/v1/environments/{old.environment}/services"

    async def put(where: str, body: object) -> Any:
        answer = await old.call("PUT", path + where, body, session=old.session)
        assert answer.status == 200, answer.text
        assert "p1" not in answer.text
        assert "p2" not in answer.text
        return answer.json()

    listed = (await old.call("GET", path, session=old.session)).json()
    listed[0]["name"] = "renamed"
    added = {**GOOD["webServer"], "type": "webServer"}
    assert [one["name"] for one in await put("", [*listed, added])] == ["renamed", added["name"]]
    service = f"/{made['id']}"
    assert (await put(service, {**listed[0], "name": "again"}))["name"] == "again"
    unit = made["units"][0]["id"]
    await put(f"{service}/units", [{"id": unit, "isMaster": False}])
    await put(f"{service}/units/{unit}", {"id": unit, "isMaster": True})
    stored = await secrets(old)
    assert (stored["name"], stored["adminPassword"]) == ("again", "p1")
    assert stored["units"][0]["recoveryPassword"] == "p2"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "x", "units": [{}]}, "type"),
    ({"type": "noSuch", "name": "x", "units": [{}]}, "noSuch"),
    ({"type": "webServer", "name": "x"}, "units"),
    ({"type": "webServerFarm", "name": "x", "units": [{}]}, "loadBalancerPort"),
    ({"id": "MADE", "type": "webServer", "name": "x", "units": [{}]}, "activeDirectory"),
]


@pytest.mark.parametrize(("service", "said"), REFUSED)
async def test_changes_through_the_other_prefix_are_checked(
    old: Old, service: dict[str, Any], said: str
) -> None:
    """A list or a patch at /v1 cannot bring in what /environments refuses; what was there may lack things."""
    made = await old.add("activeDirectory")
    await old.ok("DELETE", f"/services/{made['id']}/domain")
    base = f"/v1/environments/{old.environment}"
    listed = (await old.call("GET", f"{base}/services", session=old.session)).json()
    again = await old.call("PUT", f"{base}/services", listed, session=old.session)
    assert again.status == 200, again.text
    if service.get("id") == "MADE":
        wrong, change = (
            [{**service, "id": made["id"]}],
            ("replace", "/services/0/type", "webServer"),
        )
    else:
        wrong, change = [*listed, service], ("add", "/services/-", service)
    answer = await old.call("PUT", f"{base}/services", wrong, session=old.session)
    assert (answer.status, said in answer.json()["error"]["message"]) == (400, True), answer.text
    body = [dict(zip(("op", "path", "value"), change, strict=True))]
    headers = {"X-Auth-Token": "ann", "X-Configuration-Session": old.session}
    headers["Content-Type"] = "application/env-model-json-patch"
    answer = await old.api.http.request(
        "PATCH", f"{base}/model/", content=json.dumps(body).encode(), headers=headers
    )
    assert (answer.status, said in answer.json()["error"]["message"]) == (400, True), answer.text


async def test_an_empty_environment_may_become_flat(old: Old) -> None:
    """An environment of /v1 without anything takes a flat service, and is flat from then on."""
    new = await old.api.environment("new")
    session = await old.api.session(new)
    body = {**GOOD["webServer"], "type": "webServer"}
    path = f"/environments/{new}"
    made = await old.call("POST", f"{path}/services", body, session=session)
    assert made.status == 200, made.text
    shown = (await old.call("GET", path, session=session)).json()
    assert shown["model_kind"] == "workflow"
    assert [one["type"] for one in shown["services"]] == ["webServer"]
