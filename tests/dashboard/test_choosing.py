"""Doing something with many at once: environments and packages that are ticked in their lists."""

import base64
import uuid

import pytest
from playwright.sync_api import expect

from .conftest import Service, Visit
from .test_packages import archive

pytestmark = [pytest.mark.thorough, pytest.mark.programs]


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_chosen_environments_are_destroyed_and_renamed(visit: Visit, service: Service) -> None:
    """Ticked environments go together after their number is typed; one of them is renamed in the list."""
    mark = uuid.uuid4().hex[:8]
    for number in range(8):  # the search appears with more than six
        service.api("POST", "/v1/environments", {"name": f"{mark}-{number}"})
    person = visit(theme="dark")
    page = person.sign_in()
    page.get_by_label("Search environments").fill(mark)
    tiles = page.get_by_role("listitem").filter(has_text=mark)
    expect(tiles).to_have_count(8)
    page.get_by_label(f"Choose {mark}-0").check()
    expect(page.get_by_role("status").filter(has_text="1 chosen")).to_be_visible()
    assert person.violations() == []
    page.get_by_role("button", name="Choose all 8").click()
    page.get_by_label(f"Choose {mark}-3").uncheck()
    chosen = page.get_by_role("region", name="What to do with those that are chosen")
    # Nothing was changed or deployed: there is nothing to deploy and nothing to abandon.
    expect(chosen.get_by_role("button", name="Deploy")).to_be_disabled()
    expect(chosen.get_by_role("button", name="Abandon")).to_be_disabled()
    chosen.get_by_role("button", name="Destroy").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Destroy 7 environments?")
    expect(dialog.get_by_role("button", name="Destroy")).to_be_disabled()
    dialog.get_by_role("textbox").fill("7")
    dialog.get_by_role("button", name="Destroy").click()
    expect(page.get_by_text("Done with 7.")).to_be_visible()
    page.get_by_role("button", name=f"Actions of {mark}-3").click()
    page.get_by_role("menuitem", name="Rename").click()
    dialog.get_by_label("Name").fill(f"{mark}-renamed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=f"{mark}-renamed")).to_be_visible()
    expect(tiles).to_have_count(1)


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_packages_are_filtered_and_changed_together(visit: Visit, service: Service) -> None:
    """A type or an exact name filters at the service; ticked packages are disabled, then deleted."""
    person = visit()
    page = person.sign_in()
    person.open("/packages?upload=true")
    names = ["org.example.Ticked", "org.example.TickedToo"]
    page.locator("input[type=file]").set_input_files(
        [
            {
                "name": f"{name}.zip",
                "mimeType": "application/zip",
                "buffer": base64.b64decode(archive(name, f"Name: {name}\n")),
            }
            for name in names
        ]
    )
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Add 2 packages").click()
    expect(dialog.get_by_text("added", exact=True)).to_have_count(2)
    dialog.get_by_role("button", name="Close").last.click()
    rows = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    page.get_by_role("combobox", name="Search by").click()
    page.get_by_role("option", name="Exact name").click()
    page.get_by_label("The whole name").fill("Drop")
    expect(page.get_by_text("No package fits")).to_be_visible()
    page.get_by_label("The whole name").fill("Dropped")
    expect(rows).to_have_count(2)
    page.get_by_role("combobox", name="Type").click()
    page.get_by_role("option", name="Library").click()
    expect(page.get_by_text("No package fits")).to_be_visible()
    page.get_by_role("combobox", name="Type").click()
    page.get_by_role("option", name="Application").click()
    page.get_by_label("Choose all 2").check()
    assert person.violations() == []
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("menuitem", name="Enable")).to_be_disabled()
    page.get_by_role("menuitem", name="Disable").click()
    expect(
        page.get_by_role("switch", name="is enabled").and_(page.locator(":checked"))
    ).to_have_count(0)
    found = service.api("GET", "/v1/catalog/packages?name=Dropped&include_disabled=true")[
        "packages"
    ]
    assert [one["enabled"] for one in found] == [False, False]
    page.get_by_label("Choose all 2").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No package fits")).to_be_visible()


def test_an_unknown_address_keeps_the_navigation(visit: Visit) -> None:
    """An address that no page has names itself and leads on; an environment that is gone does, too."""
    person = visit()
    page = person.sign_in()
    person.open("/no/such/page")
    expect(page.get_by_role("main")).to_contain_text("/no/such/page")
    expect(page.get_by_role("navigation", name="Main navigation")).to_be_visible()
    page.get_by_role("link", name="Look in the catalog").click()
    page.wait_for_url("**/dashboard/catalog")
    person.open(f"/environments/{uuid.uuid4().hex}")
    expect(page.get_by_text("There is nothing at this address")).to_be_visible()
