"""The page of machines: what runs where, and changing an instance."""

import json

import pytest
from playwright.sync_api import expect

from .conftest import Visit

pytestmark = pytest.mark.programs


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_instance_is_stopped_started_and_destroyed(visit: Visit, instance: str) -> None:
    """The menu of an instance changes it, and the page shows its new state."""
    person = visit()
    page = person.sign_in()
    person.open("/machines")
    row = page.get_by_role("row", name=instance)
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("10.77.0.")
    for action, state in (("Stop", "stopped"), ("Start", "running")):
        row.get_by_role("button", name=f"Actions of {instance}").click()
        page.get_by_role("menuitem", name=action).click()
        expect(row).to_contain_text(state)
    row.get_by_role("button", name=f"Actions of {instance}").click()
    page.get_by_role("menuitem", name="Snapshots").click()
    page.get_by_label("Name of a new snapshot").fill("before")
    page.get_by_role("button", name="Take").click()
    expect(page.get_by_role("button", name="Go back to before")).to_be_visible()
    page.get_by_role("button", name="Delete the snapshot before").click()
    page.get_by_role("dialog").last.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("It has no snapshots.")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(1)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    row.get_by_role("button", name=f"Actions of {instance}").click()
    page.get_by_role("menuitem", name="Destroy").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Destroy")
    expect(button).to_be_disabled()
    page.get_by_role("dialog").get_by_role("textbox").fill(instance)
    button.click()
    expect(row).to_have_count(0)


def test_a_console_shows_what_a_machine_prints(visit: Visit, instance: str) -> None:
    """It follows the machine's output; a terminal that cannot be opened says why, and can be requested
    again."""
    person = visit()
    service = person.service
    page = person.sign_in()
    person.open("/machines")
    page.get_by_role("button", name=f"Actions of {instance}").click()
    page.get_by_role("menuitem", name="Terminal and console").click()
    expect(page.get_by_role("alert")).to_contain_text("Running a command inside a VM")
    expect(page.get_by_role("button", name="Connect again")).to_be_visible()
    page.get_by_text("Console", exact=True).click()
    expect(page.get_by_text("it only prints")).to_be_visible()
    (vm,) = [
        one for one in json.loads(service.run("vm", "list", "--json")) if one["alias"] == instance
    ]
    log = service.directory / "node/vms" / vm["uuid"] / "console.log"
    with log.open("a") as printed:
        printed.write("login: <b>nobody</b>\n")
    expect(page.locator("[data-console]")).to_contain_text("login: <b>nobody</b>")


@pytest.mark.thorough
def test_where_a_machine_would_go_is_explained(visit: Visit, instance: str) -> None:
    """The filters are drawn in order; the one that removes the last server says why."""
    person = visit()
    page = person.sign_in()
    person.open("/machines?tab=placement")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status")).to_contain_text("It would go to")
    (node,) = person.service.api("GET", "/compute/servers")
    address = f"/compute/servers/{node['uuid']}"
    person.service.api("POST", address, {"reserved": True})
    try:
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_role("status")).to_contain_text("No compute resources")
        removing = page.get_by_role("listitem").filter(has_text="0 servers left")
        expect(removing).to_contain_text("Server is reserved")
        expect(removing).to_contain_text(node["hostname"])
    finally:
        person.service.api("POST", address, {"reserved": False})


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_image_is_marked_for_forms(visit: Visit, instance: str, image: str) -> None:
    """Its title and type are shown; no two images have one title; a mark that cannot be read says so."""
    person = visit()
    page = person.sign_in()
    person.open("/machines?tab=images")
    row, other = page.get_by_role("row", name="plain"), page.get_by_role("row", name=image)
    dialog = page.get_by_role("dialog")

    def mark(name: str, title: str) -> None:
        page.get_by_role("button", name=f"Mark {name} for forms").click()
        dialog.get_by_label("Title in forms").fill(title)
        dialog.get_by_role("button", name="Save").click()

    mark("plain", "Plain Debian")
    expect(row).to_contain_text("Plain Debian · linux")
    mark(image, "Plain Debian")
    expect(dialog).to_contain_text("The image plain has this title already")
    assert person.violations() == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(other).not_to_contain_text("Plain Debian")
    page.get_by_role("button", name="Mark plain for forms").click()
    dialog.get_by_role("button", name="Remove the mark").click()
    expect(row).not_to_contain_text("Plain Debian")
    images = person.service.api("GET", "/compute/images")
    uuid = next(one["uuid"] for one in images if one["name"] == "plain")
    tags = {"murano_image_info": "{broken"}
    person.service.api("POST", f"/compute/images/{uuid}/tags", {"tags": tags, "replace": True})
    expect(row).to_contain_text("The mark cannot be read")
