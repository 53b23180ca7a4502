"""The whole of Vetro as a user has it: ``vetro up``, the command, real containers, real failures."""

import os
import re
import signal
import urllib.request

import pytest
from playwright.sync_api import expect
from tests.browser import somebody
from tests.server.conftest import IMAGE, Installation
from tests.server.copied_credential import is_refused_elsewhere
from tests.waiting import until

pytestmark = [pytest.mark.root, pytest.mark.e2e]


def test_a_page_is_deployed_changed_and_removed(vetro: Installation) -> None:
    """A real page from a container is deployed, redeployed, asked by an action and destroyed."""
    vetro.run("env", "create", "web")
    vetro.run("env", "add", "web", "ApacheHttpServer", "--name", "site", "--set", "page=First")
    text = vetro.run("env", "deploy", "web")
    assert f"The page is at http://172.29.{vetro.net}." in text
    assert vetro.page("web") == "First\n"
    before = vetro.json("vm", "list")
    vetro.run("env", "edit", "web", "site", "--set", "page=Second")
    vetro.run("env", "deploy", "web")
    assert vetro.page("web") == "Second\n"
    assert [row["uuid"] for row in vetro.json("vm", "list")] == [row["uuid"] for row in before]
    text = vetro.run("action", "call", "web", "status")
    assert "200 Apache" in text
    assert vetro.open_to_others() == []
    vetro.run("env", "destroy", "--yes", "web")
    assert vetro.json("env", "list") == []
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def test_a_page_is_deployed_and_removed_by_the_api(vetro: Installation) -> None:
    """Apache is composed, deployed, asked for its page and removed by HTTP alone."""
    status, made = vetro.http("POST", "/v1/environments", {"name": "by-api"})
    assert status == 200
    path = f"/v1/environments/{made['id']}"
    _, session = vetro.http("POST", f"{path}/configure")
    header = {"X-Configuration-Session": session["id"]}
    machine = {
        "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "by-api-machine"},
        "name": "by-api", "flavor": "m1.tiny", "image": IMAGE, "assignFloatingIp": True,
    }  # fmt: skip
    application = {
        "?": {"type": "org.vetro.samples.ApacheHttpServer/1.0.0", "id": "by-api-site"},
        "name": "site", "page": "By HTTP", "instance": machine,
    }  # fmt: skip
    status, _ = vetro.http("POST", f"{path}/services", application, **header)
    assert status == 200
    status, _ = vetro.http("POST", f"{path}/sessions/{session['id']}/deploy")
    assert status == 200
    until(lambda: vetro.http("GET", path)[1]["status"] != "deploying", "the deployment has ended")
    assert vetro.status("by-api") == "ready", vetro.reports("by-api")
    assert vetro.page("by-api") == "By HTTP\n"
    assert vetro.http("DELETE", path)[0] == 200
    until(lambda: vetro.http("GET", path)[0] == 404, "the environment is deleted")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def test_a_page_is_deployed_in_a_browser(vetro: Installation) -> None:
    """Apache is composed and deployed by the pages of the dashboard, which say where its page is."""
    with somebody(vetro) as person:
        page = person.page
        page.get_by_role("button", name="New environment").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill("by-hand")
        page.get_by_role("button", name="Create").click()
        page.get_by_role("button", name="Add application").last.click()
        page.get_by_label("Search by name").fill("apache")
        page.get_by_role("button", name="Add Apache HTTP Server").click()
        page.get_by_label("Page").fill("By hand")
        for number in (2, 3):
            page.get_by_role("button", name="Next").click()
            expect(page.get_by_text(f"Step {number} of 3")).to_be_visible()
        page.get_by_role("button", name="Add to the environment").click()
        page.get_by_role("button", name="Deploy", exact=True).click()
        said = page.get_by_text("The page is at")
        expect(said).to_be_visible(timeout=240_000)
        address = re.search(r"http://172\.29\.[\d.:]+/", said.inner_text())
        assert address is not None, said.inner_text()
        with urllib.request.urlopen(address[0], timeout=240) as answer:
            assert answer.read() == b"By hand\n"
    assert vetro.status("by-hand") == "ready"
    vetro.run("env", "destroy", "--yes", "by-hand")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def test_a_copied_credential_is_refused(vetro: Installation) -> None:
    """A machine that has another one's credential gets none of its plans, at the service's own door."""
    vetro.run("env", "create", "copied")
    vetro.run("env", "add", "copied", "HelloScript", "--name", "s", "--set", "script=true")
    vetro.run("env", "deploy", "copied")
    is_refused_elsewhere(vetro, "copied")
    vetro.run("env", "destroy", "--yes", "copied")


