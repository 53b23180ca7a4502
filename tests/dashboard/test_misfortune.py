"""What goes wrong while one works: the connection, somebody else, a deployment."""

import uuid

import pytest
from playwright.sync_api import expect

from .conftest import PASSWORD, Service, Visit

pytestmark = pytest.mark.programs


def environment(service: Service, name: str, *components: tuple[str, str]) -> str:
    """A new environment with a session that adds components (class and title); its id."""
    made = str(service.api("POST", "/v1/environments", {"name": name})["id"])
    if components:
        session = str(service.api("POST", f"/v1/environments/{made}/configure")["id"])
        for type_, title in components:
            body = {"?": {"id": uuid.uuid4().hex, "type": type_}, "title": title}
            path = f"/v1/environments/{made}/services"
            service.api("POST", path, body, X_Configuration_Session=session)
    return made


def member(service: Service, name: str) -> None:
    """A user of their own in the administrator's project."""
    at = "/identity/v3"
    user = service.api("POST", f"{at}/users", {"user": {"name": name, "password": PASSWORD}})
    (project,) = service.api("GET", f"{at}/projects?name=admin")["projects"]
    role = next(
        one for one in service.api("GET", f"{at}/roles")["roles"] if one["name"] == "member"
    )
    service.api(
        "PUT", f"{at}/projects/{project['id']}/users/{user['user']['id']}/roles/{role['id']}"
    )


@pytest.mark.thorough
def test_a_lost_connection_is_said_and_made_again(visit: Visit) -> None:
    """While the service does not answer the dialog says so; afterwards the same button works."""
    page = visit().sign_in()
    page.get_by_role("button", name="New environment").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill("through a tunnel")
    page.context.set_offline(True)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("Vetro does not answer").first).to_be_visible()
    page.context.set_offline(False)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("through a tunnel")


@pytest.mark.thorough
def test_two_people_edit_one_environment(visit: Visit, hostile: str) -> None:
    """Each is told of the other's changes as they come; what a deployment came before is taken over."""
    person = visit()
    page = person.sign_in()
    service = person.service
    shared = environment(service, "shared", ("org.example.Hostile/1.0.0", "mine"))
    with page.expect_request("**/api/v1/events"):
        person.open(f"/environments/{shared}")
    member(service, "bea")
    other = visit()
    other.open("/sign-in")
    other.page.get_by_label("User").fill("bea")
    other.page.get_by_role("textbox", name="Password").fill(PASSWORD)
    other.page.get_by_role("button", name="Sign in").click()
    expect(other.page.get_by_role("banner")).to_contain_text("admin")
    other.open(f"/environments/{shared}")
    expect(other.page.get_by_text("Somebody else prepares changes")).to_be_visible()
    other.open(f"/environments/{shared}/add/{hostile}")
    other.page.get_by_role("button", name="Next").click()
    other.page.get_by_role("button", name="Add to the environment").click()
    other.page.get_by_role("button", name="Deploy", exact=True).click()
    expect(other.page.get_by_role("button", name="Deploy changes")).to_be_visible()
    page.get_by_role("button", name="Go on with my changes").click()
    expect(page.get_by_role("region", name="Deploy will do this")).to_contain_text("add ")


def test_a_failed_deployment_says_why_and_what_next(visit: Visit) -> None:
    """The reason is on the environment's page, with a link to the log; Deploy can be pressed again."""
    person = visit()
    page = person.sign_in()
    broken = environment(person.service, "broken", ("org.example.Missing", "part"))
    person.open(f"/environments/{broken}")
    page.get_by_role("button", name="Deploy", exact=True).click()
    alert = page.get_by_role("alert").filter(has_text="The last deployment failed")
    expect(alert).to_contain_text("org.example.Missing")
    alert.get_by_role("link").click()
    expect(page.get_by_role("log")).to_be_visible()
    expect(page.get_by_role("button", name="Deploy changes")).to_be_enabled()
