"""What may be written to a model, by every way into it: objects keep their headers, ids and classes."""

import copy
from collections.abc import Callable
from typing import Any

Api = Any  # the fixture of conftest.py
PATCH = "application/env-model-json-patch"
Body = dict[str, Any]
#: An object of a component, and what is wrong with it; the error begins with the path of that.
DAMAGES: dict[str, tuple[Callable[[Body], object], str]] = {
    "no header": (lambda one: one.update({"?": 5}), "? must be an object"),
    "nothing in it": (lambda one: one.update({"?": {}}), "?/type"),
    "null": (lambda one: one.update({"?": None}), "? must be an object"),
    "a list": (lambda one: one.update({"?": [{"type": "a"}]}), "? must be an object"),
    "no type": (lambda one: one["?"].pop("type"), "?/type"),
    "number as type": (lambda one: one["?"].update(type=5), "?/type"),
    "empty type": (lambda one: one["?"].update(type=""), "?/type"),
    "blank type": (lambda one: one["?"].update(type=" "), "?/type"),
    "only a version": (lambda one: one["?"].update(type="/1.0"), "?/type"),
    "empty id": (lambda one: one["?"].update(id=""), "?/id"),
    "number as id": (lambda one: one["?"].update(id=5), "?/id"),
    "an id twice": (lambda one: one.update(twin=copy.deepcopy({"?": one["?"]})), "have the id"),
    "actions": (lambda one: one["?"].update(_actions=[]), "?/_actions"),
    "name": (lambda one: one["?"].update(name=5), "?/name"),
    "metadata": (lambda one: one["?"].update(metadata="x"), "?/metadata"),
    "dependencies": (lambda one: one["?"].update(dependencies=[]), "?/dependencies"),
    "destroyed": (lambda one: one["?"].update(destroyed="no"), "?/destroyed"),
    "destroyed already": (lambda one: one["?"].update(destroyed=True), "?/destroyed"),
    "package": (lambda one: one["?"].update(package={}), "?/package"),
    "class version": (lambda one: one["?"].update(classVersion=[]), "?/classVersion"),
}
#: What is written at a path below an object, and whether it may be. ``...`` is a DELETE.
BELOW: list[tuple[str, Any, bool]] = [
    *(("/?", value, False) for value in (..., {}, None, 5, "x", [])),
    ("/?", {"type": "org.App"}, False),
    ("/?", {"id": "ID"}, False),
    ("/?", {"id": "ID", "type": "org.Other"}, False),
    ("/?", {"id": "other", "type": "org.App"}, False),
    ("/?", {"id": "ID", "type": "org.App", "name": "mine"}, True),
    *(("/?/type", value, False) for value in (..., None, 5, "", " ", {}, "io.murano.Application")),
    ("/?/type", "org.App/1.2.3", True),
    ("/?/type", "org.App", True),
    *(("/?/id", value, False) for value in (..., None, 5, "", "other")),
    ("/?/id", "ID", True),
    *(("/?/_actions", value, False) for value in (5, [], "x")),
    ("/?/metadata", {"a": 1}, True),
]


_MORE: Body = {"metadata": {}, "_actions": {}}


def component(id_: str = "") -> Body:
    """A component with an object in it."""
    block: Body = {"type": "org.App", **_MORE, **({"id": id_} if id_ else {})}
    inner = {"?": {"type": "org.App", **_MORE, **({"id": f"{id_}-in"} if id_ else {})}}
    return {"?": block, "name": "web", "inner": inner, "list": []}


