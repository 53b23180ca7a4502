"""What somebody has filled in is not lost by Back, by a link or by closing the window without a question."""

import pytest
from playwright.sync_api import Page, expect

from .conftest import Service, Visit
from .test_misfortune import environment

pytestmark = [pytest.mark.thorough, pytest.mark.programs]


def question(page: Page) -> None:
    """The page asks, and is still there."""
    expect(page.get_by_role("dialog", name="Leave this form?")).to_be_visible()


def stay(page: Page) -> None:
    """Stay on the page that asks."""
    question(page)
    page.get_by_role("button", name="Stay").click()
    expect(page.get_by_role("dialog", name="Leave this form?")).to_have_count(0)


@pytest.mark.parametrize("how", ["Back", "Catalog", "closing"])
def test_a_form_asks_before_it_is_left(
    visit: Visit, service: Service, hostile: str, how: str
) -> None:
    """Back, a link and closing the window ask; who stays has what was typed, who leaves is elsewhere."""
    made = environment(service, f"left by {how}")
    person = visit()
    page = person.sign_in()
    form = page.get_by_role("main").get_by_role("textbox").first

    def begin() -> None:
        person.open(f"/environments/{made}")
        page.get_by_role("button", name="Add Hostile").click()
        expect(form).to_be_visible()

    def leave() -> None:
        if how == "Back":
            page.go_back()
        else:
            page.get_by_role("link", name=how, exact=True).click()

    begin()
    if how != "closing":
        # Nothing is typed yet: nothing is asked.
        leave()
        expect(page.get_by_role("heading", level=1)).not_to_contain_text("Add")
        begin()
    form.fill("typed with care")
    if how == "closing":
        with page.expect_event("dialog") as asked:
            page.close(run_before_unload=True)
        assert asked.value.type == "beforeunload"
        asked.value.dismiss()
        expect(form).to_have_value("typed with care")
        page.once("dialog", lambda dialog: dialog.accept())
        return
    for _ in range(2):
        leave()
        stay(page)
        expect(form).to_have_value("typed with care")
        assert page.url.endswith(f"/environments/{made}/add/{hostile}")
    leave()
    question(page)
    page.get_by_role("button", name="Leave", exact=True).click()
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("Add")


def test_a_form_that_is_saved_or_cancelled_asks_nothing(
    visit: Visit, service: Service, hostile: str
) -> None:
    """Its own buttons say what is meant; afterwards links and Back work as anywhere."""
    made = environment(service, "left by its buttons")
    person = visit()
    page = person.sign_in()
    form = page.get_by_role("main").get_by_role("textbox").first
    for buttons in (["Cancel"], ["Next", "Add to the environment"]):
        person.open(f"/environments/{made}/add/{hostile}")
        form.fill("typed")
        for button in buttons:
            page.get_by_role("button", name=button).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("left by its buttons")
    page.get_by_role("link", name="Catalog", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Catalog")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_dialog_asks_before_back_and_stays_at_a_click_beside_it(
    visit: Visit, service: Service
) -> None:
    """Once something is typed; Escape closes it at once, as its button does."""
    environment(service, "0 of a dialog")  # among the first of a long list, which are drawn
    page = visit().sign_in()
    page.get_by_role("link", name="Catalog", exact=True).click()
    page.get_by_role("link", name="Environments", exact=True).click()
    dialog = page.get_by_role("dialog", name="Rename")
    name = dialog.get_by_label("Name")

    def begin() -> None:
        page.get_by_role("button", name="Actions of 0 of a dialog").click()
        page.get_by_role("menuitem", name="Rename").click()
        expect(dialog).to_be_visible()

    begin()
    page.mouse.click(5, 450)
    expect(dialog).to_have_count(0)
    begin()
    name.fill("half a na")
    page.mouse.click(5, 450)
    page.go_back()
    stay(page)
    expect(name).to_have_value("half a na")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Catalog")


def test_back_closes_the_dialog_for_a_new_environment_and_keeps_its_name(visit: Visit) -> None:
    """It has an address of its own: Back leaves it, Forward is at it again with what was typed."""
    page = visit().sign_in()
    page.get_by_role("button", name="New environment").first.click()
    dialog = page.get_by_role("dialog", name="New environment")
    dialog.get_by_label("Name").fill("half a na")
    page.go_back()
    expect(dialog).to_have_count(0)
    page.go_forward()
    expect(dialog.get_by_label("Name")).to_have_value("half a na")


@pytest.mark.parametrize("deleted", [True, False])
def test_a_form_that_is_over_says_why_and_what_to_do(
    visit: Visit, service: Service, hostile: str, deleted: bool
) -> None:
    """Its environment was deleted, or the form itself; what was typed is still there to be copied."""
    made = environment(service, "to be deleted")
    before = {one["id"] for one in service.api("GET", "/v1/wizards")["wizards"]}
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{made}/add/{hostile}")
    form = page.get_by_role("main").get_by_role("textbox").first
    form.fill("typed with care")
    if deleted:
        service.run("env", "destroy", "--yes", "to be deleted")
    else:
        for one in service.api("GET", "/v1/wizards")["wizards"]:
            if one["id"] not in before:
                service.api("DELETE", f"/v1/wizards/{one['id']}")
    page.get_by_role("button", name="Next").click()
    said = "Somebody has deleted the environment of this form" if deleted else "This form is over"
    expect(page.get_by_role("alert").filter(has_text=said)).to_contain_text("open the form again")
    expect(form).to_have_value("typed with care")
    expect(page.get_by_text("There is no wizard")).to_have_count(0)
