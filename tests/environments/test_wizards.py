"""Wizards over HTTP: forms of packages, filled in page by page."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import delete, update
from tests.environments.conftest import next_call

from vetro.catalog import Catalog
from vetro.catalog.tables import packages, parents
from vetro.environments import CallAnswer, Environments, environments_face
from vetro.http import NotFound, assemble
from vetro.http.client import HttpClient

Api = Any  # the fixture of conftest.py

FORM = """
Version: 2.4
Application:
  ?: {type: org.acme.App}
  size: $.main.size
  password: $.main.secret
  database: $.more.database
Forms:
  - main:
      fields:
        - {name: size, type: integer, initial: 2, minValue: 1, maxValue: 4}
        - {name: secret, type: password}
  - more:
      fields:
        - {name: database, type: org.acme.Database, required: false}
        - {name: note, type: string, label: $.main.size, required: false}
        - {name: image, type: image, required: false}
"""


async def wizard(api: Api, package_zip: Any, form: str = FORM, **extra: Any) -> dict[str, Any]:
    """Upload a package with a form and start to fill it in."""
    uploaded = await api.upload(package_zip(form=form))
    assert uploaded.status == 200, uploaded.text
    answer = await api.call("POST", "/wizards", {"package": uploaded.json()["id"], **extra})
    assert answer.status == 200, answer.text
    return answer.json()


def field(page: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in page["fields"] if one["name"] == name)


async def test_a_form_is_filled_in_and_makes_a_component(api: Api, package_zip: Any) -> None:
    """From the described form over refused and accepted pages to a component in the session."""
    environment, session = await api.opened()
    await api.add(
        environment, session, **{"?": {"id": "db1", "type": "org.acme.Database", "name": "main db"}}
    )
    made = await wizard(api, package_zip, environment_id=environment, session_id=session)
    assert [page["name"] for page in made["form"]["pages"]] == [
        "main",
        "more",
        "workflowManagement",
    ]
    assert field(made["form"]["pages"][0], "size")["constraints"] == {
        "min_value": 1,
        "max_value": 4,
    }
    objects = field(made["form"]["pages"][1], "database")
    assert objects["choices"] == [{"value": "db1", "label": "main db"}]
    path = f"/wizards/{made['id']}"

    answer = await api.call(
        "POST", f"{path}/pages/main", {"values": {"size": "9", "secret": "x"}}, session=session
    )
    assert (answer.status, answer.json()["valid"], answer.json()["next"]) == (200, False, "main")
    assert answer.json()["errors"]["size"] == ["Enter a number of at most 4"]
    values = {"size": "3", "secret": "Abcdef1!", "secret-clone": "Abcdef1!"}
    answer = await api.call("POST", f"{path}/pages/main", {"values": values}, session=session)
    assert (answer.json()["valid"], answer.json()["next"]) == (True, "more")
    assert field(answer.json()["page"], "note")["label"] == "3"
    answer = await api.call(
        "POST", f"{path}/pages/more", {"values": {"database": "db1"}}, session=session
    )
    assert answer.json()["errors"] == {}
    answer = await api.call(
        "POST", f"{path}/pages/workflowManagement", {"values": {"application_name": "shop"}}
    )
    assert (answer.json()["next"], answer.json()["complete"]) == (None, True)

    model = (await api.call("POST", f"{path}/build", session=session)).json()["model"]
    assert (model["size"], model["password"], model["database"]) == (3, "Abcdef1!", "db1")
    assert (model["?"]["name"], model["?"]["classVersion"]) == ("shop", "1.0.0")
    answer = await api.call("POST", f"{path}/finish", {}, session=session)
    assert answer.status == 200, answer.text
    services = (
        await api.call("GET", f"/environments/{environment}/services", session=session)
    ).json()
    assert [one["?"].get("name") for one in services] == ["main db", "shop"]
    shown = (await api.call("GET", path)).json()
    assert shown["component_id"] == answer.json()["component"]["?"]["id"]


async def test_a_wizard_survives_a_restart(api: Api, package_zip: Any, tmp_path: Any) -> None:
    """Another process finds what was entered; passwords stay but are not shown."""
    made = await wizard(api, package_zip)
    path = f"/v1/wizards/{made['id']}"
    values = {"size": 4, "secret": "Abcdef1!", "secret-clone": "Abcdef1!"}
    answer = await api.call("POST", f"/wizards/{made['id']}/pages/main", {"values": values})
    assert answer.json()["valid"], answer.text
    from .conftest import Users

    rooms = Environments(api.database)
    face = environments_face(Catalog(api.database, tmp_path / "packages"), rooms.tasks, Users())
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://again") as other:
        shown = (await other.request("GET", path, headers={"X-Auth-Token": "ann"})).json()
        page = shown["form"]["pages"][0]
        assert (page["submitted"], shown["form"]["next"]) == (True, "more")
        assert field(page, "size")["value"] == 4
        secret = field(page, "secret")
        assert (secret["value"], secret["filled"]) == (None, True)
        body = {"values": {"size": 1}}
        again = await other.request(
            "POST", f"{path}/pages/main", json=body, headers={"X-Auth-Token": "ann"}
        )
        assert again.json()["valid"], again.text


async def test_every_page_speaks_the_language_that_is_asked_for(api: Api, package_zip: Any) -> None:
    """The first page, too, which comes with the wizard; a language without texts gets the plain ones."""
    texts = "label: Size, label.de: Größe, description: How large, description.de: Wie groß"
    form = FORM.replace("{name: size,", f"{{name: size, {texts},")
    uploaded = await api.upload(package_zip(form=form))
    body = {"package": uploaded.json()["id"]}
    for language, label in (("de", "Größe"), ("fr", "Size")):
        begun = (await api.call("POST", f"/wizards?language={language}", body)).json()
        path = f"/wizards/{begun['id']}?language={language}"
        shown = (await api.call("GET", path)).json()
        path = f"/wizards/{begun['id']}/pages/main?language={language}"
        page = (await api.call("GET", path)).json()
        pages = [begun["form"]["pages"][0], shown["form"]["pages"][0], page]
        assert [field(one, "size")["label"] for one in pages] == [label] * 3


async def test_a_check_stores_nothing(api: Api, package_zip: Any) -> None:
    """One field is validated, and the page described for what was typed."""
    made = await wizard(api, package_zip)
    path = f"/wizards/{made['id']}/pages/main"
    body = {"values": {"size": 7}, "field": "size"}
    answer = (await api.call("POST", f"{path}/check", body)).json()
    assert (answer["valid"], list(answer["errors"])) == (False, ["size"])
    assert field(answer["page"], "size")["value"] == 7
    assert field((await api.call("GET", path)).json(), "size")["value"] == 2


@pytest.mark.parametrize("other", ["bob", "eve"])
async def test_wizards_belong_to_a_user(api: Api, package_zip: Any, other: str) -> None:
    """Another user of the project, or one of another project, finds none of them, by no call."""
    made = await wizard(api, package_zip)
    path = f"/wizards/{made['id']}"
    calls: list[tuple[str, str, Any]] = [
        ("GET", path, None),
        ("DELETE", path, None),
        ("GET", f"{path}/pages/main", None),
        ("GET", f"{path}/definition", None),
        ("POST", f"{path}/pages/main", {"values": {}}),
        ("POST", f"{path}/pages/main/check", {"values": {}}),
        ("POST", f"{path}/build", {}),
        ("POST", f"{path}/finish", {}),
    ]
    for verb, where, body in calls:
        answer = await api.call(verb, where, body, user=other)
        assert answer.status == 404, (verb, where)
    assert (await api.call("GET", "/wizards", user=other)).json() == {"wizards": []}
    assert [one["id"] for one in (await api.call("GET", "/wizards")).json()["wizards"]] == [
        made["id"]
    ]
    assert (await api.call("DELETE", path)).status == 200
    assert (await api.call("GET", path)).status == 404


@pytest.mark.parametrize(
    ("where", "body", "status", "text"),
    [
        ("", {"package": "none"}, 404, "none"),
        ("", {}, 400, "package is required"),
        ("", {"package": 1}, 400, "must be text"),
        ("", {"package": "x", "quick": "y"}, 400, "true or false"),
        ("", {"package": "x", "other": 1}, 400, "Unknown member 'other'"),
        ("", [], 400, "must be an object"),
        ("/{}/pages/none", {"values": {}}, 404, "has no page none"),
        ("/{}/pages/main", {"values": []}, 400, "values must be an object"),
        ("/{}/pages/main", {}, 400, "values must be an object"),
        ("/{}/pages/main/check", {"values": {}, "field": "none"}, 400, "no field none"),
        ("/{}/build", {}, 400, "Page main is not filled yet"),
        ("/{}/finish", {}, 400, "Say in environment_id"),
    ],
)
async def test_wrong_calls_say_what_is_wrong(
    api: Api, package_zip: Any, where: str, body: Any, status: int, text: str
) -> None:
    """Each wrong body and order of calls has its own 4xx with a reason."""
    made = await wizard(api, package_zip)
    answer = await api.call("POST", "/wizards" + where.replace("{}", made["id"]), body)
    assert (answer.status, text in answer.json()["error"]["message"]) == (status, True), answer.text


async def test_a_package_without_a_form_gets_one_of_its_class(api: Api, package_zip: Any) -> None:
    """An engine tells the class's schema, and the wizard asks for its inputs."""
    uploaded = (await api.upload(package_zip(form=""))).json()
    asked = asyncio.create_task(api.call("POST", "/wizards", {"package": uploaded["id"]}))
    try:
        while (claimed := await next_call(api.rooms.calls)) is None:
            await api.rooms.calls.queue.wait_for_work(5)
        lease, call = claimed
        assert (call.kind, call.class_name, call.class_version) == (
            "schema",
            "org.acme.App",
            "=1.0.0",
        )
        schema = {"properties": {"size": {"type": "integer", "default": 3, "title": "Size"}}}
        await api.rooms.calls.answer(lease, CallAnswer({"": schema}))
        made = (await asked).json()
    finally:
        asked.cancel()
    size = field(made["form"]["pages"][0], "size")
    assert (size["label"], size["value"], size["control"]) == ("Size", 3, "number")


