"""Each row of the tables of catalog-api.md §3-§6 as a request and its answer."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

Api = Any  # the fixture of conftest.py

SHORT = {
    "!": "/environments/<e>",
    "~": "/environments/<e>/services",
    "@": "/environments/<e>/model/",
}
PATCH = "application/env-model-json-patch"


@dataclass
class Case:
    """One request. Paths and bodies may name what ``World`` made: ``{e}``, ``{s}``, ``{svc}`` ..."""

    method: str
    path: str
    status: int
    says: str = ""
    body: Any = None
    user: str = "ann"
    session: str = ""
    type: str = ""
    json: Any = field(default=None)

    def __str__(self) -> str:
        return f"{self.user} {self.method} {self.path} {self.body!r:.40} -> {self.status}"


def fill(value: Any, names: dict[str, str]) -> Any:
    """Put ids in place of their names."""
    text = json.dumps(value)
    if isinstance(value, str):
        for short, long in SHORT.items():
            text = text.replace(f'"{short}', f'"{long}')
    for name, id_ in names.items():
        text = text.replace(f"<{name}>", id_)
    return json.loads(text)


async def world(api: Api) -> dict[str, str]:
    """Two environments of ann with sessions and an application; one of them was deployed once."""
    e, other = await api.environment("e"), await api.environment("other")
    s, foreign = await api.session(e), await api.session(other)
    app = await api.add(e, s, name="web", ports=[80], inner={"?": {"type": "x.Y"}, "deep": None})
    gone = await api.session(e)
    await api.deploy(e, s)
    task = await api.finish()
    now = await api.session(e)
    return {
        "e": e, "other": other, "foreign": foreign, "s": now, "done": s, "gone": gone,
        "svc": app["?"]["id"], "inner": app["inner"]["?"]["id"], "task": task.id,
    }  # fmt: skip


APP = {"?": {"type": "a"}}
S = "<s>"
NET = "/defaultNetworks/environment"

#: In paths: ``!`` is the environment, ``~`` its services, ``@`` its model.
CASES = [
    # §5.1 environments
    Case("GET", "/environments?all_tenants=False", 200),
    Case("GET", "/environments?all_tenants=true", 403),
    Case("GET", "/environments?tenant=q", 403),
    Case("GET", "/environments?all_tenants=TRUE&tenant=none", 200, user="root"),
    Case("POST", "/environments", 400, "name", body={}),
    Case("POST", "/environments", 400, "name", body={"name": None}),
    Case("POST", "/environments", 400, "blank", body={"name": " \t"}),
    Case("POST", "/environments", 400, "255", body={"name": "x" * 256}),
    Case("POST", "/environments", 200, body={"name": "x" * 255}),
    Case("POST", "/environments", 409, "exists", body={"name": "e"}),
    Case("POST", "/environments", 400, "object", body=[]),
    Case("POST", "/environments", 400, "object", body="x"),
    Case("POST", "/environments", 400, "region", body={"name": "a", "region": 1}),
    Case("POST", "/environments", 400, "defaultNetworks", body={"name": "a", "defaultNetworks": 1}),
    Case("POST", "/environments", 400, "list", body={"name": "a", "services": {}}),
    Case("POST", "/environments", 400, "'?'", body={"name": "a", "services": [1]}),
    Case("POST", "/environments", 200, body={"name": "é☃", "region": None}),
    Case("POST", "/environments/", 200, body={"name": "slash"}),
    Case("GET", "/environments/none", 404, "Environment with id none not found"),
    Case("GET", "/environments//services", 404),
    Case("DELETE", "/environments//<e>", 404, "segment"),
    Case("DELETE", "/environments/%2F<e>", 404, "segment"),
    Case("DELETE", "/environments%2F<e>", 404, "segment"),
    Case("DELETE", "/environments/<e>%2F", 404, "segment"),
    Case("GET", "/environments//", 404, "segment"),
    Case("GET", "/environments//<e>/services", 404, "segment"),
    Case("DELETE", "!", 403, "reader", user="rob"),
    Case("POST", "!/configure", 403, "reader", user="rob"),
    Case("GET", "!", 200, user="rob"),
    Case("GET", "!/", 200),
    Case("GET", "!", 403, user="eve"),
    Case("GET", "!", 200, user="root"),
    Case("GET", "!", 404, session="none"),
    Case("GET", "!", 400, "not tied", session="<foreign>"),
    Case("PUT", "!", 400, "name", body={}),
    Case("PUT", "!", 400, "blank", body={"name": " "}),
    Case("PUT", "!", 400, "255", body={"name": "x" * 256}),
    Case("PUT", "!", 409, body={"name": "other"}),
    Case("PUT", "!", 200, body={"name": "e"}),
    Case("PUT", "!", 403, body={"name": "z"}, user="eve"),
    Case("PUT", "/environments/none", 404, body={"name": "z"}),
    Case("DELETE", "/environments/none", 404),
    Case("DELETE", "!", 403, user="eve"),
    Case("DELETE", "!?abandon=true", 403, user="eve"),
    Case("DELETE", "!?abandon=TRUE", 200),
    Case("DELETE", "!?abandon=False", 200),
    Case("DELETE", "!", 200, user="root"),
    Case("GET", "!/lastStatus", 200),
    Case("GET", "/environments/none/lastStatus", 404),
    Case("GET", "!/lastStatus", 404, session="none"),
    Case("PATCH", "!", 405),
    # §5.2 sessions
    Case("POST", "!/configure", 200),
    Case("POST", "/environments/none/configure", 404),
    Case("POST", "!/configure", 403, user="eve"),
    Case("POST", "!/configure", 200, user="root"),
    Case("GET", "!/sessions/<s>", 200),
    Case("GET", "!/sessions/<s>", 401, "another user", user="bob"),
    Case("GET", "!/sessions/<s>", 403, user="eve"),
    Case("GET", "!/sessions/none", 404, "is not found"),
    Case("GET", "!/sessions/<foreign>", 400, "not tied"),
    Case("GET", "/environments/none/sessions/<s>", 400, "not tied"),
    Case("GET", "/environments/none/sessions/none", 404),
    Case("GET", "!/sessions/<gone>", 403, "invalid"),
    Case("GET", "!/sessions/<done>", 200),
    Case("DELETE", "!/sessions/<gone>", 200),
    Case("DELETE", "!/sessions/<s>", 401, user="bob"),
    Case("DELETE", "!/sessions/<s>", 403, user="eve"),
    Case("DELETE", "!/sessions/<foreign>", 400),
    Case("DELETE", "!/sessions/none", 404),
    Case("POST", "!/sessions/<s>/deploy", 200, user="bob"),
    Case("POST", "!/sessions/<s>/deploy", 403, user="eve"),
    Case("POST", "!/sessions/<gone>/deploy", 403, "invalid"),
    Case("POST", "!/sessions/<done>/deploy", 403, "already deployed"),
    Case("POST", "!/sessions/<foreign>/deploy", 400, "not tied"),
    Case("POST", "!/sessions/none/deploy", 404),
    # §5.3 services
    Case("GET", "~", 200),
    Case("GET", "/environments/<other>/services", 200, json=[]),
    Case("GET", "/environments/none/services", 404),
    Case("GET", "~", 403, user="eve"),
    Case("GET", "~", 404, session="none"),
    Case("GET", "~", 200, session="<gone>"),
    Case("GET", "~", 200, session="<done>"),
    Case("GET", "~/<svc>/name", 200, json="web"),
    Case("GET", "~/<svc>/ports/0", 200, json=80),
    Case("GET", "~/0/name", 200, json="web"),
    Case("GET", "~//<svc>//name/", 200, json="web"),
    Case("GET", "~/<svc>/inner/deep", 200, json=None),
    Case("GET", "~/<svc>/ports/0/deeper", 404),
    Case("GET", "~/<svc>/ports/7", 404),
    Case("GET", "~/<svc>/none", 404),
    Case("GET", "~/none", 404),
    Case("POST", "~", 400, "X-Configuration-Session", body=APP),
    Case("POST", "/environments/none/services", 404, body=APP),
    Case("POST", "~", 403, body=APP, user="eve", session=S),
    Case("POST", "~", 404, body=APP, session="none"),
    Case("POST", "~", 400, "not tied", body=APP, session="<foreign>"),
    Case("POST", "~", 403, "invalid", body=APP, session="<gone>"),
    Case("POST", "~", 403, "already deployed", body=APP, session="<done>"),
    Case("POST", "~", 400, body=[], session=S),
    Case("POST", "~", 400, body={}, session=S),
    Case("POST", "~", 400, body=7, session=S),
    Case("POST", "~", 200, body=[APP, {"?": {"type": "b"}}], session=S),
    Case("POST", "~", 400, "have the id", body={"?": {"type": "a", "id": "<svc>"}}, session=S),
    Case("POST", "~", 400, "have the id", body={"?": {"type": "a", "id": "<inner>"}}, session=S),
    Case("POST", "~", 200, body={"?": {"type": "a/1.0@p", "_{guid}": {"x": 1}}}, session=S),
    Case("POST", "~/<svc>/ports", 200, json=[81], body=[81], session=S),
    Case("POST", "~/<svc>/name", 404, body={"a": 1}, session=S),
    Case("PUT", "~", 200, body=[], session=S, json=[]),
    Case("PUT", "~", 200, session=S, json=[]),
    Case("PUT", "~", 400, body=APP, session=S),
    Case("PUT", "~", 400, body=[1], session=S),
    Case("PUT", "~", 400, body=[{"name": "x"}], session=S),
    Case("PUT", "~/<svc>", 200, body={"?": {"type": "org.App", "id": "<svc>"}}, session=S),
    Case("PUT", "~/<svc>", 200, body={"?": {"type": "a"}}, session=S),
    Case("PUT", "~/<svc>", 400, "org.App", body={"?": {"type": "a", "id": "<svc>"}}, session=S),
    Case("PUT", "~/<svc>", 400, body=5, session=S),
    Case("PUT", "~/<svc>/new", 200, body={"a": [1]}, session=S, json={"a": [1]}),
    Case("PUT", "~/none", 404, body=APP, session=S),
    Case("PUT", "~/<svc>/ports/9", 404, body=1, session=S),
    Case("DELETE", "~", 200, session=S),
    Case("DELETE", "~/<svc>", 200, session=S),
    Case("DELETE", "~/<svc>/name", 200, session=S),
    Case("DELETE", "~/<svc>/ports/0", 200, session=S),
    Case("DELETE", "~/<svc>/none", 404, session=S),
    Case("DELETE", "~/<svc>/%3F", 400, "'?'", session=S),
    Case("DELETE", "~/<svc>", 400),
    # §5.4 the model
    Case("GET", "@/defaultNetworks/flat", 200, json=None),
    Case("GET", "@defaultNetworks/environment/name", 200, json="e-network"),
    Case("GET", "!/model", 200),
    Case("GET", "@", 200, session=S),
    Case("GET", "@none", 404),
    Case("GET", "@", 403, user="eve"),
    Case("GET", "/environments/none/model/", 404),
    Case("PATCH", "@", 415, body=[], session=S),
    Case("PATCH", "@", 400, body=[{"op": "replace", "path": "/name", "value": "x"}], type=PATCH),
    *[
        Case("PATCH", "@", status, says, body=body, session=S, type=PATCH)
        for status, says, body in (
            (400, "at least one", []),
            (400, "array", {"op": "add"}),
            (400, "JSON objects", ["x"]),
            (400, "'op' and 'path'", [{"path": "/x", "value": 1}]),
            (400, "'op' and 'path'", [{"op": "add", "value": 1}]),
            (400, "begin with", [{"op": "add", "path": "x", "value": 1}]),
            (400, "adjacent", [{"op": "add", "path": "/a//b", "value": 1}]),
            (400, "end with", [{"op": "add", "path": "/a/", "value": 1}]),
            (400, "'~'", [{"op": "add", "path": "/a~2", "value": 1}]),
            (400, "'value'", [{"op": "add", "path": "/a"}]),
            (403, "not permitted", [{"op": "move", "path": "/a", "value": 1}]),
            (403, "not permitted", [{"op": "test", "path": "/a", "value": 1}]),
            (403, "not permitted", [{"op": "replace", "path": "/", "value": {}}]),
            (403, "not permitted", [{"op": "replace", "path": "/?/id", "value": "x"}]),
            (403, "not permitted", [{"op": "remove", "path": "/?"}]),
            (403, "not permitted", [{"op": "replace", "path": NET + "/?/id", "value": "x"}]),
            (403, "not permitted", [{"op": "remove", "path": "/name"}]),
            (403, "not permitted", [{"op": "add", "path": "/region", "value": "x"}]),
            (403, "not permitted", [{"op": "remove", "path": "/defaultNetworks"}]),
            (400, "shape", [{"op": "replace", "path": "/name", "value": 5}]),
            (400, "shape", [{"op": "replace", "path": "/region", "value": 5}]),
            (400, "shape", [{"op": "add", "path": "/regions", "value": []}]),
            (400, "shape", [{"op": "replace", "path": "/?", "value": {"id": "x"}}]),
            (400, "shape", [{"op": "replace", "path": "/?/type", "value": None}]),
            (400, "shape", [{"op": "replace", "path": "/defaultNetworks", "value": {"flat": None}}]),
            (400, "shape", [{"op": "replace", "path": "/defaultNetworks/flat", "value": "x"}]),
            (400, "shape", [{"op": "replace", "path": NET, "value": {"name": "n"}}]),
            (400, "shape", [{"op": "add", "path": NET + "/dnsNameServers", "value": "x"}]),
            (400, "shape", [{"op": "replace", "path": "/services", "value": [1]}]),
            (400, "'?'", [{"op": "replace", "path": "/services", "value": [{"name": "x"}]}]),
            (404, "nothing at", [{"op": "replace", "path": "/services/<svc>/none", "value": 1}]),
            (404, "no element", [{"op": "remove", "path": "/services/none"}]),
            (404, "nothing at", [{"op": "add", "path": "/none/deeper", "value": 1}]),
            (404, "region", [{"op": "replace", "path": "/region", "value": None}]),
            (200, "", [{"op": "replace", "path": "/name", "value": "other"}]),
            (200, "", [{"op": "add", "path": NET + "/autoUplink", "value": True}]),
            (200, "", [{"op": "remove", "path": "/services/0"}]),
            (200, "", [{"op": "add", "path": "/a~1b~0c", "value": [1]}]),
            (200, "", [{"op": "add", "path": "/x", "value": [1]}, {"op": "remove", "path": "/x/0"}]),
        )
    ],
    # §5.5 deployments
    Case("GET", "/deployments", 200),
    Case("GET", "!/deployments", 200),
    Case("GET", "!/deployments", 403, user="eve"),
    Case("GET", "/environments/none/deployments", 404),
    Case("GET", "!/deployments/<task>", 200),
    Case("GET", "!/deployments/none", 404),
    Case("GET", "/environments/<other>/deployments/<task>", 400, "not tied"),
    Case("GET", "!/deployments/<task>", 403, user="eve"),
    Case("GET", "!/deployments/<task>?service_id=none", 200, json={"reports": []}),
    # §5.6 actions
    Case("POST", "!/actions/none", 404, body={}),
    Case("POST", "!/actions/none", 400, body=[1]),
    Case("POST", "!/actions/none", 403, user="eve"),
    Case("POST", "/environments/none/actions/none", 404),
    Case("GET", "!/actions/none", 404),
    Case("GET", "/environments/<other>/actions/<task>", 404),
    Case("GET", "!/actions/<task>", 200),
    # §5.7 statistics
    Case("GET", "!/instance-statistics/aggregated", 200, json=[]),
    Case("GET", "!/instance-statistics/raw", 200, json=[]),
    Case("GET", "!/instance-statistics/raw/none", 200, json=[]),
    Case("GET", "/environments/none/instance-statistics/raw", 404),
    Case("GET", "!/instance-statistics/aggregated", 403, user="eve"),
    # §6.2, §6.3
    Case("GET", "/catalog/packages/none", 404),
    Case("DELETE", "/catalog/packages/none", 404),
    Case("GET", "/catalog/packages/none/ui", 404),
    Case("GET", "/catalog/packages/none/download", 404),
    Case("GET", "/catalog/packages?limit=x", 400, "limit"),
    Case("GET", "/catalog/packages?limit=-1", 400, "limit"),
    Case("GET", "/catalog/packages?limit=1000&order_by=none&strange=1", 200),
    Case("GET", "/catalog/packages?sort_dir=sideways", 400, "sort_dir"),
    Case("GET", "/catalog/packages?marker=none", 404, "Marker"),
    Case("GET", "/catalog/packages?id=in:", 200, json={"packages": []}),
    Case("GET", '/catalog/packages?tag=in:"a', 200, json={"packages": []}),
    Case("GET", "/catalog/categories?limit=0", 400, "limit"),
    Case("GET", "/catalog/categories?strange=1", 400, "strange"),
    Case("GET", "/catalog/categories?sort_keys=none", 400, "none"),
    Case("GET", "/catalog/categories?sort_dir=x", 400, "sort_dir"),
    Case("GET", "/catalog/categories?marker=none", 404),
    Case("GET", "/catalog/categories?sort_keys=package_count,created&sort_dir=desc", 200),
    Case("POST", "/catalog/categories", 403, body={"name": "x"}),
    Case("POST", "/catalog/categories", 400, body={}, user="root"),
    Case("POST", "/catalog/categories", 400, body={"name": "x" * 81}, user="root"),
    Case("POST", "/catalog/categories", 400, body=[], user="root"),
    Case("GET", "/catalog/categories/none", 404),
    Case("DELETE", "/catalog/categories/none", 404, user="root"),
    Case("DELETE", "/catalog/categories/none", 403),
]  # fmt: skip


async def test_every_row_answers_as_specified(api: Api) -> None:
    """Status, message and body of each row; all rows are asked in worlds where they can be true.

    A row that fails changes nothing, so those share a world; each that succeeds gets its own.
    """
    wrong: list[str] = []
    names = await world(api)
    for number, case in enumerate(CASES):
        headers = {"session": fill(case.session, names)} if case.session else {}
        if case.type:
            headers["type"] = case.type
        path, body = fill(case.path, names), fill(case.body, names)
        answer = await api.call(case.method, path, body, user=case.user, **headers)
        if answer.status == 200 and case.method != "GET":
            for left in (await api.call("GET", "/environments")).json()["environments"]:
                gone = await api.call("DELETE", f"/environments/{left['id']}?abandon=true")
                assert gone.status == 200
            names = await world(api)
        if answer.status != case.status:
            wrong.append(f"{number}: {case}: got {answer.status} {answer.text[:200]}")
            continue
        if answer.status >= 400:
            error = answer.json()
            if list(error) != ["error"] or error["error"]["code"] != case.status:
                wrong.append(f"{number}: {case}: fault body {answer.text[:200]}")
            elif case.says not in error["error"]["message"]:
                wrong.append(f"{number}: {case}: says {error['error']['message']}")
        elif case.json is not None and answer.json() != case.json:
            wrong.append(f"{number}: {case}: body {answer.text[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("raw", "kind", "status", "says"),
    [
        (b"{", "application/json", 400, "Malformed request body"),
        (b"\xff\xfe", "application/json", 400, "Malformed request body"),
        (b'{"name": "n"}', "application/json; charset=utf-8", 200, ""),
        (b'{"name": "n"}', "text/plain", 415, ""),
        (b"<a/>", "application/xml", 415, ""),
        (b'{"name": "n"}', "", 400, ""),
    ],
)
async def test_bodies_are_read_by_their_type(
    api: Api, raw: bytes, kind: str, status: int, says: str
) -> None:
    """§3: malformed JSON is 400, other types 415, a body without a type counts as none."""
    headers = {"X-Auth-Token": "ann", **({"Content-Type": kind} if kind else {})}
    answer = await api.http.request("POST", "/v1/environments", content=raw, headers=headers)
    assert answer.status == status, answer.text
    assert says in answer.text


async def test_a_token_comes_before_anything_else(api: Api) -> None:
    """§2: without a valid token every path, existing or not, is 401 before its body is read."""
    for path in ("/v1/environments", "/v1/none", "/v1/catalog/packages/x"):
        for token in ({}, {"X-Auth-Token": "wrong"}):
            answer = await api.http.request("POST", path, content=b"{", headers=token)
            assert answer.status == 401
            assert answer.headers["www-authenticate"].startswith("Keystone uri=")
            assert answer.headers["x-openstack-request-id"].startswith("req-")


async def test_replacements_of_packages_answer_by_what_stands_against_them(
    api: Api, package_zip: Any
) -> None:
    """``PUT`` of a package: its parts are those of an upload, and what is refused changes nothing."""
    public = (await api.upload(package_zip(), '{"is_public": true}', "root")).json()
    path = f"/v1/catalog/packages/{public['id']}"
    for user, id_, file, metadata, status, says in (
        ("ann", "", package_zip(), "{}", 403, "another project"),
        ("root", "none", package_zip(), "{}", 404, "does not exist"),
        ("root", "", b"text", "{}", 400, "load package"),
        ("root", "", package_zip("org.acme.Other"), "{}", 400, "of that name and version"),
        ("root", "", package_zip(), '{"enabled": true}', 400, "metadata"),
        ("root", "", package_zip(), '{"tags": ["a", "a"]}', 400, "twice"),
        ("root", "", package_zip(), '{"signature": "x"}', 400, "signature"),
        ("root", "", package_zip(), '{"tags": ["new"]}', 200, "new"),
        ("root", "", package_zip(), None, 200, "new"),
    ):
        where = path.replace(public["id"], id_) if id_ else path
        answer = await api.upload(file, metadata, user, where, "PUT")
        assert (answer.status, says in answer.text) == (status, True), answer.text
        after = (await api.call("GET", path.removeprefix("/v1"), user="root")).json()
        same = ("id", "is_public", "fully_qualified_name", "created")
        assert {key: after[key] for key in same} == {key: public[key] for key in same}
        assert status == 200 or after == public
    stale = await api.http.request(
        "PUT", path, files={"p": ("p.zip", package_zip())},
        headers={"X-Auth-Token": "root", "If-Match": '"other"'},
    )  # fmt: skip
    assert stale.status == 412


async def test_uploads_and_patches_of_packages_answer_as_specified(
    api: Api, package_zip: Any
) -> None:
    """§6.2: the parts of an upload, and each operation of a patch."""
    big = b"x" * (5 * 2**20 + 1)
    for parts, status, says in (
        ([("a", ("a.zip", b""))], 400, "empty"),
        ([("a", ("a.zip", big))], 400, "limit is 5 MiB"),
        ([("a", ("a.zip", b"x" * (6 * 2**20 + 1)))], 413, ""),
        ([("a", ("a.zip", b"x")), ("b", ("b.zip", b"x"))], 400, "one file part"),
        ([("m", (None, "{}"))], 400, "one file part"),
        ([("m", (None, "[]")), ("a", ("a.zip", b"x"))], 400, "metadata"),
        ([("m", (None, '{"is_public": "yes"}')), ("a", ("a.zip", b"x"))], 400, "is_public"),
        ([("m", (None, "{}")), ("n", (None, "{}")), ("a", ("a.zip", b"x"))], 400, "at most two"),
        ([("m", (None, '{"is_public": true}')), ("a", ("a.zip", package_zip()))], 403, "public"),
        ([("JsonString", (None, '{"enabled": false}')), ("a", ("a", package_zip()))], 200, ""),
    ):
        answer = await api.http.request(
            "POST", "/v1/catalog/packages", files=parts, headers={"X-Auth-Token": "ann"}
        )
        assert (answer.status, says in answer.text) == (status, True), answer.text
    row = answer.json()
    assert row["enabled"] is False
    assert (await api.call("GET", "/catalog/packages")).json()["packages"] == []
    hidden = await api.call("GET", "/catalog/packages?include_disabled=true&owned=true")
    assert [one["id"] for one in hidden.json()["packages"]] == [row["id"]]
    assert (
        await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    ).status == 200
    path, kind = f"/catalog/packages/{row['id']}", "application/murano-packages-json-patch"
    for op, status, after in (
        ({"op": "add", "path": "/tags", "value": ["b", "web"]}, 200, ("tags", ["web", "b"])),
        ({"op": "replace", "path": "/tags", "value": ["b", "c"]}, 200, ("tags", ["b", "c"])),
        ({"op": "remove", "path": "/tags", "value": ["b"]}, 200, ("tags", ["c"])),
        ({"op": "remove", "path": "/tags", "value": ["b"]}, 404, ("tags", ["c"])),
        ({"op": "remove", "path": "/tags"}, 200, ("tags", [])),
        ({"op": "add", "path": "/tags", "value": ["a", "a"]}, 400, ("tags", [])),
        ({"op": "add", "path": "/tags", "value": "a"}, 400, ("tags", [])),
        ({"op": "add", "path": "/tags"}, 400, ("tags", [])),
        ({"op": "move", "path": "/tags", "value": ["a"]}, 403, ("tags", [])),
        ({"op": "add", "path": "/categories", "value": ["Web"]}, 200, ("categories", ["Web"])),
        ({"op": "add", "path": "/categories", "value": ["No"]}, 400, ("categories", ["Web"])),
        ({"op": "add", "path": "/is_public", "value": True}, 403, ("is_public", False)),
        ({"op": "replace", "path": "/is_public", "value": "x"}, 400, ("is_public", False)),
        ({"op": "replace", "path": "/enabled", "value": True}, 200, ("enabled", True)),
        ({"op": "replace", "path": "/name", "value": "x" * 81}, 400, ("name", "App")),
        ({"op": "replace", "path": "/name", "value": "New"}, 200, ("name", "New")),
        ({"op": "replace", "path": "/description", "value": ""}, 200, ("description", "")),
        ({"op": "replace", "path": "/author", "value": "x"}, 403, ("author", "ann")),
        ({"op": "replace", "path": "/tags/0", "value": ["x"]}, 400, ("tags", [])),
        ({"path": "/tags", "value": ["x"]}, 400, ("tags", [])),
    ):
        answer = await api.call("PATCH", path, [op], type=kind)
        assert answer.status == status, (op, answer.text)
        assert (await api.call("GET", path)).json()[after[0]] == after[1], op
    assert (await api.call("PATCH", path, {}, type=kind)).status == 400
    assert (await api.call("PATCH", path, [], type="application/json")).status == 400


async def test_a_package_is_looked_for_before_its_patch_is_read(api: Api, package_zip: Any) -> None:
    """§6.2: 404 and 403 come before mistakes in the body; a caller who may not publish is refused at
    once."""
    row = (await api.upload(package_zip())).json()
    for id_, user, status in (
        ("none", "ann", 404),
        (row["id"], "eve", 403),
        (row["id"], "ann", 400),
    ):
        answer = await api.call(
            "PATCH", f"/catalog/packages/{id_}", {}, user=user, type="application/json"
        )
        assert answer.status == status, answer.text
    assert (await api.upload(b"no archive", '{"is_public": true}')).status == 403
    assert (await api.upload(b"no archive", '{"is_public": false}')).status == 400


async def test_uploads_side_by_side_conflict_once(api: Api, package_zip: Any) -> None:
    """§6.2: checks and insert are atomic: of ten equal uploads exactly one succeeds."""
    content = package_zip()
    answers = await asyncio.gather(*(api.upload(content) for _ in range(10)))
    assert sorted(one.status for one in answers) == [200, *[409] * 9]
    row = next(one.json() for one in answers if one.status == 200)
    assert (await api.call("GET", f"/catalog/packages/{row['id']}/download")).content == content
    names = await asyncio.gather(
        *(api.call("POST", "/environments", {"name": "one"}) for _ in range(6)),
        *(api.call("POST", "/catalog/categories", {"name": "one"}, user="root") for _ in range(6)),
    )
    assert sorted(one.status for one in names) == [200, 200, *[409] * 10]


async def test_nothing_to_do_while_a_deployment_runs(api: Api) -> None:
    """§5.2: configure, delete, actions and other sessions are refused until the engine answers."""
    names = await world(api)
    e, s = names["e"], names["s"]
    other = await api.session(e)
    await api.deploy(e, s)
    shown = (await api.call("GET", f"/environments/{e}")).json()
    assert (shown["status"], shown["acquired_by"]) == ("deploying", s)
    listed = (await api.call("GET", f"/environments/{e}/deployments")).json()["deployments"]
    blocking = f"is deploying by deployment {listed[0]['id']} (deploy)"
    for method, path in (
        ("POST", f"/environments/{e}/configure"),
        ("DELETE", f"/environments/{e}"),
        ("POST", f"/environments/{e}/actions/x"),
    ):
        answer = await api.call(method, path)
        # Beyond upstream: which task it is that one waits for.
        assert (answer.status, blocking in answer.text) == (403, True), answer.text
    body = {"?": {"type": "a"}}
    for method, path, session in (
        ("POST", f"/environments/{e}/configure", None),
        ("DELETE", f"/environments/{e}", None),
        ("POST", f"/environments/{e}/actions/x", None),
        ("DELETE", f"/environments/{e}/sessions/{s}", None),
        ("POST", f"/environments/{e}/sessions/{s}/deploy", None),
        ("POST", f"/environments/{e}/sessions/{other}/deploy", None),
        ("POST", f"/environments/{e}/services", other),
        ("POST", f"/environments/{e}/services", s),
    ):
        headers = {"session": session} if session else {}
        answer = await api.call(method, path, body if session else None, **headers)
        assert answer.status == 403, (method, path, answer.text)
    assert (await api.call("GET", f"/environments/{e}/sessions/{other}")).status == 403
    await api.finish()
    shown = (await api.call("GET", f"/environments/{e}")).json()
    assert (shown["status"], shown["acquired_by"], shown["version"]) == ("ready", None, 2)


async def test_a_put_marks_the_model_as_updated(api: Api) -> None:
    """§5.3: PUT sets the root's ``?.updated``; secrets are read back unmasked."""
    e, s = await api.opened()
    service = {"?": {"type": "a", "id": "one", "status": "dropped"}, "password": "secret"}
    answer = await api.call("PUT", f"/environments/{e}/services/", [service], session=s)
    assert answer.json() == [{"?": {"type": "a", "id": "one"}, "password": "secret"}]
    root = (await api.call("GET", f"/environments/{e}/model/", session=s)).json()
    assert len(root["?"]["updated"]) == len("2026-01-01T00:00:00")
    assert root["services"][0]["password"] == "secret"
