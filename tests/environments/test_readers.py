"""Who has the role reader, and no other, reads: without secrets, and whatever the policy's file opens."""

from pathlib import Path
from typing import Any

import pytest

from vetro.environments import TaskResult, allowed_rules, catalog_policy
from vetro.http import Principal

from .test_policy import answers

Api = Any  # the fixture of conftest.py
SECRETS = {
    "adminPassword": "hidden-1",
    "dbpass": "hidden-2",
    "apiKey": "hidden-3",
    "user_data": "hidden-4",
    "credentials": {"value": "hidden-5"},
    "deeper": [{"?": {"type": "org.User"}, "token": "hidden-6", "name": "seen"}],
}


@pytest.mark.parametrize(
    ("roles", "reads"),
    [
        ("reader", True),
        ("Reader", True),
        ("reader auditor", True),
        ("reader member", False),
        ("READER Member", False),
        ("reader admin", False),
        ("member", False),
        ("admin", False),
        ("operator", False),
        ("", False),
    ],
)
def test_who_only_reads(roles: str, reads: bool) -> None:
    """The role reader alone, however Keystone spells it; a member or an administrator is one beside it."""
    caller = Principal("u", "u", "p", roles=frozenset(roles.split()))
    assert catalog_policy().only_reads(caller) is reads


async def test_a_reader_sees_no_secret_of_a_model(api: Api) -> None:
    """At no path of the services, the model, the environment or a template; a member gets them as written."""
    environment, session = await api.opened()
    made = await api.add(environment, session, **SECRETS)
    body = {"name": "t", "services": [made]}
    template = (await api.call("POST", "/templates", body)).json()["id"]
    e, id_ = f"/environments/{environment}", made["?"]["id"]
    paths = [
        *(e, f"{e}/services", f"{e}/services/{id_}", f"{e}/model", f"{e}/model/services"),
        *(f"/templates/{template}", f"/templates/{template}/services/{id_}"),
        *(f"{e}/services/{id_}/{name}" for name in SECRETS),
        f"{e}/services/{id_}/credentials/value",
        f"{e}/model/services/0/deeper/0/token",
    ]
    for path in paths:
        whole = await api.call("GET", path, session=session)
        assert "hidden-" in whole.text, path
        shown = await api.call("GET", path, session=session, user="rob")
        assert shown.status == 200, (path, shown.text)
        assert "hidden-" not in shown.text, path
    whole = await api.call("GET", f"{e}/services/{id_}", session=session, user="rob")
    assert whole.json()["deeper"][0]["name"] == "seen"


async def test_a_reader_does_not_see_what_an_action_returned(api: Api) -> None:
    """Neither in its own call nor in the history: what comes back may be a password under no name."""
    environment, lease, task = await api.taken()
    model = {**task.model, "ObjectsCopy": task.model["Objects"]}
    await api.rooms.tasks.finish_task(lease, TaskResult(model, "hidden-1"))
    for path in ("/deployments", f"/environments/{environment}/deployments"):
        assert "hidden-1" in (await api.call("GET", path)).text
        shown = await api.call("GET", path, user="rob")
        assert shown.status == 200
        assert "hidden-1" not in shown.text
    result = f"/environments/{environment}/actions/{task.id}"
    assert (await api.call("GET", result)).status == 200
    assert (await api.call("GET", result, user="rob")).status == 403


async def test_a_rule_of_a_call_does_not_let_a_reader_change(api: Api, tmp_path: Path) -> None:
    """A file that opens a call to everybody opens it to members; ``member_api`` says who these are."""
    environment = await api.environment()
    calls = [
        ("rob", "PUT", f"/v1/environments/{environment}"),
        ("rob", "PUT", "/v1/environments/none"),
        ("rob", "POST", f"/v1/environments/{environment}/configure"),
        ("rob", "POST", "/v1/environments"),
        ("rob", "POST", "/environments"),
        ("rob", "GET", f"/v1/environments/{environment}"),
        ("ann", "PUT", f"/v1/environments/{environment}"),
    ]
    opened = "update_environment: ''\ncreate_environment: role:reader\ndefault: '@'\n"
    found = await answers(api, tmp_path, opened, *calls)
    assert [one.status for one in found] == [403, 404, 403, 403, 403, 200, 200]
    said = found[0].json()["error"]
    assert said["type"] == "PolicyNotAuthorized"
    assert "reader" in said["message"]
    assert "role member" in said["message"]
    everybody = await answers(api, tmp_path, "member_api: '@'\n", *calls[:1])
    nobody = await answers(api, tmp_path, "member_api: '!'\n", *calls[-2:])
    assert [one.status for one in (*everybody, *nobody)] == [200, 200, 403]


def test_pages_offer_a_reader_what_reads() -> None:
    """Of the rules that a browser's session lists, those of calls that change are left out."""
    policy = catalog_policy()

    def offered(*roles: str) -> set[str]:
        return set(allowed_rules(policy, Principal("u", "u", "p", roles=frozenset(roles))))

    reads, member = offered("reader"), offered("member")
    assert {"show_environment", "list_environments", "get_package", "list_deployments"} <= reads
    changing = {
        *("update_services", "deploy_session", "create_environment", "delete_environment"),
        *("execute_action", "upload_package", "modify_package", "delete_package", "member_api"),
        *("create_env_template", "update_env_template", "clone_env_template", "create_session"),
    }
    assert changing <= member
    assert not changing & reads
    assert reads < member
