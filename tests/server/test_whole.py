"""The whole of Vetro as a user has it: ``vetro up``, the command, real containers, real failures."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
VETRO = str(Path(sys.executable).with_name("vetro"))
IMAGE = "debian-12-apache"
pytestmark = [pytest.mark.root, pytest.mark.e2e, pytest.mark.timeout(600)]


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Installation:
    """A ``vetro up`` in a directory, and the command line client for it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.prefix = f"v{self.port % 4096:03x}"
        self.process: subprocess.Popen[bytes] | None = None
        self.environ = {
            **os.environ,
            "VETRO_DATA_DIR": str(directory),
            "VETRO_URL": self.url,
            "XDG_STATE_HOME": str(directory / "client"),
            # Apart from every other Vetro on this machine.
            "VETRO_NODE_PREFIX": self.prefix,
            "VETRO_NETWORK_EXTERNAL_CIDR": "172.29.77.0/24",
            "VETRO_NETWORK_ENV_IP_TEMPLATE": "10.77.0.0",
            "VETRO_NETWORK_MAX_ENVIRONMENTS": "16",
        }

    def start(self) -> None:
        """Start the process and wait until it says that it is ready."""
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [VETRO, "up", "--port", str(self.port), "--driver", "lxc"],
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(self._ready, "vetro up is ready", seconds=60)

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def log(self) -> str:
        """What the process said."""
        return (self.directory / "up.log").read_text(errors="replace")

    def stop(self) -> None:
        """Stop gracefully."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log()

    def run(self, *arguments: str, code: int | None = 0) -> str:
        """Run a command; its output, both streams."""
        done = subprocess.run(
            [VETRO, *arguments], env=self.environ, capture_output=True, text=True, timeout=300
        )
        text = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"{arguments}: {text}\n{self.log()}"
        return text

    def json(self, *arguments: str) -> Any:
        """The JSON that a command prints."""
        return json.loads(self.run("--json", *arguments))

    def status(self, environment: str) -> str:
        """An environment's status."""
        rows = self.json("env", "list")
        return next(row["status"] for row in rows if row["name"] == environment)

    def page(self, environment: str) -> str:
        """The page of the first application, over the network."""
        services = self.json("env", "model", environment, "--path", "/services")
        with urllib.request.urlopen(services[0]["url"], timeout=20) as answer:
            return str(answer.read().decode())

    def workers(self) -> set[int]:
        """Processes below the engine's zygote."""
        assert self.process is not None
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text()
                except OSError:
                    continue
                parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
        zygotes = {pid for pid, parent in parents.items() if parent == self.process.pid}
        return {pid for pid, parent in parents.items() if parent in zygotes}

    def leftovers(self) -> list[str]:
        """What an environment may not leave behind: containers, mounts, links, rules."""
        found = [str(path) for path in (self.directory / "node").glob("vms/*") if path.is_dir()]
        mounts = Path("/proc/mounts").read_text()
        found += [line for line in mounts.splitlines() if str(self.directory) in line]
        links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout
        found += [
            line.split()[0]
            for line in links.splitlines()
            if line.startswith(self.prefix) and not line.startswith(f"{self.prefix}ext")
        ]
        return found


def until(condition: Any, what: str, *, seconds: float = 120) -> None:
    """Wait for a condition; only its absence for long fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def vetro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A running installation with the image and the sample packages."""
    directory = tmp_path_factory.mktemp("whole")
    directory.chmod(0o711)
    installation = Installation(directory)
    installation.start()
    cache = ROOT / "var/image-cache"
    installation.run("image", "build", IMAGE, "--packages", "apache2", "--cache-dir", str(cache))
    for name in ("ApacheHttpServer", "HelloScript", "TwoTier"):
        installation.run("package", "import", "--public", str(ROOT / "library" / name))
    yield installation
    installation.stop()


def test_a_page_is_deployed_changed_and_removed(vetro: Installation) -> None:
    """The main job: a real page from a real container, redeployed, asked by an action, destroyed."""
    vetro.run("env", "create", "web")
    vetro.run("env", "add", "web", "ApacheHttpServer", "--name", "site", "--set", "page=First")
    text = vetro.run("env", "deploy", "web")
    assert "The page is at http://172.29.77." in text
    assert vetro.page("web") == "First\n"
    before = vetro.json("vm", "list")
    vetro.run("env", "edit", "web", "site", "--set", "page=Second")
    vetro.run("env", "deploy", "web")
    assert vetro.page("web") == "Second\n"
    assert [row["uuid"] for row in vetro.json("vm", "list")] == [row["uuid"] for row in before]
    text = vetro.run("action", "call", "web", "status")
    assert "200 Apache" in text
    vetro.run("env", "destroy", "web")
    assert vetro.json("env", "list") == []
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}", seconds=30)