async def test_objects_that_the_class_owns_are_entered_in_its_form(
    api: Api, package_zip: Any
) -> None:
    """The schema of their class is asked for, too; without it, what must be given is refused."""
    uploaded = (await api.upload(package_zip(form=""))).json()
    owned = {"muranoType": "org.other.Part", "owned": True, "type": "muranoObject"}
    part = {"properties": {"size": {"type": "integer"}}}
    for answer in (CallAnswer({"": part}), CallAnswer(failure="failed", message="no")):
        asked = asyncio.create_task(api.call("POST", "/wizards", {"package": uploaded["id"]}))
        whole = CallAnswer({"": {"properties": {"part": owned}}})
        expected = {"org.acme.App": ("=1.0.0", whole), "org.other.Part": ("*", answer)}
        try:
            for class_name, (version, given) in expected.items():
                while (claimed := await next_call(api.rooms.calls)) is None:
                    await api.rooms.calls.queue.wait_for_work(5)
                lease, call = claimed
                assert (call.class_name, call.class_version) == (class_name, version)
                await api.rooms.calls.answer(lease, given)
            given_back = await asked
            made = given_back.json()
        finally:
            asked.cancel()
        if answer.failure:
            assert (given_back.status, made["error"]["type"]) == (400, "NoForm")
            assert "its input part must be given, and owns" in made["error"]["message"]
            continue
        assert [one["name"] for one in made["form"]["pages"][0]["fields"]] == ["part_size"]
        text = (await api.call("GET", f"/wizards/{made['id']}/definition")).json()["text"]
        assert "part_size" in text
        assert text.startswith("Version: 2.4")


