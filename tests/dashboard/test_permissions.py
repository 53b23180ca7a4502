"""What a policy, a quota and the settings of an installation change in the pages."""

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import Person, Service, Visit

pytestmark = pytest.mark.programs

#: Nobody may do what the pages below would offer.
DENIED = """
create_environment: '!'
delete_environment: '!'
deploy_session: '!'
update_services: '!'
list_deployments: '!'
list_deployments_all_environments: '!'
upload_package: '!'
modify_package: '!'
delete_package: '!'
get_category: '!'
mark_image: '!'
remove_image_metadata: '!'
list_env_templates: '!'
"""


def offered(page: Page) -> set[str]:
    """The names of buttons, links and tabs of a page."""
    found = page.locator("button, a, [role=tab]").all()
    return {one.get_attribute("aria-label") or one.inner_text().strip() for one in found}


@pytest.mark.thorough
def test_what_the_policy_denies_is_not_offered(visit: Visit, service: Service, image: str) -> None:
    """An administrator under a strict policy sees neither the buttons nor the pages of what it denies."""
    made = service.api("POST", "/v1/environments", {"name": "kept"})
    paths = [
        "/environments",
        f"/environments/{made['id']}",
        "/catalog",
        "/packages",
        "/machines?tab=images",
    ]

    def look(person: Person) -> dict[str, set[str]]:
        return {path: offered(person.open(path)) for path in paths}

    person = visit()
    person.sign_in()
    seen = look(person)
    service.policy.write_text(DENIED)
    try:
        strict = visit()
        strict.sign_in()
        left = look(strict)
        strict.open("/environments?create=true")
        expect(strict.page.get_by_role("dialog")).to_have_count(0)
        strict.open("/packages?upload=true")
        expect(strict.page.get_by_role("dialog")).to_have_count(0)
    finally:
        service.policy.write_text("{}")
    gone = {path: seen[path] - left[path] for path in seen}
    assert {"New environment", "Deployment history", "Templates", "History"} <= gone[
        "/environments"
    ]
    inside = gone[f"/environments/{made['id']}"]
    assert {"Add application", "Deploy", "History"} <= inside
    assert {"Add Apache HTTP Server", "Deploy Apache HTTP Server in a new environment"} <= gone[
        "/catalog"
    ]
    assert {"Upload packages", "Import", "Categories"} <= gone["/packages"]
    assert f"Mark {image} for forms" in gone["/machines?tab=images"]


@pytest.mark.thorough
def test_quotas_are_shown_below_the_size_of_a_machine(
    visit: Visit, service: Service, image: str
) -> None:
    """What is in use, planned and asked for here, of what the project may have; too much is said."""
    project = service.api("GET", "/v1/quotas")["project_id"]
    service.api("PUT", f"/v1/quotas/{project}", {"instances": 50, "memory": 100})
    try:
        made = service.api("POST", "/v1/environments", {"name": "sized"})
        (package,) = service.api(
            "GET", "/v1/catalog/packages?fqn=org.vetro.samples.ApacheHttpServer"
        )["packages"]
        person = visit()
        person.sign_in()
        page = person.open(f"/environments/{made['id']}/add/{package['id']}")
        bars = page.get_by_role("region", name="Quotas of the project")
        # The size of the machine is on the second page.
        page.get_by_role("button", name="Next").click()
        expect(bars).to_contain_text("0 planned, 1 here, of 50")
        expect(bars.get_by_role("note")).to_contain_text("More than 100")
    finally:
        service.api("DELETE", f"/v1/quotas/{project}")


@pytest.mark.thorough
def test_the_settings_of_the_installation_are_listed(visit: Visit) -> None:
    """Who is signed in sees what operators have set for the pages."""
    person = visit()
    person.sign_in()
    page = person.open("/about")
    settings = page.get_by_role("table", name="Settings of the dashboard")
    expect(settings.get_by_role("row", name="Largest package")).to_contain_text("5 MiB")
    expect(settings.get_by_role("row", name="Network of new environments")).to_contain_text(
        "chosen"
    )
    expect(page).to_have_title("Settings and health · Vetro")


def with_settings(page: Page, **given: str) -> None:
    """Let the service's settings be others for this page."""

    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.json()
        body["settings"] |= given
        route.fulfill(response=response, json=body)

    page.route("**/dashboard/api/session", answer)


@pytest.mark.thorough
def test_new_environments_join_the_network_that_operators_have_fixed(
    visit: Visit, service: Service, instance: str
) -> None:
    """Nobody is asked; without that network no environment is made, and the dialog says why."""
    person = visit()
    page = person.sign_in()
    with_settings(page, title="Shop", fixed_network="nowhere")
    person.open("/environments?create=true")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("There is no network nowhere")).to_be_visible()
    expect(dialog.get_by_role("button", name="Create")).to_be_disabled()
    page.unroute_all()
    with_settings(page, title="Shop", fixed_network="lan")
    person.open("/environments?create=true")
    expect(page).to_have_title("Environments · Shop")
    expect(dialog.get_by_label("Network", exact=True)).to_have_value("lan: 10.77.0.0/24")
    dialog.get_by_label("Name").fill("on the fixed network")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("on the fixed network")
    made = page.url.rpartition("/")[2]
    (lan,) = [one for one in service.api("GET", "/compute/networks") if one["name"] == "lan"]
    session = service.api("POST", f"/v1/environments/{made}/configure")["id"]
    model = service.api("GET", f"/v1/environments/{made}/model/", X_Configuration_Session=session)
    assert model["defaultNetworks"]["environment"]["internalNetworkName"] == lan["uuid"]


@pytest.mark.thorough
def test_images_of_one_project_are_listed_beside_ones_own(
    visit: Visit, service: Service, image: str
) -> None:
    """With the setting, the images of other projects are left out of the list."""
    person = visit()
    page = person.sign_in()
    with_settings(page, image_project="somebody-else")

    def answer(route: Route) -> None:
        response = route.fetch()
        (mine, *rest) = [one for one in response.json() if one["name"] == image]
        others = [
            {**mine, "uuid": f"{name}-1", "name": name, "owner": owner}
            for name, owner in (("of the catalog", "somebody-else"), ("of another", "nobody"))
        ]
        route.fulfill(response=response, json=[mine, *rest, *others])

    page.route("**/dashboard/api/compute/images", answer)
    person.open("/machines?tab=images")
    table = page.get_by_role("table", name="Images")
    expect(table.get_by_role("row", name="of the catalog")).to_be_visible()
    expect(table.get_by_role("row", name=image)).to_be_visible()
    expect(table.get_by_role("row", name="of another")).to_have_count(0)
