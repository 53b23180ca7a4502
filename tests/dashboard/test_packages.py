"""The page of packages: from an archive that is dropped to one that is deleted."""

import base64
import io
import zipfile
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from .conftest import Person

Visit = Callable[..., Person]
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
    assert page.evaluate("window.hurt") is None
    assert person.violations() == []
    dialog.get_by_role("button", name="Close").last.click()
    drop(
        page, "good.zip", archive(name, f"Name: {name}\nProperties: {{a: {{Contract: $.int()}}}}\n")
    )
    dialog.get_by_role("button", name="Add 1 package").click()
    expect(dialog.get_by_text("added", exact=True)).to_be_visible()
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