async def test_parameters_come_from_a_static_action(api: Api, package_zip: Any) -> None:
    """ParametersSource is called once, when the wizard starts."""
    form = (
        "Application: {'?': {type: org.acme.App}}\nParametersSource: read\n"
        "Forms: [{p: {fields: [{name: x, type: string, initial: $start}]}}]\n"
    )
    uploaded = (await api.upload(package_zip(form=form))).json()
    body = {"package": uploaded["id"]}
    made = await answered(api, api.call("POST", "/wizards", body), CallAnswer({"start": "here"}))
    page = made["form"]["pages"][0]
    assert (field(page, "x")["value"], page["problem"]) == ("here", None)
    path = f"/wizards/{made['id']}/pages/p"
    assert (await api.call("POST", path, {"values": {}})).json()["valid"]


async def test_parameters_that_fail_are_an_error_of_the_page(api: Api, package_zip: Any) -> None:
    """It names the method; nothing is accepted until it answers to a refresh, and what was typed stays."""
    form = (
        "Application: {'?': {type: org.acme.App}}\nParametersSource: org.acme.Own.read\n"
        "Forms: [{p: {fields: [{name: x, type: string, label: $start, required: false}]}}]\n"
    )
    uploaded = (await api.upload(package_zip(form=form))).json()
    failed = CallAnswer(failure="failed", message="no luck")
    body = {"package": uploaded["id"]}
    made = await answered(api, api.call("POST", "/wizards", body), failed)
    text = made["form"]["pages"][0]["problem"]
    assert "org.acme.Own.read" in text
    assert "no luck" in text
    path = f"/wizards/{made['id']}"
    refused = (await api.call("POST", f"{path}/pages/p", {"values": {"x": "typed"}})).json()
    assert (refused["valid"], refused["errors"]) == (False, {"page": [text]})
    again = api.call("GET", f"{path}?refresh=true")
    shown = (await answered(api, again, CallAnswer({"start": "here"})))["form"]["pages"][0]
    one = field(shown, "x")
    assert (shown["problem"], one["label"], one["value"]) == (None, "here", "typed")
    accepted = (await api.call("POST", f"{path}/pages/p", {"values": {"x": "typed"}})).json()
    assert accepted["valid"], accepted


