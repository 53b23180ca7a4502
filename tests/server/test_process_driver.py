"""Vetro on a machine without root or LXC: instances are plain processes on loopback."""

import contextlib
import json
import secrets
import socket
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.server.conftest import Installation
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def test_a_page_is_served_by_a_plain_process(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """It is deployed, fetched, changed and destroyed at the loopback address; no process stays."""
    vetro = install("plain", driver="process")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    vetro.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
    vetro.run("env", "create", "web")
    port = free_port()
    arguments = ("--name", "site", "--set", "image=empty", "--set", f"port={port}")
    vetro.run("env", "add", "web", "ApacheHttpServer", *arguments, "--set", "page=Plain")
    vetro.run("env", "deploy", "web")
    services = vetro.json("env", "model", "web", "--path", "/services")
    assert services[0]["url"] == f"http://127.0.0.1:{port}/"
    assert vetro.page("web") == "Plain\n"
    vetro.run("env", "edit", "web", "site", "--set", "page=Changed")
    vetro.run("env", "deploy", "web")
    assert vetro.page("web") == "Changed\n"
    assert "200" in vetro.run("action", "call", "web", "status")
    assert vetro.open_to_others() == []
    vetro.run("env", "destroy", "--yes", "web")
    until(lambda: not listening(port), "the page is gone")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    own = [line for line in processes.splitlines() if f"{vetro.directory}/node/vms" in line]
    assert own == []


@pytest.mark.thorough
def test_a_page_without_port_80_is_at_a_free_one(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The sample's form works where port 80 is in use or reserved for root."""
    vetro = install("free", driver="process")
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # taken already, or not ours: just as well
            held.enter_context(socket.create_server(("127.0.0.1", 80)))
        with tarfile.open(tmp_path / "empty.tar", "w"):
            pass
        vetro.run("image", "import", "debian-12-apache", str(tmp_path / "empty.tar"))
        vetro.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
        vetro.run("env", "create", "web")
        vetro.run("env", "add", "web", "ApacheHttpServer", "--name", "site", "--set", "page=Free")
        assert "Port 80 cannot be had here" in vetro.run("env", "deploy", "web")
        (url,) = [one["url"] for one in vetro.json("env", "model", "web", "--path", "/services")]
        port = int(url.rstrip("/").rpartition(":")[2])
        assert port != 80
        assert vetro.page("web") == "Free\n"
        vetro.run("env", "edit", "web", "site", "--set", "page=Changed")
        vetro.run("env", "deploy", "web")
        assert vetro.json("env", "model", "web", "--path", "/services")[0]["url"] == url
        assert vetro.page("web") == "Changed\n"
        assert "200" in vetro.run("action", "call", "web", "status")
        exported = tmp_path / "web.json"
        assert "with 1 application is in" in vetro.run("env", "export", "web", "-o", str(exported))
        assert exported.stat().st_mode & 0o777 == 0o600
        vetro.run("env", "destroy", "--yes", "web")
    until(lambda: not listening(port), "the page is gone")
    # What it was made of makes it again, and nothing of what it had found out.
    [site] = json.loads(exported.read_text())["services"]
    assert (site["page"], "url" in site) == ("Changed", False)
    vetro.run("env", "import", str(exported), "--name", "again")
    [row] = vetro.json("env", "show", "again")["services"]
    assert row["?"]["id"] != site["?"]["id"]
    assert vetro.status("again") == "pending"
    vetro.run("env", "deploy", "again")
    assert vetro.page("again") == "Changed\n"
    vetro.run("env", "destroy", "--yes", "again")


def listening(port: int) -> bool:
    """Whether somebody answers at a port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except OSError:
        return False


@pytest.mark.thorough
def test_a_deployment_is_cancelled_in_the_middle_of_its_plan(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The script in the guest ends, the reason is reported, and the environment deploys again."""
    vetro = install("cancelled", driver="process")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    vetro.run("env", "create", "slow")
    assert "No deployment of slow" in vetro.run("deployment", "cancel", "slow", code=1)
    mark = tmp_path / "began"
    command = f"sleep 7654.{secrets.randbelow(10**9)}"  # which no other run has
    script = f"touch {mark}; exec {command}"
    arguments = ("--set", "image=empty", "--set", f"script={script}")
    vetro.run("env", "add", "slow", "HelloScript", "--name", "hello", *arguments)
    vetro.run("env", "deploy", "slow", "--no-wait")
    until(mark.exists, "the script runs")
    newest = vetro.json("deployment", "list", "slow")[0]["id"]
    until(
        lambda: "It waits on the agent of" in vetro.run("deployment", "show", "slow", newest),
        "what it waits on is told",
    )
    shown = vetro.run("deployment", "cancel", "slow", "--reason", "too slow")
    assert "Cancelled by admin: too slow" in shown
    assert "what it had built stays" in shown
    assert vetro.status("slow") == "deploy failure"
    until(lambda: not running(command), "the script has ended")
    vetro.run("env", "edit", "slow", "hello", "--set", "script=echo second try")
    vetro.run("env", "deploy", "slow")
    assert "second try" in vetro.reports("slow")
    vetro.run("env", "destroy", "--yes", "slow")
    assert vetro.leftovers() == []


def running(command: str) -> bool:
    """Whether a process with this command line exists."""
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True)
    return command in done.stdout.splitlines()


@pytest.mark.thorough
def test_a_package_that_needs_isolation_changes_nothing_here(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """Its plans are refused before they run, and the report says what to do."""
    vetro = install("refusing", driver="process")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    vetro.run("package", "import", str(ROOT / "library/TwoTier"))
    vetro.run("env", "create", "web")
    images = ("--set", "machines.image=empty", "--set", "machines.balancerImage=empty")
    vetro.run("env", "add", "web", "TwoTier", "--set", "servers=1", *images)
    text = vetro.run("env", "deploy", "web", code=1)
    assert "this instance has no isolation" in text
    assert "Isolation: optional" in text
    vetro.run("env", "destroy", "--yes", "web")
