"""Entity tags and conditional changes over HTTP (catalog-api.md, Beyond upstream; RFC 9110 §13)."""

import asyncio
import json
from typing import Any

import pytest

Api = Any  # the fixture of conftest.py
WEB = {"?": {"type": "org.App", "id": "a1"}, "name": "web"}


async def ask(
    api: Api, method: str, path: str, body: Any = None, *, user: str = "ann", **headers: str
) -> Any:
    """A request with headers; ``_`` in their names is ``-``."""
    given = {"X-Auth-Token": user, **{name.replace("_", "-"): v for name, v in headers.items()}}
    content = None if body is None else json.dumps(body).encode()
    if body is not None:
        given.setdefault("Content-Type", "application/json")
    return await api.http.request(method, f"/v1{path}", content=content, headers=given)


async def tag(api: Api, path: str, **headers: str) -> str:
    """The entity tag that a reading has."""
    answer = await ask(api, "GET", path, **headers)
    assert answer.status == 200, answer.text
    return answer.headers["etag"]


async def test_what_the_client_has_is_not_sent_again(api: Api) -> None:
    """304 without a body while nothing changed; a change makes another tag."""
    await api.environment("one")
    first = await tag(api, "/environments")
    for known in (first, f'"other", {first}', f"W/{first}", "*"):
        again = await ask(api, "GET", "/environments", If_None_Match=known)
        assert (again.status, again.content, again.headers["etag"]) == (304, b"", first)
    await api.environment("two")
    changed = await ask(api, "GET", "/environments", If_None_Match=first)
    assert changed.status == 200
    assert changed.headers["etag"] != first


async def test_a_change_is_made_only_to_what_was_read(api: Api) -> None:
    """The second of two changes with one tag is 412 and changes nothing; after reading again it is made."""
    environment, session = await api.configured(name="web")
    path = f"/environments/{environment}/services"
    header = {"X_Configuration_Session": session}
    read = await tag(api, path, **header)
    assert (await ask(api, "PUT", path, [WEB], If_Match=read, **header)).status == 200
    late = await ask(api, "PUT", path, [], If_Match=read, **header)
    assert (late.status, late.json()["error"]["type"]) == (412, "PreconditionFailed")
    assert len((await ask(api, "GET", path, **header)).json()) == 1
    read = await tag(api, path, **header)
    assert (await ask(api, "PUT", path, [], If_Match=f'"x", {read}', **header)).status == 200


async def test_of_changes_at_once_with_one_tag_one_is_made(api: Api) -> None:
    """The comparison belongs to the transaction of the change."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    header = {"X_Configuration_Session": session}
    read = await tag(api, path, **header)
    bodies = [{"?": {"type": "org.App", "id": f"a{number}"}} for number in range(6)]
    answers = await asyncio.gather(
        *(ask(api, "POST", path, body, If_Match=read, **header) for body in bodies)
    )
    assert sorted(one.status for one in answers) == [200, *[412] * 5]


@pytest.mark.parametrize(
    ("method", "path", "read", "body", "kind"),
    [
        ("PUT", "", "", {"name": "new"}, ""),
        ("DELETE", "", "", None, ""),
        ("PUT", "/services/a1", "/services/a1", WEB, ""),
        ("DELETE", "/services/a1/name", "/services/a1/name", None, ""),
        *(
            ("PATCH", "/model/", "/model/", [{"op": "add", "path": "/x", "value": 1}], kind)
            for kind in ("application/env-model-json-patch",)
        ),
    ],
)
async def test_every_change_of_an_environment_can_have_a_condition(
    api: Api, method: str, path: str, read: str, body: Any, kind: str
) -> None:
    """A wrong tag is 412; that of the same address, read with the same session, is right."""
    environment, session = await api.opened()
    one = f"/environments/{environment}"
    header = {} if method == "DELETE" and not path else {"X_Configuration_Session": session}
    session_header = {"X_Configuration_Session": session}
    assert (await ask(api, "POST", f"{one}/services", WEB, **session_header)).status == 200
    given = {**header, **({"Content_Type": kind} if kind else {})}
    known = await tag(api, one + read, **header)
    assert (await ask(api, method, one + path, body, If_Match='"no"', **given)).status == 412
    answer = await ask(api, method, one + path, body, If_Match=known, **given)
    assert answer.status == 200, answer.text


async def test_templates_and_packages_have_conditions(api: Api, package_zip: Any) -> None:
    """Also their components, and removals."""
    made = (await ask(api, "POST", "/templates", {"name": "t", "services": [WEB]})).json()
    one = f"/templates/{made['id']}"
    for method, path, body in (
        ("POST", f"{one}/services", {"?": {"type": "org.App"}}),
        ("PUT", f"{one}/services/a1", WEB),
        ("DELETE", f"{one}/services/a1", None),
        ("PUT", one, {"name": "u"}),
        ("DELETE", one, None),
    ):
        known = await tag(api, path)
        assert (await ask(api, method, path, body, If_Match='"no"')).status == 412
        assert (await ask(api, method, path, body, If_Match=known)).status == 200
    package = (await api.upload(package_zip())).json()
    path = f"/catalog/packages/{package['id']}"
    patch = [{"op": "replace", "path": "/tags", "value": ["x"]}]
    kind = {"Content_Type": "application/murano-packages-json-patch"}
    known = await tag(api, path)
    assert (await ask(api, "PATCH", path, patch, If_Match=known, **kind)).status == 200
    assert (await ask(api, "PATCH", path, patch, If_Match=known, **kind)).status == 412
    assert (await ask(api, "DELETE", path, If_Match=known)).status == 412
    assert (await ask(api, "DELETE", path, If_Match=await tag(api, path))).status == 200


@pytest.mark.parametrize("fields", ["", "all"])
async def test_a_condition_holds_for_answers_with_and_without_our_fields(
    api: Api, package_zip: Any, fields: str
) -> None:
    """Whichever of them was read, its tag is that of the resource until it changes."""
    environment = f"/environments/{await api.environment()}"
    package = f"/catalog/packages/{(await api.upload(package_zip(), '{}')).json()['id']}"
    patch = [{"op": "replace", "path": "/description", "value": "other"}]
    kind = "application/murano-packages-json-patch"
    for path, method, body, of_type in (
        (environment, "PUT", {"name": "other"}, "application/json"),
        (package, "PATCH", patch, kind),
    ):
        known = await tag(api, path, X_Vetro_Fields=fields)
        for status in (200, 412):
            headers = {"If_Match": known, "Content-Type": of_type}
            answer = await ask(api, method, path, body, **headers)
            assert answer.status == status, answer.text