async def answered(
    api: Api, request: Any, answer: CallAnswer, methods: tuple[str, ...] = ("read",)
) -> dict[str, Any]:
    """What a request returns whose static action, or question for a schema, an engine answers."""
    asked = asyncio.create_task(request)
    try:
        while (claimed := await next_call(api.rooms.calls)) is None:
            await api.rooms.calls.queue.wait_for_work(5)
        lease, call = claimed
        assert call.methods == list(methods)
        assert call.class_name in ("org.acme.App", "org.acme.Own")
        await api.rooms.calls.answer(lease, answer)
        return (await asked).json()
    finally:
        asked.cancel()


async def test_a_component_is_changed_by_its_form_again(api: Api, package_zip: Any) -> None:
    """The values come back; ids and what a deployment has set stay."""
    environment, session = await api.opened()
    form = (
        "Version: 2.1\nApplication: {'?': {type: org.acme.App}, size: $.p.size, node: {'?': {type: N}}}\n"
        "Forms: [{p: {fields: [{name: size, type: integer, initial: 2}]}}]\n"
    )
    made = await wizard(api, package_zip, form, environment_id=environment, quick=True)
    path = f"/wizards/{made['id']}"
    await api.call("POST", f"{path}/pages/p", {"values": {"size": 3}})
    first = (await api.call("POST", f"{path}/finish", {}, session=session)).json()["component"]
    where = f"/environments/{environment}/services/{first['?']['id']}"
    await api.call("PUT", where, {**first, "url": "http://x"}, session=session)
    body = {"component_id": first["?"]["id"], "environment_id": environment}
    again = (await api.call("POST", "/wizards", body, session=session)).json()
    assert field(again["form"]["pages"][0], "size")["value"] == 3
    path = f"/wizards/{again['id']}"
    await api.call("POST", f"{path}/pages/p", {"values": {"size": 4}})
    second = (await api.call("POST", f"{path}/finish", {}, session=session)).json()["component"]
    assert (second["size"], second["url"]) == (4, "http://x")
    assert second["?"]["id"] == first["?"]["id"]
    assert second["node"]["?"]["id"] == first["node"]["?"]["id"]
    services = (
        await api.call("GET", f"/environments/{environment}/services", session=session)
    ).json()
    assert [one["size"] for one in services] == [4]
    other = {"component_id": "none", "environment_id": environment}
    assert (await api.call("POST", "/wizards", other)).status == 404


