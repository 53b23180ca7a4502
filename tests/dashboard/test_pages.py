"""Every page, in both themes, on a wide and on a narrow screen."""

import contextlib
import json
import re
import uuid
from urllib.parse import quote

import pytest
from playwright.sync_api import Error

from .conftest import HOSTILE, ROOT, Service, Visit

pytestmark = [pytest.mark.thorough, pytest.mark.programs]

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
[...document.querySelectorAll('table:has(thead) td .mantine-Badge-label')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)
"""
"""States in tables of which a part is seen."""
TABS = """
[...document.querySelectorAll('[role=tablist]')].flatMap((row) => {
  const tabs = [...row.querySelectorAll('[role=tab]')].map((one) => one.getBoundingClientRect());
  const chosen = row.querySelector('[aria-selected=true]').getBoundingClientRect();
  const around = row.getBoundingClientRect();
  const isSeen = chosen.left >= around.left - 1 && chosen.right <= around.right + 1;
  return [
    ...(new Set(tabs.map((one) => one.top)).size > 1 ? ['tabs on several lines'] : []),
    ...(isSeen ? [] : ['the chosen tab is out of sight']),
  ];
})
"""
"""What is wrong with rows of tabs."""


def routes() -> set[str]:
    """The paths of the router, as the areas declare them."""
    found: set[str] = set()
    for index in (ROOT / "dashboard/src/areas").glob("*/index.ts"):
        text = index.read_text(encoding="utf-8")
        found |= set(re.findall(r"\bpath: '([^']+)'", text))
        found |= {
            f"/environments/$environmentId/{one}".rstrip("/")
            for one in re.findall(r"\bchild\('([^']+)'\)", text)
        }
    return found


@pytest.fixture
def places(service: Service, hostile: str, instance: str) -> dict[str, list[str]]:
    """What to open for each path of the router: something that was deployed, is changed, and runs."""

    def component(title: str) -> dict[str, object]:
        header = {"id": uuid.uuid4().hex, "type": "org.example.Hostile/1.0.0", "name": HOSTILE[:80]}
        return {"?": header, "title": title}

    def open_session() -> str:
        return str(service.api("POST", f"{at}/configure")["id"])

    environment = str(service.api("POST", "/v1/environments", {"name": f"All {HOSTILE}"})["id"])
    at = f"/v1/environments/{environment}"
    session = open_session()
    first = component(f"see http://example.org/ {HOSTILE}")
    service.api("POST", f"{at}/services", first, X_Configuration_Session=session)
    service.api("POST", f"{at}/sessions/{session}/deploy")
    service.wait_for(environment)
    (deployment,) = service.api("GET", f"{at}/deployments")["deployments"]
    wizard = service.api("POST", "/v1/wizards", {"package": hostile, "quick": True})
    pages = f"/v1/wizards/{wizard['id']}"
    service.api("POST", f"{pages}/pages/main", {"values": {"title": HOSTILE}})
    service.api("POST", f"{pages}/pages/workflowManagement", {"values": {"application_name": "a"}})
    session = open_session()
    body = {"environment_id": environment, "session_id": session}
    made = service.api("POST", f"{pages}/finish", body)["component"]["?"]["id"]
    template = service.api("POST", "/v1/templates", {"name": f"Of {HOSTILE}"})["id"]
    service.api("POST", f"/v1/templates/{template}/services", component("x"))
    definition = service.api("GET", "/repository/v1/admin/services")["services"][0]
    machines = json.loads(service.run("vm", "list", "--json"))
    vm = next(one for one in machines if one["alias"] == instance)
    inside = f"/environments/{environment}"
    old = service.api("POST", "/environments", {"name": uuid.uuid4().hex})  # of version 0.3
    flat = f"/environments/{old['id']}"
    return {
        "/about": ["/about"],
        "/history": ["/history"],
        "/people": ["/people", "/people?tab=projects"],
        "/catalog": ["/catalog", "/catalog?search=nothing-fits"],
        "/catalog/$packageId": [f"/catalog/{hostile}"],
        "/catalog/$packageId/deploy": [f"/catalog/{hostile}/deploy?name={quote(HOSTILE)}"],
        "/machines": [
            f"/machines?tab={tab}"
            for tab in [
                "instances",
                "nodes",
                "images",
                "networks",
                "tickets",
                "quotas",
                "placement",
            ]
        ],
        "/machines/$serverId/$vmId": [f"/machines/{vm['server_uuid']}/{vm['uuid']}?kind=console"],
        "/definitions": ["/definitions"],
        "/definitions/$name": [f"/definitions/{quote(definition['full_service_name'])}"],
        "/environments": ["/environments", "/environments?create=true"],
        "/environments/$environmentId": [inside],
        "/environments/$environmentId/add/$packageId": [f"{inside}/add/{hostile}"],
        "/environments/$environmentId/add-service/$service": [
            f"{flat}/add-service/{quote(definition['full_service_name'])}"
        ],
        "/environments/$environmentId/edit/$componentId": [f"{inside}/edit/{made}"],
        "/environments/$environmentId/components/$componentId": [f"{inside}/components/{made}"],
        "/environments/$environmentId/history": [f"{inside}/history"],
        "/environments/$environmentId/deployments/$deploymentId": [
            f"{inside}/deployments/{deployment['id']}"
        ],
        "/environments/$environmentId/log": [f"{inside}/log"],
        "/environments/$environmentId/model": [f"{inside}/model"],
        "/environments/$environmentId/topology": [f"{inside}/topology"],
        "/packages": ["/packages", "/packages?categories=true", "/packages?upload=true"],
        "/templates": ["/templates"],
        "/templates/$templateId": [f"/templates/{template}"],
    }


@pytest.mark.parametrize("visit", [True], indirect=True)
def test_every_page_is_accessible_and_runs_no_script_of_tenants(
    visit: Visit, places: dict[str, list[str]], hostile: str
) -> None:
    """axe finds nothing on any page, in light on a wide screen and in dark on a phone; nothing is cut off.

    Every name, description, label, report, tag and README in sight would run a script where it could.
    """
    person = visit()
    page = person.page
    wrong: list[str] = []

    def look(path: str) -> None:
        for theme, width in (("light", 1280), ("dark", 390)):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="light" if theme == "light" else "dark")
            # The page follows the system a moment later.
            page.wait_for_selector(f"html[data-mantine-color-scheme={theme}]")
            wrong.extend(f"{path} ({theme}): {one}" for one in person.violations())
            if page.evaluate(OVERFLOW) > 0:
                wrong.append(f"{path}: wider than a phone")
            wrong.extend(f"{path} ({theme}): {one} is cut off" for one in page.evaluate(CUT))
            wrong.extend(f"{path} ({theme}): {one}" for one in page.evaluate(TABS))
        page.set_viewport_size({"width": 1280, "height": 900})
        page.emulate_media(color_scheme="light")
        if page.evaluate("window.hurt") is not None:
            wrong.append(f"{path}: a script of a tenant has run")
        if page.locator("main a[href^=javascript i], main img[src='x'], main script").count():
            wrong.append(f"{path}: has markup of a tenant")

    person.open("/sign-in")
    look("/sign-in")
    person.sign_in()
    assert {*places, "/sign-in"} == routes(), "a page is missing here, or is no more"
    for path in (one for group in places.values() for one in group):
        person.open(path)
        look(path)
    person.open("/nowhere")
    look("/nowhere")
    assert not wrong, "\n".join(wrong)
    for part in ("ui", "readme", "logo"):
        # Opened alone, which a link can make somebody do: it is a text, or a file to download.
        with contextlib.suppress(Error):
            page.goto(f"{person.service.url}/dashboard/api/v1/catalog/packages/{hostile}/{part}")
        assert page.evaluate("window.hurt") is None, part
