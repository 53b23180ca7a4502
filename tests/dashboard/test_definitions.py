"""Service definitions of version 0.3: the list, and the editor with findings."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .conftest import Person

Visit = Callable[..., Person]
pytestmark = pytest.mark.programs


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
    save.click()
    expect(page.get_by_role("region", name="Findings")).to_contain_text("nobody-has-it.sh")
    expect(page.get_by_text("not valid")).to_be_visible()
    text.press("Control+z")
    save.click()
    expect(page.get_by_role("region", name="Findings")).to_contain_text("Nothing is wrong")
