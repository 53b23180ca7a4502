"""The policy of the catalog API: each call has a rule, in the order of §10."""

from pathlib import Path
from typing import Any

import pytest

from vetro.catalog import Catalog
from vetro.environments import catalog_policy, environments_face
from vetro.http import Principal, assemble
from vetro.http.client import HttpClient, Response

Api = Any  # the fixture of conftest.py


async def statuses(api: Api, tmp_path: Path, rules: str, *calls: tuple[str, str, str]) -> list[int]:
    """The statuses of calls (user, method, path) under a policy."""
    return [one.status for one in await answers(api, tmp_path, rules, *calls)]


async def answers(
    api: Api, tmp_path: Path, rules: str, *calls: tuple[str, str, str]
) -> list[Response]:
    """The answers to calls (user, method, path) under a policy."""
    from .conftest import Users

    file = tmp_path / "policy.yaml"
    file.write_text(rules)
    face = environments_face(
        Catalog(api.database, tmp_path / "packages"),
        api.rooms.tasks,
        Users(),
        policy=catalog_policy(file),
    )
    found: list[Response] = []
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
        for user, method, path in calls:
            body = {"name": "n"} if method in ("POST", "PUT") else None
            found.append(
                await http.request(method, path, json=body, headers={"X-Auth-Token": user})
            )
    return found


async def test_every_call_is_subject_to_the_policy(api: Api, tmp_path: Path) -> None:
    """With a policy that allows nothing, nothing but discovery is answered."""
    from vetro.catalog.endpoints import ENDPOINTS as OF_CATALOG
    from vetro.environments.face import ENDPOINTS, OPEN

    everything = [one for one in (*ENDPOINTS, *OF_CATALOG) if one.listed and one.name not in OPEN]
    e = await api.environment()
    from vetro.environments.rules import RULES

    closed = "default: '!'\n" + "".join(f"{rule}: '!'\n" for rule in set(RULES.values()))
    calls = [
        ("ann", one.verbs.split()[0], one.path.replace("{environment_id}", e)) for one in everything
    ]
    found = await statuses(api, tmp_path, closed, *calls)
    assert set(zip(found, (path for _, _, path in calls), strict=True)) == {
        (403, path) for _, _, path in calls
    }


#: Rules, and calls about an environment that say first that there is none, or whose it is.
EXISTENCE_FIRST = [
    ("show_environment", "GET", ""),
    ("update_environment", "PUT", ""),
    ("show_environment", "GET", "/model/"),
    ("show_environment", "GET", "/model/name"),
    ("update_environment", "PATCH", "/model/"),
    ("list_deployments", "GET", "/deployments"),
    ("execute_action", "POST", "/actions/a"),
    ("execute_action", "GET", "/actions/a"),
]
#: Rules, and calls that ask the policy first.
RULE_FIRST = [
    ("delete_environment", "DELETE", "/environments/none"),
    ("get_package", "GET", "/catalog/packages/none"),
    ("get_package", "GET", "/catalog/packages/none/ui"),
    ("get_package", "GET", "/catalog/packages/none/logo"),
    ("get_package", "GET", "/catalog/packages?marker=none"),
    ("download_package", "GET", "/catalog/packages/none/download"),
    ("modify_package", "PATCH", "/catalog/packages/none"),
    ("delete_package", "DELETE", "/catalog/packages/none"),
    ("upload_package", "POST", "/catalog/packages"),
    ("get_category", "GET", "/catalog/categories/none"),
    ("get_package", "GET", "/wizards"),
    ("get_package", "POST", "/wizards"),
    ("get_package", "GET", "/wizards/none"),
    ("get_package", "POST", "/wizards/none/pages/0"),
    ("update_services", "POST", "/wizards/none/finish"),
    ("add_category", "POST", "/catalog/categories"),
    ("delete_category", "DELETE", "/catalog/categories/none"),
    ("show_env_template", "GET", "/templates/none"),
    ("update_env_template", "PUT", "/templates/none"),
    ("delete_env_template", "DELETE", "/templates/none"),
    ("clone_env_template", "POST", "/templates/none/clone"),
    ("create_environment", "POST", "/templates/none/create-environment"),
    ("get_env_template_services", "GET", "/templates/none/services"),
    ("update_env_template_services", "POST", "/templates/none/services"),
    ("update_env_template_services", "DELETE", "/templates/none/services/x"),
    ("update_service_env_template", "PUT", "/templates/none/services/x"),
]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("rule", "method", "below"), EXISTENCE_FIRST)
async def test_existence_goes_before_the_rule(
    api: Api, tmp_path: Path, rule: str, method: str, below: str
) -> None:
    """No such environment: 404. Another project's: 403, of that. One's own: 403, of the rule."""
    e = await api.environment()
    here = f"/v1/environments/{e}{below}"
    calls = [("ann", method, f"/v1/environments/none{below}"), ("eve", method, here)]
    none, foreign, own = await answers(
        api, tmp_path, f"{rule}: '!'\n", *calls, ("ann", method, here)
    )
    assert none.status == 404
    assert (foreign.status, "project" in foreign.text) == (403, True)
    assert (own.status, own.json()["error"]["type"]) == (403, "PolicyNotAuthorized")
    assert rule in own.text


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("rule", "method", "path"), RULE_FIRST)
async def test_the_rule_goes_before_existence(
    api: Api, tmp_path: Path, rule: str, method: str, path: str
) -> None:
    """Whether there is such a thing is told to nobody who may not make the call."""
    (answer,) = await answers(api, tmp_path, f"{rule}: '!'\n", ("root", method, f"/v1{path}"))
    assert (answer.status, answer.json()["error"]["type"]) == (403, "PolicyNotAuthorized")
    assert rule in answer.text


