"""What may be written to a model, by every way into it: objects keep their headers, ids and classes."""

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from vetro.environments.checking import Before, check_model
from vetro.environments.model import find_action, walk
from vetro.environments.model_forms import FORMS, form_problem
from vetro.http import BadRequest, NotFound

Api = Any  # the fixture of conftest.py
PATCH = "application/env-model-json-patch"
Body = dict[str, Any]
_ON: Body = {"subscriber": "here", "handler": None}
#: Values that members of a header cannot have.
BAD_MEMBERS: dict[str, list[Any]] = {
    "id": [
        *("a/b", "/", ".", "..", "?", " ", " a", "a ", "a\nb", "a\x00", "\x7f", "a\u2028b", "\t"),
        *("x" * 256, "x" * 10_000, True, {}, ["a"]),
    ],
    "type": [
        *(
            "a b",
            " org.App",
            "org.App ",
            "org..App",
            ".App",
            "org/",
            "org.App/ ",
            "org.App@",
            "a@b@c",
        ),
        *(
            "org.App/1/2",
            "org.App/latest",
            "org.App/1.0@",
            "org.App/1.0@a b",
            "a:b",
            "a\n",
            "x" * 501,
        ),
    ],
    "package": [{}, "", " ", "a b", "a/b"],
    "classVersion": [[], "latest", True],
    "dependencies": [
        *([], "x", {"onDestruction": {}}, {"onDestruction": [5]}, {"onDestruction": [{}]}),
        *({"onDestruction": [{**_ON, "subscriber": one}]} for one in (5, "", "a/b", None)),
        *({"onDestruction": [{**_ON, "handler": one}]} for one in (5, "", "a b", {})),
        *({"other": []}, {"onDestruction": [{**_ON, "more": 1}]}),
    ],
    "_actions": [
        *(5, {"x": 5}, {"x": {}}, {"x": {"name": "a"}}, {"x": {"name": 5, "enabled": True}}),
        *({"x": {"name": "a", "enabled": 1}},),
    ],
}


def header_of(one: Body, **members: Any) -> None:
    """Write members of an object's header."""
    one["?"].update(members)


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
    "destroyed": (lambda one: one["?"].update(destroyed="no"), "?/destroyed"),
    "destroyed already": (lambda one: one["?"].update(destroyed=True), "?/destroyed"),
    **{
        f"{key} {value!r:.20}": (partial(header_of, **{key: value}), f"?/{key}")
        for key, values in BAD_MEMBERS.items()
        for value in values[:2]
    },
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


@pytest.mark.parametrize("key", BAD_MEMBERS)
def test_a_member_of_a_header_has_its_form(key: str) -> None:
    """Each value that no engine can read is refused, and the path of it is said."""
    for value in BAD_MEMBERS[key]:
        new = component("new")
        header_of(new["inner"], **{key: value})
        with pytest.raises(BadRequest, match=rf"services/0/inner/\?/{key} "):
            check_model({"services": [new]})


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
            "regions": one("POST", "/environments", {"name": "n", "regions": {"": new}}),
            "patch: regions": patched("add", "/regions", {"": new}),
            "patch: networks": patched("add", "/defaultNetworks/more", [new]),
            "action": one("POST", f"{e}/actions/none", {"one": [new]}),
            "static action": one("POST", "/actions", {**static, "parameters": {"one": new}}),
        }

    # Without a class: were the parameters not looked at first, that would be said.
    static = {"className": "", "methodName": "m"}
    #: What a program is called with may be of the argument's class, and gets ids of its own.
    called = ("no type", "nothing in it", "an id twice")

    problems: list[str] = []
    for number, (damage, (harm, says)) in enumerate(DAMAGES.items()):
        # Each damage takes turns with the ways: half of them have it deep.
        for turn, way in enumerate(ways({})):
            if "action" in way and damage in called:
                continue
            deep = bool((number + turn) % 2)
            new = component("new")
            harm(new["inner"] if deep else new)
            sent = ways(new)[way]
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
        if way.startswith("replace") or "all" in way or "action" in way:
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