async def test_no_way_into_a_model_takes_a_damaged_object(api: Api) -> None:
    """Each kind of damage by each way: 400 that names the path, and nothing is stored."""
    environment, session = await api.opened()
    e = f"/environments/{environment}"
    here = (await api.call("POST", f"{e}/services", component("here"), session=session)).json()
    template = (await api.call("POST", "/templates", {"name": "t", "services": [here]})).json()
    t = f"/templates/{template['id']}"
    before = (await api.call("GET", f"{e}/model", session=session)).json()

    def patched(op: str, path: str, value: Any) -> Body:
        return {"method": "PATCH", "path": f"{e}/model", "type": PATCH,
                "body": [{"op": op, "path": path, "value": value}]}  # fmt: skip

    def ways(new: Body) -> dict[str, Body]:
        def one(method: str, path: str, body: Any) -> Body:
            return {"method": method, "path": path, "body": body}

        return {
            "add": one("POST", f"{e}/services", new),
            "add several": one("POST", f"{e}/services", [component("fine"), new]),
            "add to a list": one("POST", f"{e}/services/here/list", new),
            "replace all": one("PUT", f"{e}/services", [new]),
            "replace one": one("PUT", f"{e}/services/here", new),
            "set a property": one("PUT", f"{e}/services/here/inner", new),
            "set deep": one("PUT", f"{e}/services/here/name", {"a": [{"b": new}]}),
            "patch: add": patched("add", "/services/-", new),
            "patch: replace": patched("replace", "/services/0", new),
            "patch: property": patched("add", "/other", {"a": new}),
            "patch: all": patched("replace", "/services", [new]),
            "create": one("POST", "/environments", {"name": "n", "services": [new]}),
            "create with": one("POST", "/environments", {"name": "n", "other": [new]}),
            "template": one("POST", "/templates", {"name": "n", "services": [new]}),
            "add to template": one("POST", f"{t}/services", new),
            "replace in template": one("PUT", f"{t}/services/here", new),
            "set in template": one("PUT", f"{t}/services/here/inner", new),
            "of template": one("POST", f"{t}/create-environment", {"name": "n", "other": new}),
        }

    problems: list[str] = []
    for damage, (harm, says) in DAMAGES.items():
        for deep in (False, True):
            new = component("new")
            harm(new["inner"] if deep else new)
            for way, given in ways(new).items():
                sent = copy.deepcopy(given)
                answer = await api.call(
                    sent.pop("method"), sent.pop("path"), sent.pop("body"), session=session, **sent
                )
                if answer.status != 400 or says not in answer.json()["error"]["message"]:
                    problems.append(f"{way}, {damage}, {deep}: {answer.status} {answer.text[:300]}")
    assert not problems, "\n".join(problems)
    assert (await api.call("GET", f"{e}/model", session=session)).json() == before
    stored = (await api.call("GET", t)).json()
    assert stored["services"] == template["services"]
    for way, given in ways(component()).items():
        if way.startswith("replace") or "all" in way:
            continue  # they would take out what the next ones are about
        sent = copy.deepcopy(given)
        answer = await api.call(
            sent.pop("method"), sent.pop("path"), sent.pop("body"), session=session, **sent
        )
        assert answer.status in (200, 409), (way, answer.text)


async def test_an_object_keeps_its_id_and_its_class(api: Api) -> None:
    """What is written below ``?``, by the tree, by patches and in templates, as whole objects are."""
    problems: list[str] = []
    number = 0
    for below, value, may in BELOW:
        for inside in ("", "/inner"):
            number += 1
            id_ = f"x{number}"
            environment, session = await api.opened(f"e{number}")
            e = f"/environments/{environment}"
            await api.call("POST", f"{e}/services", component(id_), session=session)
            template = (
                await api.call("POST", "/templates", {"name": id_, "services": [component(id_)]})
            ).json()["id"]
            own = f"{id_}-in" if inside else id_
            given = own if value == "ID" else value
            if isinstance(value, dict) and value.get("id") == "ID":
                given = {**value, "id": own}
            gone = value is ...
            op = {"op": "remove"} if gone else {"op": "replace", "value": given}
            patch = [{**op, "path": f"/services/0{inside}{below}"}]
            method, body = ("DELETE", None) if gone else ("PUT", given)
            for way in ("tree", "patch", "template"):
                if way == "patch":
                    answer = await api.call(
                        "PATCH", f"{e}/model", patch, session=session, type=PATCH
                    )
                else:
                    base = f"/templates/{template}" if way == "template" else e
                    path = f"{base}/services/{id_}{inside}{below.replace('?', '%3F')}"
                    # As bytes: a body of null is one.
                    answer = await api.call(
                        method, path, body, session=session,
                        **({} if gone else {"type": "application/json"}),
                    )  # fmt: skip
                if answer.status != (200 if may else 400):
                    problems.append(
                        f"{way} {inside}{below} {value!r}: {answer.status} {answer.text[:200]}"
                    )
                if not may and answer.status == 400:
                    said = answer.json()["error"]["message"]
                    if "?" not in said:
                        problems.append(f"{way} {inside}{below} {value!r} says {said}")
    assert not problems, "\n".join(problems)