def test_a_script_that_fails_says_code_and_stderr(vetro: Installation) -> None:
    """Exit code 7 of a script is in the report; after a correction it deploys."""
    vetro.run("env", "create", "script")
    script = "#!/bin/sh\necho broken >&2\nexit 7\n"
    vetro.run("env", "add", "script", "HelloScript", "--name", "s", "--set", f"script={script}")
    text = vetro.run("env", "deploy", "script", code=1)
    assert "exit code 7" in text
    assert "broken" in text
    assert vetro.status("script") == "deploy failure"
    good = "#!/bin/sh\necho mended\n"
    vetro.run("env", "edit", "script", "s", "--set", f"script={good}")
    assert "The script printed: mended" in vetro.run("env", "deploy", "script")
    vetro.run("env", "destroy", "--yes", "script")


def test_an_image_that_does_not_exist_is_named(vetro: Installation) -> None:
    """The image is looked up before the change is accepted; the environment can be removed."""
    vetro.run("env", "create", "noimage")
    arguments = ("--set", "image=none-such")
    text = vetro.run("env", "add", "noimage", "HelloScript", "--name", "s", *arguments, code=None)
    assert "none-such" in text
    vetro.run("env", "destroy", "--yes", "noimage")


def test_a_model_that_breaks_a_contract_is_explained(vetro: Installation) -> None:
    """The change is refused before it is stored, with the property and the value."""
    vetro.run("env", "create", "contract")
    vetro.run("env", "add", "contract", "ApacheHttpServer", "--name", "a")
    text = vetro.run("env", "edit", "contract", "a", "--set", "port=99999", code=None)
    assert "port" in text
    assert "65536" in text
    vetro.run("env", "destroy", "--yes", "contract")


def test_two_tiers_answer_through_the_balancer(vetro: Installation) -> None:
    """Web servers answer behind a balancer, which alone has an external address."""
    vetro.run("env", "create", "tiers")
    arguments = ("--name", "shop", "--set", "servers=2", "--set", "page=Shop")
    vetro.run("env", "add", "tiers", "TwoTier", *arguments)
    vetro.run("env", "deploy", "tiers")
    pages = {vetro.page("tiers") for _ in range(4)}
    assert pages == {"Shop (web-1)\n", "Shop (web-2)\n"}
    machines = vetro.json("vm", "list")
    assert [vm["state"] for vm in machines] == ["running"] * 3
    lost = [line for line in vetro.log().splitlines() if "does not have a VM any more" in line]
    assert not [line for line in lost for vm in machines if vm["uuid"] in line]
    asked = ("vm", "exec", machines[0]["uuid"], "--", "sh", "-c", "echo $((6 * 7)); exit 3")
    assert vetro.run(*asked, code=3) == "42\n"
    vetro.run("env", "destroy", "--yes", "tiers")


def test_a_killed_worker_ends_as_a_failed_deployment(vetro: Installation) -> None:
    """After SIGKILL of the worker the deployment has a reason and can be repeated."""
    vetro.run("env", "create", "killed")
    script = "#!/bin/sh\nsleep 300\n"
    vetro.run("env", "add", "killed", "HelloScript", "--name", "k", "--set", f"script={script}")
    vetro.run("env", "deploy", "killed", "--no-wait")
    until(lambda: "Running the script" in vetro.reports("killed"), "the script runs")
    for pid in vetro.workers():
        os.kill(pid, signal.SIGKILL)
    until(lambda: vetro.status("killed") == "deploy failure", "the deployment failed")
    assert "was killed while deploying" in vetro.reports("killed")
    vetro.run("env", "destroy", "--yes", "killed")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def test_a_killed_service_recovers(vetro: Installation) -> None:
    """After SIGKILL of ``vetro up`` during a deployment, a restart leaves nothing stuck."""
    assert vetro.process is not None
    vetro.run("env", "create", "crash")
    script = "#!/bin/sh\nsleep 300\n"
    vetro.run("env", "add", "crash", "HelloScript", "--name", "c", "--set", f"script={script}")
    vetro.run("env", "deploy", "crash", "--no-wait")
    until(lambda: "Running the script" in vetro.reports("crash"), "the script runs")
    vetro.process.kill()
    vetro.process.wait(30)
    vetro.start()
    until(lambda: vetro.status("crash") == "deploy failure", "the deployment failed")
    assert "was killed during this deployment" in vetro.reports("crash")
    vetro.run("env", "destroy", "--yes", "crash")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def test_a_second_process_is_told_who_holds_the_directory(vetro: Installation) -> None:
    """The error names the port or data directory in use, with a hint."""
    text = vetro.run("up", "--port", str(vetro.port), code=1)
    assert "in use by process" in text
    assert "Hint:" in text
