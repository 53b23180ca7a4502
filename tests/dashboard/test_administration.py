"""Templates of environments, users and projects, settings and health."""

import pytest
from playwright.sync_api import expect

from .conftest import Visit

pytestmark = pytest.mark.programs


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_environment_is_made_of_a_template(visit: Visit, image: str) -> None:
    """A template gets a component by its form; an environment of it has the component, ready to deploy."""
    person = visit()
    page = person.sign_in()
    person.open("/templates")
    page.get_by_role("button", name="New template").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("Web <b>template</b>")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Web <b>template</b>")
    page.get_by_role("combobox", name="Add an application").fill("apache")
    page.get_by_role("option", name="Apache HTTP Server").click()
    for number in (2, 3):
        dialog.get_by_role("button", name="Next").click()
        expect(dialog.get_by_text(f"Step {number} of 3")).to_be_visible()
    dialog.get_by_role("button", name="Add to the template").click()
    expect(page.get_by_role("list", name="Components")).to_contain_text("ApacheHttpServer")
    assert person.violations() == []
    page.get_by_role("button", name="Create environment").click()
    dialog.get_by_label("Name").fill("of a template")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("of a template")
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add ")


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_quotas_are_set_and_shown(visit: Visit) -> None:
    """An administrator limits a project; its people see what is left, in numbers and as a bar."""
    person = visit()
    page = person.sign_in()
    own = person.service.api("GET", "/v1/quotas")["project_id"]
    try:
        person.open("/people?tab=projects")
        page.get_by_role("button", name="Actions of admin").click()
        page.get_by_role("menuitem", name="Quotas").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox", name="volumes").fill("10")
        dialog.get_by_role("textbox", name="disk (GiB)").fill("0")
        assert person.violations() == []
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_have_count(0)
        person.open("/machines?tab=quotas")
        shown = page.get_by_role("list", name="Quotas").get_by_role("listitem")
        volumes = shown.filter(has_text="0 of 10")
        expect(volumes.get_by_role("progressbar", name="Volumes")).to_have_attribute(
            "aria-valuenow", "0"
        )
        expect(shown.filter(has_text="Disk of volumes")).to_contain_text(
            "Nothing more is given out"
        )
        expect(shown.filter(has_text="Cores")).to_contain_text("no limit")
        assert person.violations() == []
    finally:
        person.service.api("DELETE", f"/v1/quotas/{own}")


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_administrator_lets_a_user_into_a_project(visit: Visit) -> None:
    """A new user with a role in a new project can sign in there, and sees no administration."""
    person = visit()
    page = person.sign_in()
    person.open("/people?tab=projects")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="New project").click()
    dialog.get_by_label("Name").fill("atelier")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("row", name="atelier")).to_be_visible()
    page.get_by_role("tab", name="Users").click()
    page.get_by_role("button", name="New user").click()
    dialog.get_by_label("Name").fill("berta")
    dialog.get_by_role("textbox", name="Password").fill("a long enough word")
    dialog.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Actions of berta").click()
    page.get_by_role("menuitem", name="Roles in projects").click()
    dialog.get_by_role("combobox", name="Project").click()
    page.get_by_role("option", name="atelier").click()
    dialog.get_by_role("button", name="Give the role").click()
    expect(dialog.get_by_role("button", name="Take the role member")).to_be_visible()
    assert person.violations() == []
    guest = visit()
    guest.open("/sign-in")
    guest.page.get_by_label("User").fill("berta")
    guest.page.get_by_role("textbox", name="Password").fill("a long enough word")
    guest.page.get_by_role("button", name="Sign in").click()
    expect(guest.page.get_by_role("banner")).to_contain_text("atelier")
    expect(guest.page.get_by_role("link", name="Users and projects")).to_have_count(0)
    guest.open("/about")
    expect(guest.page.get_by_text("Every part works")).to_be_visible()
    assert guest.violations() == []
