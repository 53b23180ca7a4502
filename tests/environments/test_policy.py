"""The policy of the catalog API: each call has a rule, in the order of §10."""

from pathlib import Path
from typing import Any

from vetro.catalog import Catalog
from vetro.environments import catalog_policy, environments_face
from vetro.http import assemble
from vetro.http.client import HttpClient

Api = Any  # the fixture of conftest.py


async def statuses(api: Api, tmp_path: Path, rules: str, *calls: tuple[str, str, str]) -> list[int]:
    """The statuses of calls (user, method, path) under a policy."""
    from .conftest import Users

    file = tmp_path / "policy.yaml"
    file.write_text(rules)
    face = environments_face(
        Catalog(api.database, tmp_path / "packages"),
        api.rooms.tasks,
        Users(),
        policy=catalog_policy(file),
    )
    found: list[int] = []
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
        for user, method, path in calls:
            body = {"name": "n"} if method in ("POST", "PUT") else None
            answer = await http.request(method, path, json=body, headers={"X-Auth-Token": user})
            found.append(answer.status)
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


async def test_existence_goes_before_the_rule_where_the_specification_says_so(
    api: Api, tmp_path: Path
) -> None:
    """Showing looks for the environment first, deleting asks the policy first."""
    e = await api.environment()
    rules = "show_environment: '!'\ndelete_environment: '!'\n"
    assert await statuses(
        api, tmp_path, rules,
        ("ann", "GET", "/v1/environments/none"), ("eve", "GET", f"/v1/environments/{e}"),
        ("ann", "GET", f"/v1/environments/{e}"), ("ann", "DELETE", "/v1/environments/none"),
        ("ann", "GET", "/v1/environments"),
    ) == [404, 403, 403, 403, 200]  # fmt: skip


async def test_rights_of_administrators_can_be_given_to_others(api: Api, tmp_path: Path) -> None:
    """Categories, lists of all projects and publishing are rules like others."""
    rules = "add_category: '@'\nlist_environments_all_tenants: role:member\n"
    assert await statuses(
        api, tmp_path, rules,
        ("ann", "POST", "/v1/catalog/categories"), ("ann", "GET", "/v1/environments?all_tenants=true"),
        ("root", "GET", "/v1/environments?tenant=p"),
    ) == [200, 200, 200]  # fmt: skip
    assert await statuses(
        api, tmp_path, "",
        ("ann", "POST", "/v1/catalog/categories"), ("ann", "GET", "/v1/environments?all_tenants=true"),
    ) == [403, 403]  # fmt: skip


async def test_rules_know_what_a_call_is_about(api: Api, package_zip: Any, tmp_path: Path) -> None:
    """The ids of §10 can be compared with, by the names that policies of the released API use."""
    e = await api.environment()
    s = await api.session(e)
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
    ):
        where = path.format(id_)
        for literal, status in ((id_, 200), ("other", 403)):
            rules = f"{rule}: \"'{literal}':%({name})s\"\n"
            assert await statuses(api, tmp_path, rules, ("ann", "GET", where)) == [status], rule


def test_each_rule_of_the_table_decides_about_a_call() -> None:
    """Every name of §10 is the rule of some call: who writes it into a policy changes something."""
    from vetro.environments.rules import RULES

    table = """
    list_environments show_environment update_environment create_environment delete_environment
    list_deployments list_deployments_all_environments statuses_deployments execute_action
    list_env_templates create_env_template show_env_template update_env_template delete_env_template
    clone_env_template get_package upload_package modify_package delete_package download_package
    get_category add_category delete_category get_schema get_statistics get_instance_statistics
    get_aggregated_statistics update_service_env_template create_session show_session delete_session
    deploy_session get_services update_services get_env_template_services
    update_env_template_services get_request_statistics
    """
    assert set(table.split()) <= set(RULES.values())
