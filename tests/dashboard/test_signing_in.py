"""Signing in and out, in a browser."""

import pytest
from playwright.sync_api import Page, expect

from .conftest import PASSWORD, Service, Visit
from .test_misfortune import member

pytestmark = pytest.mark.programs


def test_a_person_signs_in_and_out(visit: Visit) -> None:
    """The page that was asked for comes after signing in; after signing out it is not shown any more."""
    person = visit()
    page = person.open("/catalog?search=apache")
    page.get_by_label("User").fill("admin")
    page.locator("input[name=password]").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("link", name="Apache HTTP Server")).to_be_visible()
    assert "search=apache" in page.url
    page.get_by_role("button", name="Account of admin").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    person.open("/environments")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_no_script_of_the_page_can_read_the_session(visit: Visit) -> None:
    """Neither cookies nor storage of the page have a token."""
    person = visit()
    page = person.sign_in()
    seen = page.evaluate("[document.cookie, JSON.stringify({...localStorage, ...sessionStorage})]")
    assert "vetro_session" not in "".join(seen)
    assert person.service.token not in "".join(seen)
    cookies = page.context.cookies()
    assert [(one.get("name"), one.get("httpOnly"), one.get("sameSite")) for one in cookies] == [
        ("vetro_session", True, "Strict")
    ]


def sign_in_again(page: Page, user: str, password: str) -> None:
    """Fill in the dialog that lies over a page whose session is over."""
    again = page.get_by_role("dialog", name="Sign in again")
    expect(again.get_by_text("what you have typed are still there")).to_be_visible()
    again.get_by_label("User").fill(user)
    again.locator("input[name=password]").fill(password)
    again.get_by_role("button", name="Sign in").click()


@pytest.mark.thorough
@pytest.mark.parametrize("visit", [True], indirect=True)
def test_what_is_typed_stays_when_the_session_is_over(visit: Visit, image: str) -> None:
    """In a dialog and in a form: signing in again goes on with them, a wrong password changes nothing."""
    person = visit()
    page = person.sign_in()
    person.open("/environments")
    page.get_by_role("button", name="New environment").first.click()
    name = page.get_by_role("dialog", name="New environment").get_by_label("Name")
    name.fill("not too late")
    page.context.clear_cookies()
    page.keyboard.press("Enter")
    sign_in_again(page, "admin", "wrong")
    expect(page.get_by_role("alert").last).to_be_visible()
    assert person.violations() == []
    sign_in_again(page, "admin", PASSWORD)
    expect(page.get_by_role("dialog", name="Sign in again")).to_have_count(0)
    expect(name).to_have_value("not too late")
    name.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("not too late")
    page.get_by_role("button", name="Add application").last.click()
    page.get_by_label("Search by name").fill("apache")
    page.get_by_role("button", name="Add Apache HTTP Server").click()
    page.get_by_label("Port").fill("8081")
    expect(page.get_by_text("Step 1 of 3")).to_be_visible()
    page.context.clear_cookies()
    # Not click(): a request of the page itself may find the end of the session first,
    # and the dialog would lie over the button.
    page.get_by_role("button", name="Next").dispatch_event("click")
    sign_in_again(page, "admin", PASSWORD)
    expect(page.get_by_role("dialog", name="Sign in again")).to_have_count(0)
    expect(page.get_by_label("Port")).to_have_value("8081")
    for number in (2, 3):
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
    page.get_by_role("button", name="Add to the environment").click()
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add ")


@pytest.mark.thorough
def test_somebody_else_sees_nothing_of_the_page_whose_session_is_over(
    visit: Visit, service: Service
) -> None:
    """Another user begins at the environments; who leaves the page comes to the sign-in page."""
    member(service, "eve")
    person = visit()
    page = person.sign_in()
    for leaves in (False, True):
        person.open("/environments")
        page.get_by_role("button", name="New environment").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill("secret")
        page.context.clear_cookies()
        page.keyboard.press("Enter")
        if leaves:
            page.get_by_role("button", name="Leave the page").click()
            expect(page.get_by_text("Your session is over")).to_be_visible()
        else:
            sign_in_again(page, "eve", PASSWORD)
            expect(page.get_by_role("heading", level=1)).to_have_text("Environments")
            expect(page.get_by_role("dialog")).to_have_count(0)
            expect(page.get_by_role("button", name="Account of eve")).to_be_visible()


@pytest.mark.thorough
def test_a_language_is_chosen_and_kept(visit: Visit) -> None:
    """The browser's language is used at first; another choice stays after a reload."""
    page = visit(language="de-DE").sign_in()
    expect(page.get_by_role("heading", name="Umgebungen")).to_be_visible()
    page.get_by_role("button", name="Konto von admin").click()
    page.get_by_role("menuitem", name="English").click()
    page.reload()
    expect(page.get_by_role("heading", name="Environments")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "en"
