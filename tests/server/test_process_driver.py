"""Vetro on a machine without root or LXC: instances are plain processes on loopback."""

import contextlib
import json
import secrets
import socket
import subprocess
import tarfile
import urllib.request
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.server.conftest import Installation
from tests.waiting import until

from vetro.cli.client.connection import read_openrc

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.e2e]


def test_a_page_is_served_by_a_plain_process(project: Installation, tmp_path: Path) -> None:
    """It is deployed, fetched, changed and destroyed at the loopback address; no process stays."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    project.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    project.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
    project.run("env", "create", "web")
    port = free_port()
    arguments = ("--name", "site", "--set", "image=empty", "--set", f"port={port}")
    project.run("env", "add", "web", "ApacheHttpServer", *arguments, "--set", "page=Plain")
    project.run("env", "deploy", "web")
    services = project.json("env", "model", "web", "--path", "/services")
    assert services[0]["url"] == f"http://127.0.0.1:{port}/"
    assert project.page("web") == "Plain\n"
    project.run("env", "edit", "web", "site", "--set", "page=Changed")
    project.run("env", "deploy", "web")
    assert project.page("web") == "Changed\n"
    assert "200" in project.run("action", "call", "web", "status")
    assert project.open_to_others() == []
    project.run("env", "destroy", "--yes", "web")
    until(lambda: not listening(port), "the page is gone")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    own = [line for line in processes.splitlines() if f"{project.directory}/node/vms" in line]
    assert own == []


@pytest.mark.thorough
def test_a_page_without_port_80_is_at_a_free_one(project: Installation, tmp_path: Path) -> None:
    """The sample's form works where port 80 is in use or reserved for root."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # taken already, or not ours: just as well
            held.enter_context(socket.create_server(("127.0.0.1", 80)))
        with tarfile.open(tmp_path / "empty.tar", "w"):
            pass
        project.run("image", "import", "debian-12-apache", str(tmp_path / "empty.tar"))
        project.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
        project.run("env", "create", "web")
        project.run("env", "add", "web", "ApacheHttpServer", "--name", "site", "--set", "page=Free")
        assert "Port 80 cannot be had here" in project.run("env", "deploy", "web")
        (url,) = [one["url"] for one in project.json("env", "model", "web", "--path", "/services")]
        port = int(url.rstrip("/").rpartition(":")[2])
        assert port != 80
        assert project.page("web") == "Free\n"
        project.run("env", "edit", "web", "site", "--set", "page=Changed")
        project.run("env", "deploy", "web")
        assert project.json("env", "model", "web", "--path", "/services")[0]["url"] == url
        assert project.page("web") == "Changed\n"
        assert "200" in project.run("action", "call", "web", "status")
        exported = tmp_path / "web.json"
        assert "with 1 application is in" in project.run(
            "env", "export", "web", "-o", str(exported)
        )
        assert exported.stat().st_mode & 0o777 == 0o600
        project.run("env", "destroy", "--yes", "web")
    until(lambda: not listening(port), "the page is gone")
    # What it was made of makes it again, and nothing of what it had found out.
    [site] = json.loads(exported.read_text())["services"]
    assert (site["page"], "url" in site) == ("Changed", False)
    project.run("env", "import", str(exported), "--name", "again")
    [row] = project.json("env", "show", "again")["services"]
    assert row["?"]["id"] != site["?"]["id"]
    assert project.status("again") == "pending"
    project.run("env", "deploy", "again")
    assert project.page("again") == "Changed\n"
    project.run("env", "destroy", "--yes", "again")


def listening(port: int) -> bool:
    """Whether somebody answers at a port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.thorough
def test_a_deployment_is_cancelled_in_the_middle_of_its_plan(
    project: Installation, tmp_path: Path
) -> None:
    """The script in the guest ends, the reason is reported, and the environment deploys again."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    project.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    project.run("package", "import", str(ROOT / "library/HelloScript"))
    project.run("env", "create", "slow")
    assert "No deployment of slow" in project.run("deployment", "cancel", "slow", code=1)
    number = secrets.randbelow(10**9)
    command = f"sleep 7654.{number}"  # which no other run has
    script = f"touch $VETRO_GUEST_ROOT/began-{number}; exec {command}"
    arguments = ("--set", "image=empty", "--set", f"script={script}")
    project.run("env", "add", "slow", "HelloScript", "--name", "hello", *arguments)
    project.run("env", "deploy", "slow", "--no-wait")
    marks = f"node/vms/*/root/began-{number}"
    until(lambda: list(project.directory.glob(marks)), "the script runs")
    newest = project.json("deployment", "list", "slow")[0]["id"]
    until(
        lambda: "It waits on the agent of" in project.run("deployment", "show", "slow", newest),
        "what it waits on is told",
    )
    shown = project.run("deployment", "cancel", "slow", "--reason", "too slow")
    assert "Cancelled by admin: too slow" in shown
    assert "what it had built stays" in shown
    assert project.status("slow") == "deploy failure"
    until(lambda: not running(command), "the script has ended")
    project.run("env", "edit", "slow", "hello", "--set", "script=echo second try")
    project.run("env", "deploy", "slow")
    assert "second try" in project.reports("slow")
    project.run("env", "destroy", "--yes", "slow")
    assert project.leftovers() == []


def running(command: str) -> bool:
    """Whether a process with this command line exists."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True)
    return command in done.stdout.splitlines()


@pytest.mark.thorough
def test_a_package_that_needs_isolation_changes_nothing_here(
    project: Installation, tmp_path: Path
) -> None:
    """Its plans are refused before they run, and the report says what to do."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    project.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    project.run("package", "import", str(ROOT / "library/TwoTier"))
    project.run("env", "create", "web")
    images = ("--set", "machines.image=empty", "--set", "machines.balancerImage=empty")
    project.run("env", "add", "web", "TwoTier", "--set", "servers=1", *images)
    text = project.run("env", "deploy", "web", code=1)
    assert "this instance has no isolation" in text
    assert "Isolation: optional" in text
    project.run("env", "destroy", "--yes", "web")


@pytest.mark.root
@pytest.mark.thorough
def test_a_script_reads_nothing_of_a_service_of_root(project: Installation, tmp_path: Path) -> None:
    """It is not root, and neither the administrator's password nor any key or record is there."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    project.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    project.run("package", "import", str(ROOT / "library/HelloScript"))
    project.run("env", "create", "thief")
    data = project.directory
    password = read_openrc(data / "admin-openrc")["OS_PASSWORD"]
    script = f"id -u; cat {data}/* {data}/node/* /etc/shadow; ls -R {data}; echo looked"
    arguments = ("--set", "image=empty", "--set", f"script={script}")
    project.run("env", "add", "thief", "HelloScript", "--name", "hello", *arguments)
    project.run("env", "deploy", "thief")
    [hello] = project.json("env", "model", "thief", "--path", "/services")
    user, *seen = hello["output"].splitlines()
    assert int(user) >= 1_000_000
    assert seen[-1] == "looked"
    assert password not in hello["output"]
    for name in ("vetro.db", "keys", "node-key", "id-ranges.json", "vm.json"):
        assert list(data.rglob(name))
        assert name not in hello["output"]
    answer = project.http("GET", "/readyz")[1]
    assert "plans run as a user of their project" in answer["isolation"]
    assert "a user of their project" in project.log()
    project.run("env", "destroy", "--yes", "thief")
