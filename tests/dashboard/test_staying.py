"""What somebody fills in stays while the page below is read anew: late, failed and changed answers."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from .conftest import Service, Visit
from .test_misfortune import environment

pytestmark = [pytest.mark.thorough, pytest.mark.programs]

FAULT = json.dumps({"error": {"title": "Broken", "message": "The disk is full", "code": 500}})


class Held:
    """Answers to requests that fit are kept back until they are let go."""

    def __init__(self, page: Page, fits: Callable[[Route], bool], at: re.Pattern[str]) -> None:
        self.fits = fits
        self.routes: list[Route] = []
        self.page = page
        self.at = at
        page.route(at, self._meet)

    def _meet(self, route: Route) -> None:
        if self.fits(route):
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self) -> None:
        """Wait until one is kept back."""
        for _ in range(600):
            if self.routes:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"nothing asked for {self.at.pattern}")

    def release(self) -> None:
        """Let them go, and those that come later."""
        self.fits = lambda _route: False
        while self.routes:
            self.routes.pop().continue_()


def fail(page: Page, at: re.Pattern[str]) -> list[str]:
    """Answer what is asked for at an address with a fault from now on; what was asked for."""
    failed: list[str] = []

    def meet(route: Route) -> None:
        if route.request.method != "GET":
            return route.continue_()
        failed.append(route.request.url)
        return route.fulfill(status=500, content_type="application/json", body=FAULT)

    page.route(at, meet)
    return failed


def read_anew(page: Page, failed: list[str]) -> None:
    """Change the tab and come back, as people do, so that what is shown is asked for again."""
    before = len(failed)
    for _ in range(600):
        page.evaluate("window.dispatchEvent(new Event('visibilitychange'))")
        page.wait_for_timeout(50)
        if len(failed) > before:
            break
    else:
        raise AssertionError("the page asked for nothing again")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def test_a_dialog_stays_while_the_session_it_has_opened_is_read(
    visit: Visit, service: Service
) -> None:
    """The environment is read for the new session, however late; the dialog keeps what is typed."""
    made = environment(service, "unhurried")
    person = visit()
    page = person.sign_in()
    late = Held(
        page,
        lambda route: "x-configuration-session" in route.request.headers,
        re.compile(rf"/v1/environments/{made}$"),
    )
    person.open(f"/environments/{made}")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Metadata").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_label("Name", exact=True).fill("owner")
    # Somebody renames it: the page learns of that, and of the session.
    service.api("PUT", f"/v1/environments/{made}", {"name": "renamed"})
    late.wait()
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("owner")
    late.release()
    expect(page.locator("h1")).to_have_text("renamed")
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("owner")


def test_a_dialog_of_a_tile_stays_when_the_tile_goes_to_another_row(
    visit: Visit, service: Service
) -> None:
    """Somebody makes an environment that comes before it; a new name is still being typed."""
    # Of a long list only what is seen is drawn, and other tests leave environments: these are searched for.
    for name in ("rowed m", *(f"one of many {number}" for number in range(7))):
        environment(service, name)  # the search appears with more than six
    page = visit(width=390).sign_in()
    page.get_by_label("Search environments").fill("rowed")
    page.get_by_role("button", name="Actions of rowed m").click()
    page.get_by_role("menuitem", name="Rename").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("half a na")
    for name in ("rowed a", "rowed z"):
        environment(service, name)
        expect(page.get_by_text(name, exact=True)).to_be_attached()
    expect(dialog.get_by_label("Name")).to_have_value("half a na")


def test_a_form_stays_when_what_is_read_again_cannot_be_read(
    visit: Visit, service: Service, hostile: str
) -> None:
    """A service that fails while somebody fills in a form takes nothing of it away."""
    made = environment(service, "half failing")
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{made}/add/{hostile}")
    title = page.get_by_role("main").get_by_role("textbox").first
    title.fill("typed with care")
    failed = fail(page, re.compile(r"/v1/environments/[0-9a-f]+$|/v1/catalog/packages/[0-9a-f]+"))
    for _ in range(2):
        read_anew(page, failed)
    expect(title).to_have_value("typed with care")
    page.unroute_all()
    page.get_by_role("button", name="Next").click()


@pytest.mark.parametrize(
    ("path", "opener", "api"),
    [
        ("/people", "New user", r"/identity/v3/users"),
        ("/people?tab=projects", "New project", r"/identity/v3/projects"),
        ("/templates", "New template", r"/v1/templates"),
        ("/packages", "Import", r"/v1/catalog/packages"),
    ],
)
def test_a_dialog_stays_when_its_list_cannot_be_read_again(
    visit: Visit, path: str, opener: str, api: str
) -> None:
    """The list keeps what it had; the dialog above it keeps what is typed."""
    person = visit()
    page = person.sign_in()
    person.open(path)
    page.get_by_role("button", name=opener).first.click()
    dialog = page.get_by_role("dialog")
    typed = dialog.get_by_role("textbox").first
    typed.fill("half")
    failed = fail(page, re.compile(api))
    read_anew(page, failed)
    expect(typed).to_have_value("half")


def test_a_list_that_cannot_go_on_says_why_and_goes_on_by_its_button(visit: Visit) -> None:
    """What is there stays; the next part is asked for once, not without an end."""
    person = visit()
    page = person.sign_in()
    asked: list[str] = []

    def short(route: Route) -> None:
        if "marker=" in route.request.url:
            asked.append(route.request.url)
            if len(asked) == 1:
                return route.fulfill(status=500, content_type="application/json", body=FAULT)
        return route.continue_(url=re.sub(r"limit=\d+", "limit=2", route.request.url))

    page.route(re.compile(r"/v1/catalog/packages\?"), short)
    person.open("/catalog")
    main = page.get_by_role("main")
    expect(main.get_by_role("alert")).to_have_text("The disk is full")
    assert len(asked) == 1
    tiles = main.get_by_role("listitem")
    before = tiles.count()
    main.get_by_role("button", name="Show more").click()
    expect(main.get_by_role("alert")).to_have_count(0)
    expect(tiles).not_to_have_count(before)
