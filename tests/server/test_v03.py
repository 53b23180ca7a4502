"""The v0.3 world as a user has it: shipped definitions, the dialect without /v1, real containers."""

import socket
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser import somebody
from tests.waiting import until

from .conftest import IMAGE, ROOT, Installation

pytestmark = [pytest.mark.root, pytest.mark.e2e]
PAGE = "<h1>It works</h1>"


def deployed(vetro: Installation, services: list[dict[str, Any]]) -> tuple[str, list[Any]]:
    """Deploy services in a new environment as a v0.3 client does: its id, the services after."""
    status, environment = vetro.http("POST", "/environments", {"name": "old"})
    assert status == 201 or status == 200, environment
    path = f"/environments/{environment['id']}"
    return path, deployed_with(vetro, path, services)


def deployed_with(vetro: Installation, path: str, services: list[dict[str, Any]]) -> list[Any]:
    """Deploy an environment with further services, perhaps none: all of its services after."""
    _, session = vetro.http("POST", f"{path}/configure")
    header = {"X-Configuration-Session": session["id"]}
    for service in services:
        status, answer = vetro.http("POST", f"{path}/services", service, **header)
        assert status == 200, answer
    status, answer = vetro.http("POST", f"{path}/sessions/{session['id']}/deploy")
    assert status == 200, answer
    until(lambda: vetro.http("GET", path)[1]["status"] == "ready", "the deployment has ended")
    return vetro.http("GET", f"{path}/services")[1]


def page_of(unit: dict[str, Any]) -> str:
    """What a unit with Apache answers."""
    with urllib.request.urlopen(f"http://{unit['floatingip']}/", timeout=60) as answer:
        return answer.read().decode()


def test_services_of_the_first_generation_run_in_containers(vetro: Installation) -> None:
    """Shipped definitions are imported and the Apache page is changed; Apache and Telnet are deployed,
    answer over the network, also when their machine was destroyed by hand and the environment deployed
    again, and are gone when the environment is deleted.
    """
    vetro.run("repository", "import", str(ROOT / "library/v03"))
    script = (ROOT / "library/v03/scripts/Linux/runApacheDeploy.sh").read_text()
    assert PAGE in script
    path = "/repository/v1/admin/scripts/Linux?filename=runApacheDeploy.sh&overwrite=true"
    request = urllib.request.Request(
        vetro.url + path,
        script.replace(PAGE, "<h1>Ours now</h1>").encode(),
        {"X-Auth-Token": vetro.run("token").strip(), "Content-Type": "application/octet-stream"},
    )
    assert urllib.request.urlopen(request, timeout=60).status == 200
    shared: dict[str, Any] = {"osImage": IMAGE, "assignFloatingIP": True, "units": [{}]}
    path, services = deployed(
        vetro,
        [
            {"type": "linuxApacheService", "name": "web", "unitNamingPattern": "web#", **shared},
            {"type": "linuxTelnetService", "name": "tel", "unitNamingPattern": "tel#", **shared},
        ],
    )
    web, telnet = (one["units"][0] for one in services)
    page = page_of(web)
    assert "Ours now" in page
    assert "Apache on web1" in page
    with socket.create_connection((telnet["floatingip"], 23), 60) as connection:
        assert connection.recv(3)[:1] == b"\xff"  # telnetd begins with its options
    trace = vetro.run("deployment", "trace", "old")
    assert "Apache.xml" in trace
    assert "round 4" in trace
    with somebody(vetro) as person:
        deployment = vetro.json("deployment", "list", "old")[0]["id"]
        page = person.open(f"{path}/deployments/{deployment}")
        rules = page.get_by_role("region", name="What the rules did")
        rules.get_by_role("button", name="Round 4").click()
        rules.get_by_label("Find a rule").fill("Apache.xml")
        expect(rules.get_by_role("listitem").first).to_contain_text("Apache.xml:")
    machines = {one["alias"].rpartition("-")[2]: one for one in vetro.json("vm", "list")}
    assert {machines[name]["environment"] for name in ("web1", "tel1")} == {"old"}
    vetro.run("vm", "destroy", machines["web1"]["uuid"], "--yes")
    ((again,), _) = (one["units"] for one in deployed_with(vetro, path, []))
    assert again["floatingip"] == web["floatingip"]
    assert "Apache on web1" in page_of(again)
    deployment = vetro.http("GET", f"{path}/deployments")[1]["deployments"][0]["id"]
    reports = vetro.http("GET", f"{path}/deployments/{deployment}")[1]["reports"]
    said = [one["text"] for one in reports if one["level"] == "warning"]
    assert "was made again" in said[0]
    assert said[1:] == [
        "The machine of unit web1 is a new one: everything is installed on it again"
    ]
    assert vetro.http("DELETE", path)[0] == 200
    until(lambda: vetro.http("GET", path)[0] == 404, "the environment is deleted")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")
