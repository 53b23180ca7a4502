"""Service definitions of version 0.3: the list, and the editor with findings."""

import pytest
from playwright.sync_api import expect

from .conftest import Visit

pytestmark = pytest.mark.programs


@pytest.mark.sampled(only=["light-True"])
@pytest.mark.parametrize("visit", [True], indirect=True)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_definition_is_edited_and_its_findings_are_shown(visit: Visit, theme: str) -> None:
    """A file that the manifest names and nobody has makes it invalid; taking it out makes it valid again."""
    person = visit(theme=theme)
    page = person.sign_in()
    person.open("/definitions")
    assert person.violations() == []
    page.get_by_role("link", name="Apache", exact=False).first.click()
    text = page.get_by_role("textbox", name="Text of manifests/")
    expect(text).to_contain_text("full_service_name")
    expect(page.get_by_role("region", name="Findings")).to_contain_text("Nothing is wrong")
    assert person.violations() == []
    save = page.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    text.press("Control+End")
    page.keyboard.insert_text("  - nobody-has-it.sh\n")
    page.go_back()
    page.get_by_role("button", name="Stay").click()
    expect(text).to_contain_text("nobody-has-it.sh")
    save.click()
    expect(page.get_by_role("region", name="Findings")).to_contain_text("nobody-has-it.sh")
    expect(page.get_by_text("not valid")).to_be_visible()
    text.press("Control+z")
    save.click()
    expect(page.get_by_role("region", name="Findings")).to_contain_text("Nothing is wrong")


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_a_service_is_composed_by_its_form(visit: Visit, image: str) -> None:
    """An environment for services says its kind; a form of the definitions makes one, and changes it."""
    person = visit()
    page = person.sign_in()
    page.get_by_role("button", name="New environment").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("old world")
    page.get_by_role("radio", name="Services of version 0.3").check()
    assert person.violations() == []
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("old world")
    expect(page.get_by_text("Add the first service")).to_be_visible()
    assert person.violations() == []
    page.get_by_role("button", name="Add Linux Telnet").click()
    page.get_by_label("Service Name").fill("tel")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Step 2 of 2")).to_be_visible()
    assert person.violations() == []
    page.get_by_role("button", name="Add to the environment").click()
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add tel")
    assert person.violations() == []
    page.get_by_role("button", name="Actions of tel").click()
    page.get_by_role("menuitem", name="Change").click()
    expect(page.get_by_label("Service Name")).to_have_value("tel")
    page.get_by_label("Instance Count").fill("2")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Save the changes").click()
    page.get_by_role("link", name="tel", exact=True).click()
    expect(page.get_by_role("cell", name="linuxTelnetService")).to_be_visible()
    page.get_by_role("tab", name="Topology").click()
    expect(page.get_by_text("tel_instance_1")).to_be_visible()
    person.open("/environments")
    tile = page.get_by_role("listitem").filter(has_text="old world")
    expect(tile).to_contain_text("Services of version 0.3")
