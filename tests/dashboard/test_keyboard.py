"""Somebody without a mouse: from signing in to signing out, and the keyboard is never lost on the way."""

import pytest
from playwright.sync_api import Page, expect

from .conftest import PASSWORD, Visit
from .test_misfortune import environment

pytestmark = pytest.mark.programs

AT = """
() => {
  const at = document.activeElement;
  return (at.getAttribute('aria-label') || at.labels?.[0]?.innerText || at.innerText || '').trim();
}
"""


def held(page: Page) -> None:
    """Something on the page has the keyboard."""
    expect(page.locator("body :focus")).to_have_count(1)


def to(page: Page, name: str) -> None:
    """Press Tab until a control of this name has the keyboard; each on the way shows that it has it."""
    # Other tests may have left a long list on the page.
    for _ in range(page.locator("a, button, input, textarea, [tabindex]").count() + 10):
        page.keyboard.press("Tab")
        if page.evaluate(AT).removesuffix("*").strip() == name:
            shown = page.evaluate(
                "() => { const { outlineStyle, borderColor } = getComputedStyle(document.activeElement);"
                " return [outlineStyle, borderColor]; }"
            )
            assert shown[0] != "none" or page.evaluate("document.activeElement.tagName") == "INPUT"
            return
    raise AssertionError(f"Tab does not come to {name}: last at {page.evaluate(AT)!r}")


def press(page: Page, name: str) -> None:
    """Tab to a control and press Enter."""
    to(page, name)
    page.keyboard.press("Enter")


def choose(page: Page, name: str) -> None:
    """Go down in the menu that is open to an item, and press Enter.

    A menu takes the keyboard a moment after it is opened: keys before that go to its button.
    """
    menu = page.get_by_role("menu")
    item = menu.get_by_role("menuitem", name=name)
    expect(item).to_be_visible()
    expect(page.locator("[role=menu]:focus, [role=menu] :focus")).to_have_count(1)
    for _ in menu.get_by_role("menuitem").all():
        page.keyboard.press("ArrowDown")
        if item.evaluate("(one) => one === document.activeElement"):
            page.keyboard.press("Enter")
            return
    raise AssertionError(f"the menu does not come to {name}")


@pytest.mark.thorough
def test_an_application_is_deployed_and_removed_without_a_mouse(visit: Visit, hostile: str) -> None:
    """Sign in, make an environment, fill in a form, deploy, read the log, destroy, sign out."""
    person = visit()
    page = person.page
    page.goto(f"{person.service.url}/dashboard/")
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.type("admin")
    to(page, "Password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    title = page.get_by_role("heading", level=1)
    expect(title).to_have_text("Environments")

    press(page, "New environment")
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(title).to_have_text("by keys")
    held(page)
    to(page, "Search applications")
    page.keyboard.type("hostile")
    expect(page.get_by_role("button", name="Add Apache HTTP Server")).to_have_count(0)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(title).to_contain_text("Add Hostile")
    held(page)
    press(page, "Next")
    expect(page.get_by_label("Application name")).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("keyed")
    press(page, "Add to the environment")
    expect(title).to_have_text("by keys")
    held(page)
    press(page, "Deploy")
    expect(page.get_by_text("Ready", exact=True)).to_be_visible()
    held(page)

    to(page, "Components")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log")).to_be_visible()
    held(page)
    page.go_back()

    press(page, "More actions")
    choose(page, "Destroy")
    # A dialog takes the keyboard a moment after it is opened: keys before that go to the page.
    expect(page.locator("[role=dialog]:focus, [role=dialog] :focus")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="More actions")).to_be_focused()
    page.keyboard.press("Enter")
    choose(page, "Destroy")
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("by keys")
    page.keyboard.press("Enter")
    expect(title).to_have_text("Environments")
    held(page)

    press(page, "Account of admin")
    choose(page, "Sign out")
    expect(page.get_by_label("User")).to_be_focused()


@pytest.mark.thorough
def test_the_keyboard_goes_to_the_page_when_what_opened_a_dialog_is_gone(
    visit: Visit,
) -> None:
    """The tile whose menu opened the dialog is deleted by it."""
    person = visit()
    gone = "0 goes with it"  # among the first of a long list, which are drawn
    environment(person.service, gone)
    page = person.sign_in()
    page.get_by_role("button", name=f"Actions of {gone}").press("Enter")
    choose(page, "Destroy")
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_role("textbox")
    if field.count():
        field.fill(gone)
    dialog.get_by_role("button", name="Destroy").press("Enter")
    expect(page.get_by_role("button", name=f"Actions of {gone}")).to_have_count(0)
    held(page)


@pytest.mark.thorough
def test_the_keyboard_follows_rows_that_are_added_and_removed(visit: Visit) -> None:
    """A new row of metadata can be typed into at once; after a removal the keyboard is at Add."""
    person = visit()
    made = environment(person.service, "with notes")
    page = person.sign_in()
    person.open(f"/environments/{made}")
    press(page, "More actions")
    choose(page, "Metadata")
    dialog = page.get_by_role("dialog")
    add = dialog.get_by_role("button", name="Add")
    expect(add).to_be_focused()
    for name in ("owner", "phone"):
        add.press("Enter")
        expect(dialog.get_by_label("Name", exact=True).last).to_be_focused()
        page.keyboard.type(name)
    dialog.get_by_role("button", name="Remove owner").press("Enter")
    expect(add).to_be_focused()
    press(page, "Save")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="More actions")).to_be_focused()
    page.keyboard.press("Enter")
    choose(page, "Metadata")
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("phone")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