async def test_a_deployed_object_keeps_its_class(api: Api) -> None:
    """Neither the whole object changes it, nor where it is moved to; another version of it is the same."""
    environment, session = await api.opened()
    e = f"/environments/{environment}/services"
    await api.call("POST", e, component("a"), session=session)
    draft = {"?": {"type": "org.Draft", "id": "a"}}
    assert (await api.call("PUT", f"{e}/a", draft, session=session)).status == 200
    assert (await api.call("PUT", f"{e}/a", component("a"), session=session)).status == 200
    await api.deploy(environment, session)
    await api.finish()
    session = await api.session(environment)
    moved = {"?": {"type": "org.App", "id": "b"}, "inner": draft}
    newer = component("a")
    newer["?"]["type"] = "org.App/2.0.0@org.app"
    same = {"?": {"type": "org.App"}, "name": "same"}
    for method, path, body, status in (
        ("PUT", f"{e}/a", draft, 400),
        ("PUT", e, [draft], 400),
        ("PUT", e, [moved], 400),
        ("PUT", f"{e}/a", newer, 200),
        ("PUT", f"{e}/a", same, 200),
    ):
        answer = await api.call(method, path, body, session=session)
        assert answer.status == status, (path, body, answer.text)
    left = (await api.call("GET", e, session=session)).json()
    assert [one["?"]["id"] for one in left] == ["a"]
    other = {"?": {"type": "org.Draft"}}
    assert (await api.call("PUT", f"{e}/a", other, session=session)).json()["?"]["id"] != "a"


async def test_applications_have_one_place(api: Api) -> None:
    """``applications`` is what engines call the services: nothing is written there beside them."""
    environment, session = await api.opened()
    given = {"name": "n", "applications": [component("a")]}
    assert (await api.call("POST", "/environments", given)).status == 400
    patch = [{"op": "add", "path": "/applications", "value": []}]
    path = f"/environments/{environment}/model"
    answer = await api.call("PATCH", path, patch, session=session, type=PATCH)
    assert answer.status == 400
    assert "services" in answer.json()["error"]["message"]


async def test_flat_services_keep_theirs_in_both_dialects(api: Api) -> None:
    """The id, the type and the creation of a flat service, and whose its environment is, do not change."""
    headers = {"X-Auth-Token": "ann"}
    made = await api.http.request("POST", "/environments", json={"name": "f"}, headers=headers)
    e = f"/environments/{made.json()['id']}"
    opened = await api.http.request("POST", f"{e}/configure", headers=headers)
    session = opened.json()["id"]
    headers["X-Configuration-Session"] = session
    service = {"type": "linuxTelnetService", "id": "s", "name": "t", "units": [{"id": "u"}]}
    added = await api.http.request("POST", f"{e}/services", json=service, headers=headers)
    assert added.status == 200, added.text
    for base in ("", "/v1"):
        for below in ("id", "type", "created", "units/u/id"):
            for method, body in (("DELETE", None), ("PUT", "other"), ("PUT", 5)):
                path = f"{base}{e}/services/s/{below}"
                answer = await api.http.request(method, path, json=body, headers=headers)
                assert answer.status == 400, (method, path, answer.text)
    for path, status in (("/id", 403), ("/tenant_id", 403), ("/services/0/type", 400),
                         ("/services/s/id", 400), ("/services/0/units/0/id", 400)):  # fmt: skip
        for op in ("remove", "replace"):
            patch = [{"op": op, "path": path, "value": "x"}]
            answer = await api.call("PATCH", f"{e}/model", patch, session=session, type=PATCH)
            assert answer.status == status, (op, path, answer.text)