async def test_a_deployed_id_is_of_one_object_in_the_whole_model(api: Api) -> None:
    """Whatever becomes of an id that is deployed, nothing else hides that its object is to be destroyed."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/model"
    net = "/defaultNetworks/environment"
    root = (await api.call("GET", path)).json()
    network = root["defaultNetworks"]["environment"]
    own = network["?"]["id"]

    async def patch(*operations: tuple[str, str, Any]) -> tuple[int, str]:
        body = [
            {"op": op, "path": at, **({} if value is ... else {"value": value})}
            for op, at, value in operations
        ]
        answer = await api.call("PATCH", path, body, session=session, type=PATCH)
        return answer.status, answer.text

    def other(id_: str, class_: str = "org.Other") -> Body:
        return {"?": {"id": id_, "type": class_}, "name": "n"}

    region = other("region", "io.murano.CloudRegion")
    given = (
        ("add", "/services", [component("a"), component("b")]),
        ("add", "/regions", {"": region}),
        # Nothing is deployed yet: anything may become of it.
        ("replace", net, other(own, "org.Network")),
        ("replace", net, network),
    )
    assert (await patch(*given))[0] == 200
    await api.deploy(environment, session)
    await api.finish()
    session = await api.session(environment)
    gone = ("remove", "/services/a", ...)
    hidden: list[tuple[tuple[str, str, Any], ...]] = [
        (gone, ("replace", "/defaultNetworks/flat", other("a"))),
        (gone, ("replace", net, {**network, "?": {**network["?"], "id": "new"}, "of": other("a")})),
        (gone, ("replace", net, other("a"))),
        (gone, ("add", "/regions/x", other("a"))),
        (gone, ("add", "/regions/~1", {"deep": [other("a-in")]})),
        (gone, ("add", "/more", other("a"))),
        (gone, ("add", "/services/b/list/0", other("a-in"))),
        (gone, ("add", "/services/-", component("c")), ("add", "/services/c/inner", other("a"))),
        # Without a header: the class is a key (muranopl.md §13).
        (gone, ("add", "/services/b/inner", {":org.Other": {}, "id": "a"})),
        (gone, ("add", "/services/b/inner", {"x:org.App": {}, "id": "a", "destroyed": True})),
        (("replace", "/regions", {}), ("add", "/services/b/list/0", other("region"))),
        (("remove", "/regions", ...), ("add", "/services/0", other("region"))),
        (("replace", net, other("new")), ("add", "/services/b/list/0", other(own))),
        (("replace", net, other(own)),),
        (("add", f"{net}/?/type", "org.Other"),),
    ]
    before = (await api.call("GET", path, session=session)).json()
    for operations in hidden:
        status, text = await patch(*operations)
        assert status == 400, (operations, text)
        assert "cannot become" in text
    assert (await api.call("GET", path, session=session)).json() == before
    for operations in (
        (gone, ("add", "/services/b/inner", other("a", "org.App/2.0.0"))),
        (("replace", net, other("new")),),
        (("replace", "/?/type", "org.Environment"),),
        (("add", "/plain", {"http://a": 1, "id": "anything"}),),
    ):
        assert (await patch(*operations))[0] == 200, operations


async def test_every_id_that_is_taken_can_be_addressed(api: Api) -> None:
    """What is an id can stand in a path, in every call of the tree."""
    environment, session = await api.opened()
    at = f"/environments/{environment}/services"
    ids = ["a b", "ü", "0", "-", "a%2Fb", "#", "x" * 255, "...", "\\", "a:b", "?a"]
    added = [{"?": {"id": one, "type": "org.App"}} for one in ids]
    assert (await api.call("POST", at, added, session=session)).status == 200
    for one in ids:
        path = f"{at}/{quote(one, safe='')}"
        assert (await api.call("GET", path, session=session)).json()["?"]["id"] == one
        assert (await api.call("PUT", f"{path}/name", "x", session=session)).status == 200
        assert (await api.call("DELETE", path, session=session)).status == 200
    assert (await api.call("GET", at, session=session)).json() == []


#: Networks, and whether an environment can have them.
NETWORK: Body = {"?": {"type": "o.N"}, "name": "n"}
NETWORKS: list[tuple[Any, bool]] = [
    *((value, False) for value in ([], "x", 5, {}, {"environment": NETWORK}, {"flat": None})),
    *(({"environment": value, "flat": None}, False) for value in (5, [], {}, {"name": "n"})),
    *(({"environment": NETWORK, "flat": value}, False) for value in (5, [], {}, {"name": "n"})),
    *(
        ({"environment": {**NETWORK, key: value}, "flat": None}, False)
        for key, value in (
            *(("name", 5), ("name", None), ("autoUplink", "yes"), ("externalRouterId", 5)),
            *(("subnetCidr", []), ("openstackId", 5), ("regionName", {}), ("dnsNameServers", "x")),
            *(("autogenerateSubnet", 1), ("internalNetworkName", 5)),
        )
    ),
    ({"environment": NETWORK, "flat": True}, True),
    ({"environment": NETWORK, "flat": NETWORK}, True),
    ({"environment": {**NETWORK, "subnetCidr": None, "more": 1}, "flat": None}, True),
    ({"environment": {"?": {"type": "o.N"}, "internalNetworkName": "lan"}, "flat": None}, True),
]
REGIONS: list[tuple[Any, bool]] = [
    *((value, False) for value in ([], "x", 5)),
    ({"": {"?": {"type": "o.R"}}}, True),
]


async def test_the_root_has_its_forms_whichever_way_it_comes(api: Api) -> None:
    """A new environment, one of a template and a patch take the same networks and regions (§5.1, §5.4)."""
    template = (await api.call("POST", "/templates", {"name": "t"})).json()["id"]
    environment, session = await api.opened()
    problems: list[str] = []
    cases = [("defaultNetworks", *case) for case in NETWORKS]
    cases += [("regions", *case) for case in REGIONS]
    cases += [("name", value, False) for value in ("", " ", "x" * 256, 5, None)]
    for number, (key, value, may) in enumerate(cases):
        op = "add" if key == "regions" else "replace"
        with_id = json.loads(json.dumps(value).replace('"type"', '"id": "ID", "type"'))
        for at, node in enumerate(walk(with_id)):
            node["?"]["id"] = f"id{at}"
        patch = [{"op": op, "path": f"/{key}", "value": with_id}]
        for way, call in {
            "create": ("POST", "/environments", {"name": f"c{number}", key: value}),
            "of template": (
                "POST",
                f"/templates/{template}/create-environment",
                {"name": f"t{number}", key: value},
            ),
            "patch": ("PATCH", f"/environments/{environment}/model", patch),
        }.items():
            kind = {"type": PATCH} if way == "patch" else {}
            answer = await api.call(*copy.deepcopy(call), session=session, **kind)
            if answer.status != (200 if may else 400):
                problems.append(f"{way} {key} {value}: {answer.status} {answer.text[:200]}")
        session = await api.session(environment)
    assert not problems, "\n".join(problems)


def test_what_was_wrong_can_be_left_and_mended() -> None:
    """Objects of an earlier release do not stop a change of others, wherever they move in the model."""
    old = component("a/b")
    old["?"]["dependencies"] = {"onDestruction": "x"}
    model: Body = {"?": {"type": "e.E", "id": "e"}, "services": [component("c"), old], "regions": 5}
    before = Before.of(model)
    del model["services"][0]
    check_model(model, before)
    model["services"].append({"?": {"type": "org.App", "id": "c/d"}})
    with pytest.raises(BadRequest, match="services/1/"):
        check_model(model, before)


async def test_a_new_environment_may_have_no_network_of_its_own(api: Api) -> None:
    """Or the id of one that a component has: programs have both, and a deployment writes them so."""
    for number, one in enumerate((None, "lan")):
        body = {"name": f"e{number}", "defaultNetworks": {"environment": one, "flat": None}}
        made = (await api.call("POST", "/environments", body)).json()
        path = f"/environments/{made['id']}/model"
        session = await api.session(made["id"])
        patch = [{"op": "add", "path": "/more", "value": 1}]
        assert (await api.call("PATCH", path, patch, session=session, type=PATCH)).status == 200
        root = (await api.call("GET", path, session=session)).json()
        assert root["defaultNetworks"] == body["defaultNetworks"]


def test_of_two_mistakes_in_a_header_each_can_be_mended() -> None:
    """The second was there before, too: a change that mends the first is not stopped by it."""
    old = component("a")
    old["?"] |= {"name": 5, "package": "a b"}
    model: Body = {"?": {"type": "e.E", "id": "e"}, "services": [old]}
    before = Before.of(model)
    old["?"]["name"] = "right"
    check_model(model, before)
    with pytest.raises(BadRequest, match="name must be text"):
        check_model(
            {**model, "services": [{**old, "?": {**old["?"], "name": 6}}]}, Before.of(model)
        )


def test_what_an_engine_writes_as_null_can_be_written_back() -> None:
    """A patch of a member that may be absent takes null, as the whole object does (§5.4)."""
    below = {path for path in FORMS if path.startswith(("/?/", "/defaultNetworks/"))}
    net = "/defaultNetworks/environment"
    assert {path for path in below if form_problem(path, None)} == {
        *("/?/type", "/?/_actions", net, f"{net}/?", f"{net}/?/type")
    }


def test_a_header_holds_no_objects() -> None:
    """What tools keep in a header is not looked into: it gets no ids and gives no actions."""
    kept = {"?": {"_actions": {"x": 5}}}
    new = component("a")
    header_of(new, _tool=kept, metadata={"m": kept})
    check_model({"services": [new]})
    assert kept == {"?": {"_actions": {"x": 5}}}
    with pytest.raises(NotFound):
        find_action([new], "x")


def test_arguments_of_actions_are_those_that_an_engine_wrote() -> None:
    """They hold patterns, by which calls are checked: from outside they are taken out, also changed ones."""
    said = {"name": "act", "enabled": True, "arguments": {"a": {"type": "string"}}}
    new = component("a")
    header_of(new, _actions={"x": said})
    model: Body = {"services": [new]}
    before = Before.of(copy.deepcopy(model))
    check_model(model, before)
    assert new["?"]["_actions"]["x"] == said
    changed = {**said, "arguments": {"a": {"pattern": "(a+)+$"}}}
    header_of(new, _actions={"x": changed, "y": dict(said)})
    check_model(model, before)
    left = {"name": "act", "enabled": True}
    assert new["?"]["_actions"] == {"x": left, "y": left}


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
    for part in ("id", "units"):
        for bad in BAD_MEMBERS["id"]:
            value = [{"id": bad}] if part == "units" else bad
            other = {"type": "linuxTelnetService", "name": "o", "units": [], part: value}
            answer = await api.http.request("POST", f"{e}/services", json=other, headers=headers)
            assert answer.status == 400, (part, bad, answer.text)
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