async def test_secrets_of_forms_are_kept_beside_the_model(api: Api, package_zip: Any) -> None:
    """encryptData() leaves a reference in the model; the project finds the secret, others do not."""
    form = (
        "Version: 2.1\nApplication: {'?': {type: org.acme.App}, key: encryptData($.p.word)}\n"
        "Forms: [{p: {fields: [{name: word, type: string}]}}]\n"
    )
    environment, session = await api.opened()
    made = await wizard(api, package_zip, form, environment_id=environment, quick=True)
    path = f"/wizards/{made['id']}"
    await api.call("POST", f"{path}/pages/p", {"values": {"word": "sesame"}})
    built = (await api.call("POST", f"{path}/build", session=session)).json()["model"]
    done = (await api.call("POST", f"{path}/finish", {}, session=session)).json()["component"]
    assert "sesame" not in str([done, built])
    secrets = api.rooms.form_secrets
    assert await secrets.read("p", done["key"]) == await secrets.read("p", built["key"]) == "sesame"
    assert await secrets.read("q", done["key"]) is None
    await api.call("DELETE", f"/environments/{environment}?abandon=true")
    # The one of the object that was only built may be in a template: it stays with the project.
    kept = [await secrets.read("p", one["key"]) for one in (done, built)]
    assert kept == [None, "sesame"]


async def test_a_package_whose_class_inherits_is_offered(api: Api, package_zip: Any) -> None:
    """For an object field: also through another package's class, and of packages from before the index."""
    for name, parent in (("org.acme.Base", "io.x.Db"), ("org.acme.Own", "org.acme.Base")):
        klass = f"Name: {name}\nExtends: {parent}\n"
        assert (await api.upload(package_zip(name, klass=klass))).status == 200
    form = (
        "Version: 2.1\nApplication: {'?': {type: org.acme.App}}\n"
        "Forms: [{p: {fields: [{name: db, type: io.x.Db}]}}]\n"
    )
    made = await wizard(api, package_zip, form)
    offered = field(made["form"]["pages"][0], "db")["packages"]
    assert [one["name"] for one in offered] == ["Base", "Own"]
    async with api.database.transaction() as tx:
        await tx.execute(delete(parents))
        await tx.execute(update(packages).values(parents_known=False))
    path = f"/wizards/{made['id']}?refresh=true"
    again = (await api.call("GET", path)).json()
    assert field(again["form"]["pages"][0], "db")["packages"] == offered


async def test_a_form_of_a_template_offers_its_components(api: Api, package_zip: Any) -> None:
    """And takes no others; a template that the project may not read is none."""
    there = {"?": {"id": "b1", "type": "io.x.Db", "name": "base"}}
    template = (await api.call("POST", "/templates", {"name": "t", "services": [there]})).json()[
        "id"
    ]
    form = (
        "Version: 2.1\nApplication: {'?': {type: org.acme.App}, db: $.p.db}\n"
        "Forms: [{p: {fields: [{name: db, type: io.x.Db}]}}]\n"
    )
    made = await wizard(api, package_zip, form, template_id=template, quick=True)
    offered = field(made["form"]["pages"][0], "db")
    assert (offered["choices"], offered["value"]) == ([{"value": "b1", "label": "base"}], "b1")
    page = f"/wizards/{made['id']}/pages/p"
    assert not (await api.call("POST", page, {"values": {"db": "b2"}})).json()["valid"]
    assert (await api.call("POST", page, {"values": {"db": "b1"}})).json()["complete"]
    body = {"package": made["package"]["id"], "template_id": template}
    patch = [{"op": "replace", "path": "/is_public", "value": True}]
    shared = await api.call(
        "PATCH", f"/catalog/packages/{made['package']['id']}", patch, user="root",
        type="application/murano-packages-json-patch",
    )  # fmt: skip
    assert shared.status == 200, shared.text
    assert (await api.call("POST", "/wizards", body, user="eve")).status == 404


SERVICE_FORM = """
Version: 1
unitTemplates: [{}]
Forms:
- p:
    fields:
    - {name: name, type: string}
    - {name: adminPassword, type: password, required: false}
    - {name: domain, type: domain, required: false}
    - {name: count, type: instance, attributeNames: units, initial: 1, minValue: 1, maxValue: 3}
"""


async def service_form(_project: str, name: str) -> tuple[str, str, str]:
    """The form of the services that there are."""
    if name not in ("webServer", "own.app"):
        raise NotFound(f"There is no service {name}")
    return name.title(), "2", SERVICE_FORM