def test_a_script_that_fails_says_code_and_stderr(vetro: Installation) -> None:
    """Exit code 7 of a script reaches the report; mending it and deploying again works."""
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
    vetro.run("env", "destroy", "script")


def test_an_image_that_does_not_exist_is_named(vetro: Installation) -> None:
    """The report names the image; the environment can be removed."""
    vetro.run("env", "create", "noimage")
    arguments = ("--set", "image=none-such")
    vetro.run("env", "add", "noimage", "HelloScript", "--name", "s", *arguments)
    assert "none-such" in vetro.run("env", "deploy", "noimage", code=1)
    vetro.run("env", "destroy", "noimage")


def test_a_model_that_breaks_a_contract_is_explained(vetro: Installation) -> None:
    """The report has class, property and value."""
    vetro.run("env", "create", "contract")
    vetro.run("env", "add", "contract", "ApacheHttpServer", "--name", "a")
    vetro.run("env", "edit", "contract", "a", "--set", "port=99999")
    text = vetro.run("env", "deploy", "contract", code=1)
    assert "ApacheHttpServer" in text
    assert "port" in text
    assert "99999" in text
    vetro.run("env", "destroy", "contract")


def test_two_tiers_answer_through_the_balancer(vetro: Installation) -> None:
    """Web servers behind a balancer; only the balancer has an address outside."""
    vetro.run("env", "create", "tiers")
    arguments = ("--name", "shop", "--set", "servers=2", "--set", "page=Shop")
    vetro.run("env", "add", "tiers", "TwoTier", *arguments)
    vetro.run("env", "deploy", "tiers")
    pages = {vetro.page("tiers") for _ in range(4)}
    assert pages == {"Shop (web-1)\n", "Shop (web-2)\n"}
    vetro.run("env", "destroy", "tiers")


def test_a_killed_worker_ends_as_a_failed_deployment(vetro: Installation) -> None:
    """SIGKILL for the worker in the middle of a deployment: a reason, and it can be tried again."""
    vetro.run("env", "create", "killed")
    script = "#!/bin/sh\nsleep 300\n"
    vetro.run("env", "add", "killed", "HelloScript", "--name", "k", "--set", f"script={script}")
    vetro.run("env", "deploy", "killed", "--no-wait")
    until(lambda: "Running the script" in reports(vetro, "killed"), "the script runs")
    for pid in vetro.workers():
        os.kill(pid, signal.SIGKILL)
    until(lambda: vetro.status("killed") == "deploy failure", "the deployment failed")
    assert "was killed while deploying" in reports(vetro, "killed")
    vetro.run("env", "destroy", "killed")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}", seconds=60)


def reports(vetro: Installation, environment: str) -> str:
    """The texts of the newest deployment's reports."""
    newest = vetro.json("deployment", "list", environment)[0]
    rows = vetro.json("deployment", "show", environment, newest["id"])
    return "\n".join(row["text"] for row in rows)


def test_a_killed_service_recovers(vetro: Installation) -> None:
    """SIGKILL for the whole of ``vetro up`` during a deployment: after a start nothing is stuck."""
    assert vetro.process is not None
    vetro.run("env", "create", "crash")
    script = "#!/bin/sh\nsleep 300\n"
    vetro.run("env", "add", "crash", "HelloScript", "--name", "c", "--set", f"script={script}")
    vetro.run("env", "deploy", "crash", "--no-wait")
    until(lambda: "Running the script" in reports(vetro, "crash"), "the script runs")
    vetro.process.kill()
    vetro.process.wait(30)
    vetro.start()
    until(lambda: vetro.status("crash") == "deploy failure", "the deployment failed")
    assert "was killed while this ran" in reports(vetro, "crash")
    vetro.run("env", "destroy", "crash")
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}", seconds=60)


def test_a_second_process_is_told_who_holds_the_directory(vetro: Installation) -> None:
    """Port and data directory in use are named, with a hint."""
    text = vetro.run("up", "--port", str(vetro.port), code=1)
    assert "in use by process" in text
    assert "Hint:" in text
