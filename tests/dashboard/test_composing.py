"""Composing an environment and deploying it, in a browser."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .conftest import HOSTILE, Person

Visit = Callable[..., Person]
pytestmark = pytest.mark.programs


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


def test_an_environment_made_for_an_application_goes_when_it_is_cancelled(
    visit: Visit, image: str
) -> None:
    """Quick deploy leaves no empty environment behind; one that something was put into stays."""
    person = visit()
    page = person.sign_in()

    def begin() -> None:
        person.open("/catalog?search=apache")
        page.get_by_role("button", name="Add Apache HTTP Server").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("radio", name="A new environment").check()
        dialog.get_by_label("Its name").fill("made for it")
        dialog.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Add Apache HTTP Server")

    def made() -> list[str]:
        listed = person.service.api("GET", "/v1/environments")["environments"]
        return [one["id"] for one in listed if one["name"] == "made for it"]

    begin()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/dashboard/catalog*")
    assert made() == []
    begin()
    for number in (2, 3):
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
    page.get_by_role("button", name="Add to the environment").click()
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