async def test_a_service_of_the_repository_is_filled_in(api: Api, tmp_path: Any) -> None:
    """The form of a v0.3 service makes a flat one; filled in again it keeps ids and passwords."""
    from .conftest import Users

    face = environments_face(
        Catalog(api.database, tmp_path / "packages"),
        api.rooms.tasks,
        Users(),
        service_form=service_form,
    )
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://flat") as http:
        again = type(api)(http, api.database, api.rooms)
        head = {"X-Auth-Token": "ann"}
        environment = await again.environment()
        session = await again.session(environment)
        head |= {"X-Configuration-Session": session}
        services = f"/environments/{environment}/services"
        ad: dict[str, Any] = {
            "type": "activeDirectory", "name": "ad", "domain": "acme.dc", "adminPassword": "p",
            "units": [{"isMaster": True, "recoveryPassword": "r"}],
        }  # fmt: skip
        added = await http.request("POST", services, json=ad, headers=head)
        assert added.status == 200, added.text

        async def filled(start: dict[str, Any], values: dict[str, Any]) -> Any:
            place = {"environment_id": environment, "session_id": session}
            made = await again.call("POST", "/wizards", {**start, **place})
            assert made.status == 200, made.text
            page = f"/wizards/{made.json()['id']}/pages/p"
            answer = await again.call("POST", page, {"values": values}, session=session)
            assert answer.json()["valid"], answer.text
            done = await again.call("POST", f"/wizards/{made.json()['id']}/finish", place)
            assert done.status == 200, done.text
            return done.json()["component"]

        secret = {"adminPassword": "Abcdef1!", "adminPassword-clone": "Abcdef1!"}
        values = {"name": "web", "domain": added.json()["id"], "count": 1, **secret}
        made = await filled({"service": "webServer"}, values)
        assert (made["type"], made["name"], made["domain"]) == ("webServer", "web", "acme.dc")
        assert "adminPassword" not in made
        unit = made["units"][0]["id"]
        changed = await filled({"component_id": made["id"]}, {"name": "www", "count": 2})
        assert (changed["id"], changed["name"], changed["domain"]) == (made["id"], "www", "acme.dc")
        assert [one["id"] == unit for one in changed["units"]] == [True, False]
        own = await filled({"service": "own.app"}, {"name": "own", "count": 1})
        read = (await http.request("GET", services, headers=head)).json()
        assert [one["id"] for one in read] == [added.json()["id"], made["id"], own["id"]]

        assert (await again.call("POST", "/wizards", {"service": "none"})).status == 404
        other = await again.environment("other")
        taken = await again.session(other)
        await again.add(other, taken)
        started = await again.call("POST", "/wizards", {"service": "own.app"})
        path = f"/wizards/{started.json()['id']}"
        body = {"values": {"name": "x", "count": 1}}
        assert (await again.call("POST", f"{path}/pages/p", body)).json()["valid"]
        to = {"environment_id": other, "session_id": taken}
        refused = await again.call("POST", f"{path}/finish", to)
        assert (refused.status, "model_kind muranopl" in refused.text) == (400, True)
    assert (await api.call("POST", "/wizards", {"service": "webServer"})).status == 404


async def test_components_of_inheriting_classes_are_offered(api: Api, package_zip: Any) -> None:
    """A field takes what inherits its class, over packages; circles and unknown classes do not hurt."""
    for name, extends in (
        ("org.acme.Sql", "[org.acme.Database, org.acme.Postgres]"),
        ("org.acme.Postgres", "org.acme.Sql"),
        ("org.acme.Cache", "org.acme.Nowhere"),
    ):
        klass = f"Name: {name}\nExtends: {extends}\n"
        assert (await api.upload(package_zip(name, klass=klass))).status == 200
    environment, session = await api.opened()
    for id_, type_ in (("pg", "Postgres/1.0.0"), ("cache", "Cache"), ("lost", "Lost")):
        header = {"id": id_, "type": f"org.acme.{type_}", "name": id_}
        await api.add(environment, session, **{"?": header})
    made = await wizard(api, package_zip, environment_id=environment, session_id=session)
    objects = field(made["form"]["pages"][1], "database")
    assert objects["choices"] == [{"value": "pg", "label": "pg"}]
