"""Signing in and out, in a browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from .conftest import PASSWORD, Person

Visit = Callable[..., Person]
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


def test_a_session_that_is_over_asks_to_sign_in_again(visit: Visit) -> None:
    """When the session ended elsewhere the next step leads to the sign-in page, and back afterwards."""
    person = visit()
    page = person.sign_in()
    person.open("/environments")
    page.get_by_role("button", name="New environment").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("too late")
    page.context.clear_cookies()
    # A list that is refreshed just now may ask before, and take the dialog away.
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your session is over")).to_be_visible()
    page.get_by_label("User").fill("admin")
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Environments")


def test_a_language_is_chosen_and_kept(visit: Visit) -> None:
    """The browser's language is used at first; another choice stays after a reload."""
    page = visit(language="de-DE").sign_in()
    expect(page.get_by_role("heading", name="Umgebungen")).to_be_visible()
    page.get_by_role("button", name="Konto von admin").click()
    page.get_by_role("menuitem", name="English").click()
    page.reload()
    expect(page.get_by_role("heading", name="Environments")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "en"
