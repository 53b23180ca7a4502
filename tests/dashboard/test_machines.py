"""The page of machines: what runs where, and changing an instance."""

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .conftest import Person, Service

Visit = Callable[..., Person]
pytestmark = pytest.mark.programs


@pytest.fixture
def instance(service: Service, tmp_path: Path) -> Iterator[str]:
    """A running instance with an address, made without an environment."""
    (tmp_path / "text").write_text("x" * 2000)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "text", "etc/hostname")
    service.run("image", "import", "plain", str(tmp_path / "a.tar"))
    service.run("network", "create", "lan")
    service.run("subnet", "create", "lan", "10.77.0.0/24")
    service.run("vm", "create", "box", "--image", "plain", "--network", "lan", "--size", "m1.tiny")
    yield "box"
    if '"box"' in service.run("vm", "list", "--json"):
        service.run("vm", "destroy", "--yes", "box")
    service.run("network", "delete", "--yes", "lan")
    service.run("image", "delete", "--yes", "plain")


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


@pytest.mark.parametrize("visit", [True], indirect=True)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_tables_of_machines_are_accessible(
    visit: Visit, instance: str, theme: str, width: int
) -> None:
    """Each tab lists what there is; axe finds nothing, also on a phone."""
    person = visit(theme=theme, width=width)
    page = person.sign_in()
    for tab, text in (
        ("instances", instance),
        ("nodes", "free"),
        ("images", "plain"),
        ("networks", "10.77.0.0/24"),
        ("tickets", "Nothing waits"),
        ("placement", "Nothing is made"),
    ):
        person.open(f"/machines?tab={tab}")
        expect(page.get_by_role("main")).to_contain_text(text)
        assert person.violations() == [], tab


def test_a_console_shows_what_a_machine_prints(visit: Visit, instance: str) -> None:
    """It follows the machine's output; a terminal that cannot be had says why, and can be asked for again."""
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
