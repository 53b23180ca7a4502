"""The page of packages: from an archive that is dropped to one that is deleted."""

import base64
import io
import json
import zipfile

import pytest
from playwright.sync_api import Page, expect

from .conftest import Service, Visit

pytestmark = pytest.mark.programs

BAD = "<img src=x onerror=window.hurt=1>"


def archive(name: str, klass: str) -> str:
    """A package of one class, in base64."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        opened.writestr(
            "manifest.yaml",
            f"Format: '1.4'\nType: Application\nFullName: {name}\nName: Dropped\nVersion: 1.0.0\n"
            f"Description: A package\nAuthor: ann\nTags: []\nClasses:\n  {name}: App.yaml\n",
        )
        opened.writestr("Classes/App.yaml", klass)
    return base64.b64encode(made.getvalue()).decode()


def drop(page: Page, name: str, content: str) -> None:
    """Drop a file on the page."""
    transfer = page.evaluate_handle(
        """([name, content]) => {
            const transfer = new DataTransfer();
            const bytes = Uint8Array.from(atob(content), (one) => one.charCodeAt(0));
            transfer.items.add(new File([bytes], name, { type: 'application/zip' }));
            return transfer;
        }""",
        [name, content],
    )
    page.locator("h1").dispatch_event("drop", {"dataTransfer": transfer})


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_a_package_is_dropped_checked_added_changed_and_deleted(visit: Visit) -> None:
    """Findings have place and lines; a good archive is added, switched off, edited, fetched, deleted."""
    person = visit()
    page = person.sign_in()
    person.open("/packages")
    name = "org.example.Dropped"
    drop(page, "bad.zip", archive(name, f"Name: {name}\nProperties:\n  x: {{}}\n  '{BAD}': {{}}\n"))
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Classes/App.yaml:3")).to_be_visible()
    expect(dialog.get_by_text(">    3   x: {}")).to_be_visible()
    expect(dialog).to_contain_text(BAD)
    expect(dialog.get_by_role("button", name="Add to the catalog")).to_be_disabled()
    expect(dialog.get_by_text("refused", exact=True)).to_be_visible()
    assert page.evaluate("window.hurt") is None
    assert person.violations() == []
    dialog.get_by_role("button", name="Close").last.click()
    drop(
        page, "good.zip", archive(name, f"Name: {name}\nProperties: {{a: {{Contract: $.int()}}}}\n")
    )
    dialog.get_by_role("button", name="Add 1 package").click()
    expect(dialog.get_by_text("added", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Close").last.click()
    # The same name and version again: it takes the other's place when one says so.
    (kept,) = person.service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"]
    drop(
        page, "good.zip", archive(name, f"Name: {name}\nProperties: {{a: {{Contract: $.int()}}}}\n")
    )
    dialog.get_by_role("button", name="Add 1 package").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is in this project's catalog already")
    assert person.violations() == []
    dialog.get_by_role("button", name="Replace it").click()
    expect(dialog.get_by_text("replaced", exact=True)).to_be_visible()
    (new,) = person.service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"]
    assert (new["id"], new["created"]) == (kept["id"], kept["created"])
    assert new["updated"] >= kept["updated"]
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_label("Search by name").fill("dropped")
    row = page.get_by_role("row", name="Dropped")
    expect(page.get_by_role("row")).to_have_count(2)
    row.get_by_role("switch", name="Dropped is enabled").click(force=True)
    expect(row.get_by_role("switch", name="Dropped is enabled")).not_to_be_checked()
    row.get_by_role("switch", name="Dropped is enabled").click(force=True)
    expect(row.get_by_role("switch", name="Dropped is enabled")).to_be_checked()
    row.get_by_role("button", name="Actions of Dropped").click()
    page.get_by_role("menuitem", name="Edit").click()
    dialog.get_by_label("Name").fill("Renamed")
    dialog.get_by_label("Tags").fill("fresh")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Save").click()
    row = page.get_by_role("row", name="Renamed")
    row.get_by_role("button", name="Actions of Renamed").click()
    with page.expect_download() as fetched:
        page.get_by_role("menuitem", name="Download").click()
    assert fetched.value.suggested_filename == f"{name}.zip"
    page.keyboard.press("Escape")
    row.get_by_role("link", name="Renamed").click()
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("table", name=f"Inputs of {name}")).to_contain_text("integer")
    expect(page.get_by_role("main")).to_contain_text("fresh")
    assert person.violations() == []
    person.open("/packages")
    page.get_by_role("button", name="Actions of Renamed").click()
    page.get_by_role("menuitem", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row", name="Renamed")).to_have_count(0)
    # A bundle of two: one lies beside its file, the other is in no repository.
    page.get_by_role("button", name="Import").click()
    dialog.get_by_text("A bundle of packages").click()
    name = "org.example.Bundled"
    bundle = json.dumps({"Packages": [{"Name": name}, {"Name": "org.example.Nowhere"}, {}]})
    content = base64.b64decode(archive(name, f"Name: {name}\n"))
    page.locator("input[type=file]").set_input_files(
        [
            {"name": "all.bundle", "mimeType": "text/plain", "buffer": bundle.encode()},
            {"name": f"{name}.zip", "mimeType": "application/zip", "buffer": content},
        ]
    )
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_text(
        "2 of 2: 1 imported, 0 there already, 1 not imported"
    )
    expect(dialog).to_contain_text("no repository of packages is set")
    expect(dialog).to_contain_text("package 3 has no Name")
    assert person.violations() == []
    found = person.service.api("GET", f"/v1/catalog/packages?fqn={name}")["packages"]
    person.service.api("DELETE", f"/v1/catalog/packages/{found[0]['id']}")


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_an_environment_joins_a_network_and_has_metadata(visit: Visit, service: Service) -> None:
    """A network that is there can be chosen; metadata is written into the model of the session."""
    service.run("network", "create", "old")
    service.run("subnet", "create", "old", "10.78.0.0/24")
    person = visit(theme="dark", width=390)
    page = person.sign_in()
    page.get_by_role("button", name="New environment").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("joined")
    dialog.get_by_role("combobox", name="Network").click()
    page.get_by_role("option", name="old: 10.78.0.0/24").click()
    assert person.violations() == []
    dialog.get_by_role("button", name="Create").click()
    page.wait_for_url("**/environments/*")
    environment = page.url.rsplit("/", 1)[1]
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Metadata").click()
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_label("Name", exact=True).fill("owner")
    dialog.get_by_label("Value of owner").fill("<b>ann</b>")
    assert person.violations() == []
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    at = f"/v1/environments/{environment}"
    (session,) = service.api("GET", f"{at}/sessions")["sessions"]
    model = service.api("GET", f"{at}/model/", X_Configuration_Session=session["id"])
    assert model["?"]["metadata"] == {"owner": "<b>ann</b>"}
    joined = model["defaultNetworks"]["environment"]
    assert joined["?"]["type"] == "io.murano.resources.ExistingNeutronNetwork"
    assert joined["internalSubnetworkName"]
    service.api("DELETE", f"{at}?abandon=true")
    service.run("network", "delete", "--yes", "old")


@pytest.mark.thorough
def test_a_file_that_is_larger_than_the_limit_is_not_sent(visit: Visit) -> None:
    """The dialog says how large it is and may be; a file beside it goes on. So does a bundle's archive."""
    person = visit()
    page = person.sign_in()
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    person.open("/packages")
    limit = page.evaluate("fetch('/dashboard/api/session').then((one) => one.json())")["settings"]
    most = limit["package_mib"]
    large = {
        "name": "org.example.Large.zip",
        "mimeType": "application/zip",
        "buffer": bytes(most * 2**20 + 1),
    }
    small = base64.b64decode(archive("org.example.Small", "Name: org.example.Small\n"))
    beside = {"name": "small.zip", "mimeType": "application/zip", "buffer": small}
    page.get_by_role("button", name="Upload").first.click()
    dialog = page.get_by_role("dialog")
    page.locator("input[type=file]").set_input_files([large, beside])
    said = f"The file has {most}.1 MiB; the service takes at most {most} MiB."
    refused = dialog.get_by_role("region", name="org.example.Large.zip")
    expect(refused.get_by_role("alert")).to_have_text(said)
    expect(dialog.get_by_role("button", name="Add 1 package")).to_be_enabled()
    assert len([one for one in sent if "/catalog/checks" in one]) == 1
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Import").click()
    dialog.get_by_text("A bundle of packages").click()
    bundle = json.dumps({"Packages": [{"Name": "org.example.Large"}]}).encode()
    page.locator("input[type=file]").set_input_files(
        [{"name": "all.bundle", "mimeType": "text/plain", "buffer": bundle}, large]
    )
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("1 not imported")
    expect(dialog).to_contain_text(said)
    assert [one for one in sent if one.endswith("/catalog/packages")] == []
