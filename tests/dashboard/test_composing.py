"""Composing an environment and deploying it, in a browser."""

import re
import uuid

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.waiting import until

from .conftest import HOSTILE, Service, Visit
from .test_misfortune import environment

pytestmark = pytest.mark.programs
STEP = re.compile(r"^Step \d+ of \d+$")


def to_the_last_page(form: Page | Locator) -> None:
    """Press "Next" on every page of a form that has several."""
    number, count = map(int, re.findall(r"\d+", form.get_by_text(STEP).inner_text()))
    for following in range(number + 1, count + 1):
        form.get_by_role("button", name="Next").click()
        expect(form.get_by_text(f"Step {following} of {count}")).to_be_visible()


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_application_is_added_deployed_and_cancelled(visit: Visit, image: str) -> None:
    """From an empty environment to a deployment that waits, by the pages alone; each page is accessible."""
    person = visit()
    page = person.sign_in()
    page.get_by_role("button", name="New environment").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("Büro <b>1</b>")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Büro <b>1</b>")
    page.get_by_role("button", name="Add application").last.click()
    page.get_by_label("Search by name").fill("apache")
    page.get_by_role("button", name="Add Apache HTTP Server").click()
    page.get_by_label("Port").fill("99999999")
    expect(page.locator("input[name=port]")).to_have_attribute("aria-invalid", "true")
    assert person.violations() == []
    page.get_by_label("Port").fill("80")
    finish = page.get_by_role("button", name="Add to the environment")
    following = page.get_by_role("button", name="Next")
    for number in (2, 3):
        following.click()
        expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
    finish.click()
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add ")
    assert person.violations() == []
    tile = page.get_by_role("listitem").filter(has_text=re.compile(r"^PostgreSQL$"))
    tile.drag_to(page.get_by_text("Drop an application here"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Add PostgreSQL")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Actions of").click()
    page.get_by_role("menuitem", name="Change").click()
    expect(page.get_by_label("Port")).to_have_value("80")
    page.get_by_label("Port").fill("8080")
    for number in (2, 3):
        following.click()
        expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
    page.get_by_role("button", name="Save the changes").click()
    changes = page.get_by_role("region", name="Deploy will do this")
    page.get_by_role("button", name="Actions of").click()
    page.get_by_role("menuitem", name="Remove").click()
    expect(changes).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(changes).to_contain_text("add ")
    page.get_by_role("button", name="Deploy", exact=True).click()
    expect(page.get_by_text("It waits for the agent of")).to_be_visible()
    # What is deployed for the first time stays in sight.
    expect(page.get_by_role("link", name="ApacheHttpServer")).to_be_visible()
    page.get_by_role("link", name="Follow the log").click()
    expect(page.get_by_role("log")).to_contain_text("Creating the machine")
    assert person.violations() == []
    page.reload()
    expect(page.get_by_role("log")).to_contain_text("Creating the machine")
    page.get_by_role("button", name="Cancel deployment").click()
    page.get_by_label("Reason").fill("enough seen")
    page.get_by_role("dialog").get_by_role("button", name="Cancel deployment").click()
    expect(page.get_by_text("The last deployment failed")).to_be_visible()
    expect(page.get_by_role("alert").first).to_contain_text("enough seen")
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("Cancelled")
    assert person.violations() == []


def test_texts_of_tenants_are_text(visit: Visit, hostile: str) -> None:
    """No name, description, tag, label or value of a package runs a script anywhere."""
    person = visit()
    page = person.sign_in()
    made = person.service.api("POST", "/v1/environments", {"name": HOSTILE})
    for path in (
        "/environments",
        "/catalog?search=hostile",
        f"/catalog/{hostile}",
        f"/environments/{made['id']}/add/{hostile}",
    ):
        person.open(path)
        expect(page.get_by_text("onerror=window.hurt=1").first).to_be_visible()
        assert page.evaluate("window.hurt") is None, path
        assert page.locator("main a[href^=javascript], main img[src='x'], main script").count() == 0
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Add to the environment").click()
    page.get_by_role("button", name="Deploy", exact=True).click()
    # The tab may show what was fetched before; the deployment is there from this text on.
    expect(page.get_by_text("The deployment has begun.")).to_be_visible()
    page.get_by_role("tab", name="History").click()
    page.get_by_role("row").nth(1).get_by_role("link").click()
    expect(page.get_by_role("log")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hurt") is None


@pytest.mark.thorough
def test_an_environment_is_made_for_an_application_when_its_form_is_complete(
    visit: Visit, image: str
) -> None:
    """Quick deploy makes no environment before, so none is left behind by who cancels."""
    person = visit()
    page = person.sign_in()

    def begin() -> None:
        person.open("/catalog?search=apache")
        page.get_by_role("button", name="Add Apache HTTP Server").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("radio", name="A new environment").check()
        dialog.get_by_label("Its name").fill("made for it")
        dialog.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Deploy Apache HTTP Server")
        expect(page.get_by_label("Name of the new environment")).to_have_value("made for it")

    def made() -> list[str]:
        listed = person.service.api("GET", "/v1/environments")["environments"]
        return [one["id"] for one in listed if one["name"] == "made for it"]

    begin()
    assert made() == []
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/dashboard/catalog*")
    begin()
    for number in (2, 3):
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
    assert made() == []
    page.get_by_role("button", name="Make the environment").click()
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add ")
    assert len(made()) == 1
    page.get_by_role("link", name="Catalog", exact=True).click()
    recent = page.get_by_role("region", name="Recently used")
    expect(recent.get_by_role("link")).to_have_text("Apache HTTP Server")
    page.go_back()
    # The menu of a component is made when it is opened first, and the keyboard stays with it.
    page.get_by_role("button", name="Actions of").press("Enter")
    expect(page.get_by_role("menuitem", name="Change")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menuitem")).to_have_count(0)
    expect(page.get_by_role("button", name="Actions of")).to_be_focused()


@pytest.mark.thorough
def test_a_component_for_a_field_makes_the_environment_which_goes_with_the_form(
    visit: Visit, image: str
) -> None:
    """WordPress needs a database: it is made in the new environment, before the form is complete.

    Who leaves the form, or closes the window, leaves no environment behind.
    """
    person = visit()
    page = person.sign_in()

    def names() -> list[str]:
        listed = person.service.api("GET", "/v1/environments")["environments"]
        return [one["name"] for one in listed if one["name"].startswith("quick-env-")]

    before = names()

    def begin() -> None:
        person.open("/catalog?search=wordpress")
        page.get_by_role("button", name="Deploy WordPress in a new environment").click()
        page.get_by_role("button", name="New: MariaDB").click()
        nested = page.get_by_role("dialog")
        expect(nested).to_be_visible()
        nested.get_by_role("button", name="Next").click()
        expect(nested.get_by_text("Step 2 of")).to_be_visible()

    def end_nested() -> None:
        nested = page.get_by_role("dialog")
        nested.get_by_role("combobox", name="Image").click()
        page.get_by_role("option", name=image).click()
        to_the_last_page(nested)
        nested.get_by_role("button", name="Add to the environment").click()
        expect(nested).to_have_count(0)

    begin()
    assert len(names()) == len(before) + 1
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/dashboard/catalog*")
    until(lambda: names() == before, "the environment is gone")
    begin()
    page.goto("about:blank")
    until(lambda: names() == before, "the environment is gone with the window")
    begin()
    end_nested()
    page.locator("input[name=password]").fill("long enough")
    page.get_by_label("Password, once more").fill("long enough")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Step 2 of")).to_be_visible()
    page.get_by_role("combobox", name="Image").click()
    page.get_by_role("option", name=image).click()
    to_the_last_page(page)
    page.get_by_role("button", name="Make the environment").click()
    changes = page.get_by_role("region", name="Deploy will do this")
    expect(changes.get_by_role("listitem")).to_have_count(2)
    assert len(names()) == len(before) + 1


@pytest.mark.thorough
def test_one_application_after_another_goes_into_the_chosen_environment(
    visit: Visit, hostile: str
) -> None:
    """The catalog remembers the environment, and the form leads back to it for the next application."""
    person = visit()
    page = person.sign_in()
    made = person.service.api("POST", "/v1/environments", {"name": "one after another"})
    person.open("/catalog?search=hostile")
    page.get_by_role("combobox", name="Environment to add to").click()
    page.get_by_role("option", name="one after another").click()
    expect(page.get_by_text("You choose an application for one after another.")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Add Hostile")).click()
    page.get_by_role("button", name="Next").click()
    page.get_by_label("Add another application afterwards").check()
    page.get_by_role("button", name="Add to the environment").click()
    page.wait_for_url(f"**/dashboard/catalog?environment={made['id']}")
    # Another page asked it to remember the environment, as a bookmark of the earlier dashboard does.
    person.page.goto(
        f"{person.service.url}/dashboard/catalog/switch_environment/{made['id']}?next=/dashboard/history"
    )
    expect(page.get_by_role("heading", level=1)).to_have_text("History")
    person.open("/catalog?search=hostile")
    page.get_by_role("button", name=re.compile("^Add Hostile")).click()
    expect(page.get_by_role("radio", name="one after another")).to_be_checked()


@pytest.mark.thorough
def test_environments_open_where_somebody_looked_last(visit: Visit, hostile: str) -> None:
    """Its components, its latest log or its topology; and a deployment has the components as they were."""
    person = visit()
    page = person.sign_in()
    service = person.service
    made = service.api("POST", "/v1/environments", {"name": "looked at"})
    at = f"/v1/environments/{made['id']}"
    session = service.api("POST", f"{at}/configure")["id"]
    component = {
        "?": {"id": "5" * 32, "type": "org.example.Hostile/1.0.0", "name": "first"},
        "title": "said first",
    }
    service.api("POST", f"{at}/services", component, X_Configuration_Session=session)
    service.api("POST", f"{at}/sessions/{session}/deploy")
    service.wait_for(made["id"])
    person.open("/environments")
    page.get_by_role("link", name="looked at").click()
    page.get_by_role("tab", name="Latest log").click()
    expect(page.get_by_role("log")).to_contain_text("said first")
    page.get_by_role("tab", name="Configuration").click()
    expect(page.get_by_role("row", name=re.compile("first.*org.example.Hostile"))).to_be_visible()
    page.get_by_role("link", name="Environments").first.click()
    page.get_by_role("link", name="looked at").click()
    expect(page.get_by_role("tab", name="Latest log")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="Components").click()
    page.get_by_role("link", name="first").click()
    expect(page.get_by_role("heading", name="What it reported")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("said first")
    person.open("/history")
    row = page.get_by_role("row").filter(has_text="looked at")
    expect(row).to_contain_text("first (Hostile)")
    expect(row).to_contain_text("Deployment finished")


@pytest.mark.thorough
def test_the_palette_shows_the_applications_of_a_category(visit: Visit) -> None:
    """Those of the category alone; a search finds in all of them, and an empty one says so."""
    person = visit()
    page = person.sign_in()
    service = person.service
    packages = service.api("GET", "/v1/catalog/packages?type=Application&catalog=true&limit=100")
    known = {one["id"]: one["name"] for one in packages["packages"]}
    (chosen, name), (_, other) = sorted(known.items(), key=lambda one: one[1])[:2]
    service.api("POST", "/v1/catalog/categories", {"name": "For the palette"})
    change = [{"op": "replace", "path": "/categories", "value": ["For the palette"]}]
    before = service.api("GET", f"/v1/catalog/packages/{chosen}")["categories"]
    patch = {"Content_Type": "application/murano-packages-json-patch"}
    service.api("PATCH", f"/v1/catalog/packages/{chosen}", change, **patch)
    try:
        made = service.api("POST", "/v1/environments", {"name": "with a palette"})["id"]
        person.open(f"/environments/{made}")
        palette = page.get_by_role("region", name="Applications to add")
        tiles = palette.get_by_role("listitem")
        expect(tiles.nth(1)).to_be_visible()
        palette.get_by_role("combobox", name="Category").click()
        page.get_by_role("option", name="For the palette").click()
        expect(tiles).to_have_text([re.compile(re.escape(name))])
        expect(palette.get_by_test_id("drop")).to_be_visible()
        palette.get_by_label("Search applications").fill(other)
        expect(tiles.filter(has_text=other).first).to_be_visible()
        expect(palette.get_by_role("combobox", name="Category")).to_be_disabled()
        palette.get_by_label("Search applications").fill("no such application")
        expect(palette).to_contain_text("No application fits.")
        # Nothing to drop, so no place to drop it.
        expect(palette.get_by_test_id("drop")).to_have_count(0)
        palette.get_by_label("Search applications").fill("")
        expect(tiles).to_have_text([re.compile(re.escape(name))])
        tiles.get_by_role("button", name=f"Add {name}").click()
        page.wait_for_url(f"**/environments/{made}/add/{chosen}")
    finally:
        change[0]["value"] = before
        service.api("PATCH", f"/v1/catalog/packages/{chosen}", change, **patch)
        for one in service.api("GET", "/v1/catalog/categories")["categories"]:
            if one["name"] == "For the palette":
                service.api("DELETE", f"/v1/catalog/categories/{one['id']}")


@pytest.mark.thorough
def test_an_open_session_without_changes_is_nothing_to_deploy(
    visit: Visit, service: Service
) -> None:
    """A form that was left opened one; the list and the environment's page say the same of it (A2)."""
    made = environment(service, "unchanged")
    session = str(service.api("POST", f"/v1/environments/{made}/configure")["id"])
    page = visit().sign_in()
    for text in ("Ready to configure", "Ready to deploy"):
        page.goto(f"{service.url}/dashboard/environments")
        tile = page.get_by_role("listitem").filter(has_text="unchanged")
        expect(tile.get_by_text(text)).to_be_visible()
        tile.get_by_role("link", name="unchanged").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("unchanged")
        expect(page.get_by_role("main").get_by_text(text)).to_be_visible()
        body = {"?": {"id": uuid.uuid4().hex, "type": "org.example.Any"}}
        at = f"/v1/environments/{made}/services"
        service.api("POST", at, body, X_Configuration_Session=session)
    service.api("DELETE", f"/v1/environments/{made}?abandon=true")


def test_a_component_that_others_use_is_not_removed(visit: Visit, service: Service) -> None:
    """A dialog names who uses it, and as what; nothing is removed."""
    made = environment(service, "in use")
    session = str(service.api("POST", f"/v1/environments/{made}/configure")["id"])
    database, at = uuid.uuid4().hex, f"/v1/environments/{made}/services"
    for header, properties in (
        ({"id": database, "name": "db"}, {}),
        ({"id": uuid.uuid4().hex, "name": "blog"}, {"database": database}),
    ):
        body = {"?": {"type": "org.example.Any", **header}, **properties}
        service.api("POST", at, body, X_Configuration_Session=session)
    page = visit().sign_in()
    page.goto(f"{service.url}/dashboard/environments/{made}")
    row = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="db", exact=True))
    row.get_by_role("button", name="Actions of").click()
    page.get_by_role("menuitem", name="Remove").click()
    dialog = page.get_by_role("dialog", name="db is in use")
    expect(dialog.get_by_text("blog (database)")).to_be_visible()
    expect(dialog.get_by_role("link", name="blog")).to_be_visible()
    dialog.get_by_role("button", name="Close").last.click()
    expect(row).to_be_visible()
    assert len(service.api("GET", at, X_Configuration_Session=session)) == 2
    service.api("DELETE", f"/v1/environments/{made}?abandon=true")