async def test_public_packages_can_be_left_to_some(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """``manage_public_package`` decides who changes and removes them, and who sees them to edit."""
    upload = await api.upload(package_zip(), '{"is_public": true}', user="root")
    public = upload.json()["id"]
    own = (await api.upload(package_zip("org.acme.Own"))).json()["id"]
    rules = "manage_public_package: '!'\npublicize_package: '@'\n"
    changed, replaced, removed, mine, listed, offered, all_ = await answers(
        api, tmp_path, rules,
        ("root", "PATCH", f"/v1/catalog/packages/{public}"),
        ("root", "PUT", f"/v1/catalog/packages/{public}"),
        ("root", "DELETE", f"/v1/catalog/packages/{public}"),
        ("ann", "DELETE", f"/v1/catalog/packages/{own}?force=true"),
        ("ann", "GET", "/v1/catalog/packages"),
        ("ann", "GET", "/v1/catalog/packages?catalog=true"),
        ("root", "GET", "/v1/catalog/packages"),
    )  # fmt: skip
    for answer in (changed, replaced, removed):
        assert answer.status == 403
        assert "manage_public_package" in answer.text
    assert mine.status == 200
    assert listed.json()["packages"] == []
    for answer in (offered, all_):
        assert [one["id"] for one in answer.json()["packages"]] == [public]
    (seen,) = await answers(api, tmp_path, "{}", ("ann", "GET", "/v1/catalog/packages"))
    assert [one["id"] for one in seen.json()["packages"]] == [public]


async def test_who_may_not_upload_or_not_modify_replaces_no_package(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """A replacement is an upload and a modification: it needs the rights of both."""
    own = (await api.upload(package_zip())).json()["id"]
    for rule in ("upload_package", "modify_package"):
        (answer,) = await answers(
            api, tmp_path, f"{rule}: '!'\n", ("ann", "PUT", f"/v1/catalog/packages/{own}")
        )
        assert (answer.status, rule in answer.text) == (403, True), answer.text


async def test_a_rule_that_nobody_wrote_is_the_default_one(api: Api, tmp_path: Path) -> None:
    """``default`` decides about each call whose rule is in neither the file nor the built-in ones."""
    e = await api.environment()
    rules = "default: role:nobody\nshow_environment: '@'\n"
    assert await statuses(
        api, tmp_path, rules,
        ("ann", "GET", "/v1/environments"), ("ann", "GET", f"/v1/environments/{e}"),
        # Built in: administrators may.
        ("root", "GET", "/v1/stats"), ("root", "GET", "/v1/environments?all_tenants=true"),
    ) == [403, 200, 200, 403]  # fmt: skip


async def test_rights_of_administrators_can_be_given_to_others(api: Api, tmp_path: Path) -> None:
    """Categories, lists of all projects and publishing are rules like others."""
    rules = "add_category: '@'\nlist_environments_all_tenants: role:member\n"
    assert await statuses(
        api, tmp_path, rules,
        ("ann", "POST", "/v1/catalog/categories"), ("ann", "GET", "/v1/environments?all_tenants=true"),
        ("root", "GET", "/v1/environments?tenant=p"),
    ) == [200, 200, 200]  # fmt: skip
    assert await statuses(
        api, tmp_path, "{}",
        ("ann", "POST", "/v1/catalog/categories"), ("ann", "GET", "/v1/environments?all_tenants=true"),
    ) == [403, 403]  # fmt: skip


async def test_rules_know_what_a_call_is_about(api: Api, package_zip: Any, tmp_path: Path) -> None:
    """The ids of §10 can be compared with, by the names that policies of the released API use."""
    e, s = await api.opened()
    await api.deploy(e, s)
    task = (await api.finish()).id
    template = (await api.call("POST", "/templates", {"name": "t"})).json()["id"]
    package = (await api.upload(package_zip())).json()["id"]
    category = await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    for rule, name, id_, path in (
        ("show_environment", "environment_id", e, f"/v1/environments/{e}"),
        ("statuses_deployments", "deployment_id", task, f"/v1/environments/{e}/deployments/{task}"),
        ("show_env_template", "env_template_id", template, f"/v1/templates/{template}"),
        ("get_package", "package_id", package, f"/v1/catalog/packages/{package}"),
        ("get_category", "category_id", category.json()["id"], "/v1/catalog/categories/{}"),
        ("get_schema", "class_name", "org.acme.App", "/v1/schemas/{}?classVersion=no"),
    ):
        where = path.format(id_)
        # The rule lets one ask; the version is none.
        for literal, status in ((id_, 400 if rule == "get_schema" else 200), ("other", 403)):
            rules = f"{rule}: \"'{literal}':%({name})s\"\n"
            assert await statuses(api, tmp_path, rules, ("ann", "GET", where)) == [status], rule


#: §10: rules of administrators, and rules that let every user of a project through.
OF_ADMINISTRATORS = """
list_environments_all_tenants publicize_package add_category delete_category get_request_statistics
"""
OF_EVERYBODY = """
list_environments show_environment update_environment create_environment delete_environment
list_deployments list_deployments_all_environments statuses_deployments execute_action
list_env_templates create_env_template show_env_template update_env_template delete_env_template
clone_env_template get_package upload_package modify_package delete_package download_package
get_category get_schema get_statistics get_instance_statistics get_aggregated_statistics
update_service_env_template create_session show_session delete_session deploy_session get_services
update_services get_env_template_services update_env_template_services manage_public_package
"""


def test_each_rule_of_the_table_decides_about_a_call() -> None:
    """Every name of §10 is the rule of some call: who writes it into a policy changes something."""
    from vetro.environments.rules import RULES

    # Three decide about a part of a call: `test_rights_of_administrators_can_be_given_to_others`
    # and `test_public_packages_can_be_left_to_some`.
    parts = {"list_environments_all_tenants", "publicize_package", "manage_public_package"}
    assert {*OF_ADMINISTRATORS.split(), *OF_EVERYBODY.split()} - parts <= set(RULES.values())


def test_no_call_that_changes_something_is_left_to_the_default_rule() -> None:
    """Whoever may not change services, for example, cannot do it by another call, or in another dialect."""
    from vetro.catalog.endpoints import ENDPOINTS as OF_CATALOG
    from vetro.environments.face import ENDPOINTS, OPEN
    from vetro.environments.rules import RULES

    without = {
        one.name
        for one in (*ENDPOINTS, *OF_CATALOG)
        if one.name.removeprefix("v03_") not in RULES and one.name not in OPEN
    }
    # They tell what a project can have.
    assert without == {"list_flavors", "list_networks", "show_quotas"}


def test_the_rules_have_the_defaults_of_the_table() -> None:
    """Without a file, members pass all but the administrators' rules, and administrators pass all."""
    policy = catalog_policy()
    member = Principal("u", "ann", "p", roles=frozenset({"member"}))
    admin = Principal("a", "root", "p", roles=frozenset({"admin"}))
    every = [*OF_ADMINISTRATORS.split(), *OF_EVERYBODY.split()]
    assert [one for one in every if not policy.allows(member, one)] == OF_ADMINISTRATORS.split()
    assert all(policy.allows(admin, one) for one in every)
    assert policy.allows(admin, "context_is_admin")
    assert policy.allows(admin, "admin_api")
    assert not policy.allows(member, "admin_api")
