"""Lists that are long, and a log whose connection breaks."""

import json
import uuid

import pytest
from playwright.sync_api import Request, Route, expect

from .conftest import Service, Visit
from .test_misfortune import environment

pytestmark = [pytest.mark.thorough, pytest.mark.programs]

REPORTS = 10_000
STREAM = {"content-type": "text/event-stream"}


@pytest.fixture
def deployed(service: Service, hostile: str) -> tuple[str, str]:
    """An environment, and its deployment that has ended."""
    made = environment(service, uuid.uuid4().hex, ("org.example.Hostile/1.0.0", "first"))
    at = f"/v1/environments/{made}"
    (session,) = service.api("GET", f"{at}/sessions")["sessions"]
    service.api("POST", f"{at}/sessions/{session['id']}/deploy")
    service.wait_for(made)
    (deployment,) = service.api("GET", f"{at}/deployments")["deployments"]
    return made, str(deployment["id"])


def event(name: str, data: object, id_: str = "") -> str:
    """A server-sent event."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


def test_a_thousand_environments_are_scrolled_and_searched(visit: Visit) -> None:
    """Only those in sight are in the page; the last one is found by scrolling, and by its name."""
    person = visit()
    page = person.sign_in()
    one = person.service.api("POST", "/v1/environments", {"name": "of many"})
    listed = person.service.api("GET", "/v1/environments")["environments"]
    pattern = next(each for each in listed if each["id"] == one["id"])
    many = [{**pattern, "id": f"{n:032x}", "name": f"number {n}"} for n in range(1000)]
    page.route("**/api/v1/environments", lambda route: route.fulfill(json={"environments": many}))
    person.open("/environments")
    tiles = page.get_by_role("listitem")
    expect(tiles.first).to_have_attribute("aria-setsize", "1000")
    assert tiles.count() < 100
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="number 999", exact=True)).to_be_in_viewport()
    assert tiles.count() < 100
    page.get_by_role("searchbox").fill("number 500")
    expect(tiles).to_have_count(1)


def test_ten_thousand_reports_come_over_a_connection_that_breaks(
    visit: Visit, deployed: tuple[str, str]
) -> None:
    """The log says that the connection is lost, goes on after the last report, and draws what is in sight."""
    person = visit()
    page = person.sign_in()
    asked: list[Request] = []

    def answer(route: Route) -> None:
        asked.append(route.request)
        first = len(asked) == 1
        numbers = range(6000) if first else range(5990, REPORTS)  # some twice
        body = "retry: 100\n\n" + "".join(
            event(
                "report",
                {"id": f"r{n}", "text": f"line {n}", "level": "info", "created": "2026-01-01T00:00:00Z"},
                f"r{n}",
            )
            for n in numbers
        )  # fmt: skip
        route.fulfill(
            headers=STREAM, body=body if first else body + event("end", {"state": "success"})
        )

    page.route("**/deployments/*/events", answer)
    made, deployment = deployed
    person.open(f"/environments/{made}/deployments/{deployment}")
    log = page.get_by_role("log")
    expect(log).to_contain_text(f"line {REPORTS - 1}")
    assert len(asked) == 2
    expect(page.get_by_text("connection is lost")).to_have_count(0)
    lines = log.locator("[data-index]")
    assert lines.count() < 150
    assert lines.last.get_attribute("data-index") == str(REPORTS - 1)  # none twice, none missed
    log.evaluate("one => one.scrollTo(0, 0)")
    expect(log).not_to_contain_text(f"line {REPORTS - 1}")


def test_a_live_log_goes_on_at_the_service_after_a_break(
    visit: Visit, deployed: tuple[str, str]
) -> None:
    """A stream whose connection was lost after its first report is requested again; each report is shown
    once."""
    person = visit()
    page = person.sign_in()
    asked: list[Request] = []

    def answer(route: Route) -> None:
        asked.append(route.request)
        if len(asked) > 1:
            route.continue_()
            return
        whole = route.fetch().text()
        at = whole.index("event: report")
        route.fulfill(headers=STREAM, body="retry: 100\n\n" + whole[: whole.index("\n\n", at) + 2])

    page.route("**/deployments/*/events", answer)
    made, deployment = deployed
    person.open(f"/environments/{made}/deployments/{deployment}")
    reports = person.service.api("GET", f"/v1/environments/{made}/deployments/{deployment}")
    texts = [one["text"] for one in reports["reports"]]
    assert len(texts) > 1
    lines = page.get_by_role("log").locator("[data-index]")
    expect(lines).to_have_count(len(texts))
    assert len(asked) == 2
    for line, text in zip(lines.all(), texts, strict=True):
        expect(line).to_contain_text(text)
