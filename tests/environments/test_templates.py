"""Environment templates over HTTP (catalog-api.md §6.1)."""

from typing import Any

import pytest
from sqlalchemy import update

from vetro.environments.tables import templates

Api = Any  # the fixture of conftest.py
APP = {"?": {"type": "org.App", "id": "a1"}, "name": "web", "ports": [80]}


async def make(api: Api, name: str = "t", user: str = "ann", **more: Any) -> str:
    """Create a template; its id."""
    answer = await api.call("POST", "/templates", {"name": name, **more}, user=user)
    assert answer.status == 200, answer.text
    return answer.json()["id"]


async def test_a_template_is_created_shown_changed_and_deleted(api: Api) -> None:
    """Columns and components are those of §6.1, and only columns of the body's choice change."""
    body = {"name": "t", "description_text": "d", "services": [APP], "version": 7, "tenant_id": "x"}
    made = (await api.call("POST", "/templates", body)).json()
    assert {**made, "id": "", "created": "", "updated": ""} == {
        "id": "", "name": "t", "tenant_id": "p", "description_text": "d", "version": 0,
        "is_public": False, "created": "", "updated": "", "services": [APP],
    }  # fmt: skip
    path = f"/templates/{made['id']}"
    assert (await api.call("GET", path + "/")).json() == made
    changed = {"name": "u", "is_public": True, "id": "other"}
    after = (await api.call("PUT", path, changed)).json()
    assert (after["id"], after["name"], after["is_public"]) == (made["id"], "u", True)
    gone = await api.call("DELETE", path)
    assert (gone.status, gone.content) == (200, b"")
    assert (await api.call("GET", path)).status == 404


async def test_lists_have_own_public_or_private_templates(api: Api) -> None:
    """``is_public`` absent: own and public; ``true``: public; anything else: own private."""
    await make(api, "mine")
    await make(api, "shown", is_public=True)
    await make(api, "hers", user="eve")
    await make(api, "all", user="eve", is_public=True)

    async def names(query: str) -> list[str]:
        rows = (await api.call("GET", f"/templates{query}")).json()["templates"]
        assert all("services" not in row for row in rows)
        return sorted(row["name"] for row in rows)

    assert await names("") == ["all", "mine", "shown"]
    assert await names("?is_public=True") == ["all", "shown"]
    assert await names("?is_public=false") == ["mine"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (None, 400, "name"),
        ({}, 400, "name"),
        ({"name": " "}, 400, "blank"),
        ({"name": "x" * 256}, 400, "255"),
        ({"name": "a", "is_public": "yes"}, 400, "true or false"),
        ({"name": "a", "description_text": 1}, 400, "text"),
        ({"name": "a", "services": {}}, 400, "list"),
        ({"name": "a", "services": [{}]}, 400, "?"),
        ({"name": "a", "services": [APP, APP]}, 400, "a1"),
        ({"name": "taken"}, 409, "exists"),
    ],
)
async def test_bad_templates_are_refused(api: Api, body: Any, status: int, says: str) -> None:
    """Each wrong body gets an error that says what is wrong; a name is unique in its project."""
    await make(api, "taken")
    answer = await api.call("POST", "/templates", body)
    assert answer.status == status
    assert says in answer.json()["error"]["message"]


async def test_other_projects_read_and_use_public_templates_only(api: Api) -> None:
    """A private template is closed to others; a public one can be read, but changed by its owner alone."""
    private = f"/templates/{await make(api, 'private', services=[APP])}"
    public = f"/templates/{await make(api, 'public', is_public=True, services=[APP])}"
    for path in ("", "/services", "/services/a1"):
        assert (await api.call("GET", private + path, user="eve")).status == 403
        assert (await api.call("GET", private + path, user="root")).status == 200
        assert (await api.call("GET", public + path, user="eve")).status == 200
    for method, path, body in [
        ("PUT", "", {"name": "stolen"}),
        ("DELETE", "", None),
        ("POST", "/services", APP),
        ("PUT", "/services/a1", APP),
        ("DELETE", "/services/a1", None),
    ]:
        assert (await api.call(method, public + path, body, user="eve")).status == 403
    assert (
        await api.call("POST", private + "/create-environment", {"name": "e"}, user="eve")
    ).status == 403
    assert (await api.call("GET", public)).json()["name"] == "public"


