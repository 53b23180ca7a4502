"""What existing clients send, as they send it (catalog-api.md §14): each must work unchanged."""

import json
from typing import Any

import pytest

Api = Any  # the fixture of conftest.py
JSON = {"Content-Type": "application/json"}
CLIENTS = [
    ("GET", "/environments?all_tenants=False", None, False),
    ("GET", "/environments/{environment}", None, True),
    ("PUT", "/environments/{environment}", {"name": "renamed"}, False),
    ("GET", "/environments/{environment}/model//", None, False),
    ("GET", "/environments/{environment}/model//defaultNetworks/flat", None, False),
    ("PUT", "/environments/{environment}/services/", "services", True),
    ("POST", "/environments/{environment}/services/", {"?": {"type": "org.App"}}, True),
    ("GET", "/deployments", None, False),
    ("GET", "/environments/{environment}/deployments", None, False),
    ("GET", "/templates", None, False),
    ("GET", "/catalog/packages?limit=20&include_disabled=False&owned=False", None, False),
    ("GET", "/catalog/packages?catalog=True&class_name=org.acme.App&limit=10", None, False),
    ("GET", "/catalog/packages?fqn=org.acme.App&version=1.0.0&owned=True", None, False),
    ("GET", "/catalog/packages/{package}/download", None, False),
    ("GET", "/catalog/packages?category=Web", None, False),
    ("GET", "/catalog/categories", None, False),
    ("POST", "/environments/{environment}/sessions/{session}/deploy", b"", False),
    ("DELETE", "/environments/{environment}?abandon=True", None, False),
]
CHANGED = "id name tenant_id description_text version created updated"
ENVIRONMENT = f"{CHANGED} status acquired_by services"
SESSION = "id environment_id user_id state version created updated"
DEPLOYMENT = "id environment_id state started finished created updated result action description"
OUR_DEPLOYMENT = (
    "environment_name environment_gone user_id user_name outcome waiting_on last_report"
)
REPORT = "id task_id entity_id entity level text details created updated"
TEMPLATE = f"{CHANGED} is_public"
PACKAGE = (
    "id name fully_qualified_name type version author description supplier tags categories"
    " class_definitions owner_id is_public enabled created updated"
)
#: Answers to reads, where their objects are, the fields of those, and what is ours.
FIELDS = [
    ("/environments", "environments", f"{CHANGED} status", "model_kind has_changes"),
    ("/environments/{environment}", "", ENVIRONMENT, "model_kind has_changes"),
    ("/environments/{environment}/sessions/{session}", "", SESSION, ""),
    ("/deployments", "deployments", DEPLOYMENT, OUR_DEPLOYMENT),
    ("/environments/{environment}/deployments", "deployments", DEPLOYMENT, OUR_DEPLOYMENT),
    ("/environments/{environment}/deployments/{deployment}", "reports", REPORT, ""),
    ("/templates", "templates", TEMPLATE, ""),
    ("/templates/{template}", "", f"{TEMPLATE} services", ""),
    ("/catalog/packages", "packages", PACKAGE, "signature"),
    ("/catalog/packages/{package}", "", PACKAGE, "signature"),
    ("/catalog/categories", "categories", "id name created updated package_count", ""),
]


async def test_clients_requests_work_unchanged(api: Api, package_zip: Any) -> None:
    """No ``Accept`` header, empty bodies called JSON, double and trailing slashes, capital ``False``."""
    base = {"X-Auth-Token": "ann"}
    package = (await api.upload(package_zip(), "{}")).json()["id"]
    body = json.dumps({"name": "dev", "region": None}).encode()
    made = await api.http.request(
        "POST", "/v1/environments", content=body, headers={**base, **JSON}
    )
    environment = made.json()["id"]
    path = f"/v1/environments/{environment}/configure"
    opened = await api.http.request("POST", path, content=b"", headers={**base, **JSON})
    session = opened.json()["id"]
    known = {"environment": environment, "session": session, "package": package}
    services = [{"?": {"type": "org.App", "id": "a1", "status": "ready"}, "name": "web"}]
    for method, where, sent, in_session in CLIENTS:
        headers = {**base, **({"X-Configuration-Session": session} if in_session else {})}
        content = None
        if sent is not None:
            headers |= JSON
            value = services if sent == "services" else sent
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
        answer = await api.http.request(
            method, f"/v1{where.format(**known)}", content=content, headers=headers
        )
        assert answer.status == 200, (method, where, answer.text)


async def test_a_name_is_looked_up_as_an_id_first(api: Api) -> None:
    """The client expects 404 with one top-level object, then asks for the list."""
    answer = await api.call("GET", "/environments/dev")
    assert answer.status == 404
    assert all(isinstance(value, dict) for value in answer.json().values())


@pytest.mark.parametrize("joint", ["&service_id=", "?service_id="])
async def test_reports_of_several_services(api: Api, joint: str) -> None:
    """The malformed second question mark separates like an ampersand."""
    environment, _ = await api.submitted(name="web")
    listed = (await api.call("GET", f"/environments/{environment}/deployments")).json()
    path = f"/environments/{environment}/deployments/{listed['deployments'][0]['id']}"
    assert (await api.call("GET", f"{path}?service_id=a{joint}b")).json() == {"reports": []}


async def test_field_sets_are_exact(api: Api, package_zip: Any) -> None:
    """Objects have the fields of §14's samples and §5's and §6's tables; ours for who asks for all."""
    assert (
        await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    ).status == 200
    uploaded = (await api.upload(package_zip(), '{"categories": ["Web"]}')).json()
    assert set(uploaded) == set(PACKAGE.split())
    made = (await api.call("POST", "/environments", {"name": "dev", "region": None})).json()
    assert set(made) == {*CHANGED.split(), "region"}
    environment = made["id"]
    path = f"/environments/{environment}"
    assert set((await api.call("PUT", path, {"name": "live"})).json()) == set(CHANGED.split())
    session = await api.session(environment)
    await api.add(environment, session, model_kind="kept", signature="kept", waiting_on="kept")
    await api.deploy(environment, session)
    await api.finish()
    template = (await api.call("POST", "/templates", {"name": "t"})).json()
    assert set(template) == set(TEMPLATE.split())
    listed = (await api.call("GET", f"{path}/deployments")).json()["deployments"]
    known = {"environment": environment, "session": session, "template": template["id"],
             "package": uploaded["id"], "deployment": listed[0]["id"]}  # fmt: skip
    for where, key, plain, ours in FIELDS:
        for asked, wanted in (("", plain), ("all", f"{plain} {ours}")):
            answer = await api.call("GET", where.format(**known), fields=asked)
            shown = answer.json()[key][0] if key else answer.json()
            assert set(shown) == set(wanted.split()), (where, asked)
    (service,) = (await api.call("GET", path)).json()["services"]
    assert {"model_kind", "signature", "waiting_on"} < set(service)
