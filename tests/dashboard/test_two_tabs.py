"""The same environment in two places at once, and buttons that are pressed twice."""

import re

import pytest
from playwright.sync_api import expect
from tests.waiting import until

from .conftest import Service, Visit
from .test_composing import to_the_last_page
from .test_misfortune import environment
from .test_staying import Held

pytestmark = [pytest.mark.thorough, pytest.mark.programs]
HELLO = "org.vetro.samples.HelloScript"


def test_a_button_that_is_pressed_twice_does_it_once(visit: Visit, service: Service) -> None:
    """The second press, while the first is at work, sends nothing and says nothing."""
    made = environment(service, "twice", (HELLO, "t"))
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{made}")
    held = Held(page, lambda route: route.request.method == "DELETE", re.compile("/sessions/"))
    discard = page.get_by_role("button", name="Discard")
    discard.click()
    held.wait()
    discard.click()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert len(held.routes) == 1
    held.release()
    expect(discard).to_have_count(0)
    expect(page.get_by_text("That did not work")).to_have_count(0)
    service.api("DELETE", f"/v1/environments/{made}?abandon=true")


def test_the_page_of_an_environment_that_is_deleted_goes_to_the_list(
    visit: Visit, service: Service
) -> None:
    """Whoever deleted it; Back does not lead to the page of what is gone."""
    made = environment(service, "short lived")
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{made}")
    service.api("DELETE", f"/v1/environments/{made}?abandon=true")
    page.wait_for_url("**/dashboard/environments")
    expect(page.get_by_text("Environment short lived is deleted.")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_text("Environments")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Environments")
    # Who comes by a bookmark is told that there is nothing.
    page.goto(f"{service.url}/dashboard/environments/{made}")
    expect(page.get_by_text("There is nothing at this address")).to_be_visible()


def test_a_form_is_finished_after_the_environment_was_deployed_elsewhere(
    visit: Visit, service: Service, image: str
) -> None:
    """Its session has ended with that: the component goes into another one."""
    made = environment(service, "meanwhile", (HELLO, "t"))
    found = service.api("GET", "/v1/catalog/packages?fqn=org.vetro.samples.ApacheHttpServer")
    person = visit()
    page = person.sign_in()
    person.open(f"/environments/{made}/add/{found['packages'][0]['id']}")
    page.get_by_label("Port").fill("8082")
    at = f"/v1/environments/{made}"
    session = service.api("GET", f"{at}/sessions")["sessions"][0]["id"]
    service.api("POST", f"{at}/sessions/{session}/deploy")
    ended = ("ready", "deploy failure")
    until(lambda: service.api("GET", at)["status"] in ended, "the deployment has ended")
    to_the_last_page(page)
    page.get_by_role("button", name="Add to the environment").click()
    page.wait_for_url(f"**/environments/{made}")
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add Apache")
    service.api("DELETE", f"{at}?abandon=true")