async def test_only_public_templates_are_cloned(api: Api) -> None:
    """A clone belongs to the caller's project and has the components; a private one is no source."""
    private = await make(api, "private")
    assert (await api.call("POST", f"/templates/{private}/clone", {"name": "c"})).status == 403
    public = f"/templates/{await make(api, 'public', is_public=True, services=[APP])}"
    clone = (await api.call("POST", f"{public}/clone", {"name": "c"}, user="eve")).json()
    assert (clone["tenant_id"], clone["is_public"], clone["services"]) == ("q", False, [APP])
    assert (await api.call("POST", f"{public}/clone", {"name": "c"}, user="eve")).status == 409
    assert (await api.call("POST", f"{public}/clone", {}, user="eve")).status == 400
    assert (await api.call("POST", "/templates/none/clone", {"name": "c"})).status == 404


async def test_components_are_added_replaced_and_removed(api: Api) -> None:
    """Components get ids, are addressed by them, and keep the same id when they are replaced."""
    template = await make(api)
    base = f"/templates/{template}/services"
    assert (await api.call("GET", base)).json() == []
    added = (
        await api.call("POST", base, {"?": {"type": "x.Y"}, "inner": {"?": {"type": "z"}}})
    ).json()
    await api.call("POST", base, [APP])
    id_ = added["?"]["id"]
    assert added["inner"]["?"]["id"]
    assert (await api.call("GET", f"{base}/a1/ports/0")).json() == 80
    replaced = (await api.call("PUT", f"{base}/{id_}", {"?": {"type": "x.Z"}})).json()
    assert replaced == {"?": {"type": "x.Z", "id": id_}}
    left = (await api.call("DELETE", f"{base}/a1/ports")).json()
    assert left["services"] == [replaced, {"?": APP["?"], "name": "web"}]
    left = (await api.call("DELETE", f"{base}/a1")).json()
    assert (left["name"], left["services"]) == ("t", [replaced])
    assert (await api.call("GET", f"/templates/{template}")).json()["version"] == 5
    for method, path, body, status in [
        ("GET", "/none", None, 404),
        ("PUT", "/none", APP, 404),
        ("DELETE", "/none", None, 404),
        ("DELETE", "/", None, 405),
        ("POST", "", {}, 400),
        ("POST", "", "text", 400),
        ("POST", "", {"?": {"type": "x", "id": id_}}, 400),
        ("PUT", f"/{id_}", [], 400),
    ]:
        answer = await api.call(method, base + path, body)
        assert answer.status == status, (method, path, answer.text)


async def test_a_template_with_a_mistake_of_an_earlier_release_is_explained(api: Api) -> None:
    """Whoever makes an environment of it reads which template, where in it, what is wrong, and what to do."""
    id_ = await make(api, "old", services=[APP])
    wrong = [{**APP, "?": {**APP["?"], "type": "org App"}}]
    async with api.database.transaction() as tx:
        await tx.execute(update(templates).where(templates.c.id == id_).values(services=wrong))
    answer = await api.call("POST", f"/templates/{id_}/create-environment", {"name": "e"})
    assert answer.status == 400
    for said in ("The template 'old'", "services/0/?/type must", f"PUT /v1/templates/{id_}/"):
        assert said in answer.text
    path = f"/templates/{id_}/services/{APP['?']['id']}"
    assert (await api.call("PUT", path, APP)).status == 200
    answer = await api.call("POST", f"/templates/{id_}/create-environment", {"name": "e"})
    assert answer.status == 200


async def test_an_environment_is_created_with_a_session_that_has_the_components(api: Api) -> None:
    """The environment itself has no application until the session is deployed."""
    template = f"/templates/{await make(api, services=[APP])}"
    path = f"{template}/create-environment"
    made = (await api.call("POST", path, {"name": "e", "region": "here", "services": [1]})).json()
    assert set(made) == {"session_id", "environment_id"}
    where = f"/environments/{made['environment_id']}"
    assert (await api.call("GET", where)).json()["services"] == []
    seen = (await api.call("GET", where, session=made["session_id"])).json()["services"]
    assert seen == [{**APP, "?": {**APP["?"], "status": "pending"}}]
    await api.deploy(made["environment_id"], made["session_id"])
    assert (await api.finish()).model["Objects"]["region"] == "here"
    assert (await api.call("GET", where)).json()["services"][0]["ports"] == [80]
    assert (await api.call("POST", path, {"name": "e"})).status == 409
    assert (await api.call("POST", path, {})).status == 400
    assert (await api.call("POST", path, {"name": "f"}, user="eve")).status == 403
    assert len((await api.call("GET", "/environments")).json()["environments"]) == 1
