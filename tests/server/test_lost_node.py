"""A node that is gone, by the commands of docs/compute/lost-node.md, with a second node."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation, processes_of
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGE = ROOT / "docs/compute/lost-node.md"
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.Machine
Name: Machine
Description: a machine and nothing in it
Author: the tests
Classes: {test.Machine: machine.yaml}
"""
MACHINE = """
Namespaces: {=: test, std: io.murano, res: io.murano.resources}
Name: Machine
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:LinuxMuranoInstance).notNull()}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
      - $this.find(std:Environment).reporter.report($this, 'it is there')
"""
MODEL = """
{{"?": {{"id": "{id}", "type": "test.Machine"}},
 "instance": {{"?": {{"id": "{id}-machine", "type": "io.murano.resources.LinuxMuranoInstance"}},
   "name": "{name}", "flavor": "m1.tiny", "image": "empty"}}}}
"""


def commands(heading: str) -> list[str]:
    """The shell blocks of a section of the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


class Nodes:
    """A service without a node of its own, and nodes beside it on this machine."""

    def __init__(self, vetro: Installation, directory: Path, driver: str) -> None:
        self.vetro, self.directory, self.driver = vetro, directory, driver
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.key = (vetro.directory / "node-key").read_text().strip()

    def start(self, node: str, data: str = "") -> None:
        """Start the agent of a node; ``data``: the name of its data directory, if it has another one."""
        where = self.directory / (data or node[:8])
        where.mkdir(exist_ok=True)
        with (where / "node.log").open("ab") as log:
            self.running[node] = subprocess.Popen(
                [str(BIN / "vetro"), "node", "--compute-url", f"{self.vetro.url}/compute",
                 "--server-uuid", node, "--driver", self.driver, "--prefix", f"l{node[:3]}",
                 "--data-dir", str(where)],
                env={**os.environ, "VETRO_NODE_KEY": self.key},
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        until(lambda: self.status(node) == "running", f"node {node} is heard")

    def end(self, node: str, sign: int = signal.SIGKILL) -> None:
        """End the agent, as a crash would, and wait until the node is silent."""
        process = self.running.pop(node)
        process.send_signal(sign)
        process.wait(240)

    def lose(self, node: str) -> None:
        """As `end`, until the service has noticed."""
        self.end(node)
        until(lambda: self.status(node) == "unknown", f"node {node} is silent")

    def status(self, node: str) -> str | None:
        """What the service says of a node."""
        rows = self.vetro.json("server", "list")
        # Without memory nothing can be placed there yet.
        found = [row for row in rows if row["uuid"] == node and row.get("memory_free_mb")]
        return str(found[0]["status"]) if found else None

    def machine(self, name: str) -> dict[str, Any]:
        """A machine in the list of all machines."""
        [row] = [row for row in self.vetro.json("vm", "list") if row["alias"] == name]
        return dict(row)

    def on(self, node: str) -> set[str]:
        """The machines of a node, by what it says and by the records."""
        return set(self.vetro.json("server", "show", node)["vms"])

    def follow(self, heading: str, **names: str) -> list[str]:
        """Run the commands of a section of the page; what they print."""
        said: list[str] = []
        path = f"{BIN}:{os.environ['PATH']}"
        for block in commands(heading):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", block],
                env={**self.vetro.environ, **names, "PATH": path},
                capture_output=True, text=True,
            )  # fmt: skip
            assert done.returncode == 0, (block, done.stdout, done.stderr)
            said.append(done.stdout + done.stderr)
        return said


@pytest.fixture(params=["simulated", "process"])
def nodes(
    request: pytest.FixtureRequest, install: Callable[..., Installation], tmp_path: Path
) -> Iterator[Nodes]:
    """The service, with an image and a package; no node yet."""
    vetro = install("service", VETRO_NODE_ENABLED="false")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    package = tmp_path / "package"
    (package / "Classes").mkdir(parents=True)
    (package / "manifest.yaml").write_text(MANIFEST)
    (package / "Classes/machine.yaml").write_text(MACHINE)
    vetro.run("package", "import", str(package))
    one = Nodes(vetro, tmp_path, request.param)
    try:
        yield one
    finally:
        for node in [*one.running]:
            one.end(node, signal.SIGTERM)
        # What ran on a node that was killed is left, as on a machine that nobody has switched off.
        for where in {path for path in tmp_path.iterdir() if path.is_dir()} - {vetro.directory}:
            for pid in processes_of(where):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def compose(nodes: Nodes, *names: str) -> None:
    """An environment for each name, with a machine of that name."""
    for name in names:
        model = nodes.directory / f"{name}.json"
        model.write_text(MODEL.format(id=uuid.uuid4().hex, name=name))
        nodes.vetro.run("env", "create", name)
        nodes.vetro.run("env", "add", name, "--file", str(model))
        nodes.vetro.run("env", "deploy", name)


def test_the_page_is_followed_when_a_node_is_gone(nodes: Nodes) -> None:
    """Nothing is said to run on a silent node; evacuated and deleted, everything goes on without it."""
    vetro, first, second = nodes.vetro, str(uuid.uuid4()), str(uuid.uuid4())
    nodes.start(first)
    compose(nodes, "kept", "left")
    before = nodes.machine("kept")
    assert before["state"] == "running"
    nodes.lose(first)
    shown = nodes.follow("What is shown")
    assert shown[0].count("unknown") >= 3
    assert shown[0].count("Machines unknown") == 2
    assert vetro.json("vm", "show", "kept")["state"] == "unknown"
    assert "is silent" in vetro.run("env", "deploy", "kept", code=1)
    vetro.run("env", "destroy", "--yes", "left", code=1)
    assert "is heard" not in vetro.run("server", "delete", first, "--yes", code=1)
    nodes.start(second)
    evacuated, deployed, deleted = nodes.follow(
        "It does not come back", NODE=first, ENVIRONMENT="kept"
    )
    assert "is left to make again" in evacuated
    assert "(success)" in deployed
    assert "deleted" in deleted
    after = nodes.machine("kept")
    assert (after["uuid"], after["state"], after["server_uuid"]) == (
        before["uuid"], "running", second,
    )  # fmt: skip
    assert first not in vetro.run("server", "list")
    assert "is heard" in vetro.run("server", "delete", second, "--yes", code=1)
    # It comes back all the same: nothing runs twice.
    nodes.start(first)
    until(lambda: nodes.on(first) == set(), "what left the node is destroyed there")
    assert len(nodes.on(second)) == 2
    # The other one, with records that were deleted with it: what was made again is ended, the rest has time.
    nodes.lose(second)
    vetro.run("server", "delete", second, "--force", "--yes")
    vetro.run("env", "deploy", "kept")
    assert nodes.on(first) == {before["uuid"]}
    nodes.start(second)
    until(lambda: len(nodes.on(second)) == 1, "what was made again elsewhere is ended")
    assert before["uuid"] not in nodes.on(second)
    assert nodes.on(first) == {before["uuid"]}
    vetro.run("env", "destroy", "--yes", "left")
    vetro.run("env", "destroy", "--yes", "kept")
    assert nodes.on(first) == set()


def test_the_page_is_followed_when_a_node_has_lost_its_disks(nodes: Nodes) -> None:
    """The machine is missing, its environment not ready; the next deployment makes it again and says so."""
    vetro, node = nodes.vetro, str(uuid.uuid4())
    nodes.start(node)
    compose(nodes, "web")
    before = nodes.machine("web")
    nodes.lose(node)
    nodes.start(node, "other-disks")
    until(lambda: nodes.machine("web")["state"] == "missing", "the node has said what it has")
    assert vetro.status("web") == "machines missing"
    assert "makes it again" in vetro.run("env", "show", "web")
    [said] = nodes.follow("It comes back", ENVIRONMENT="web")
    assert "was made again" in vetro.reports("web"), said
    after = nodes.machine("web")
    assert (after["uuid"], after["state"]) == (before["uuid"], "running")
    assert vetro.status("web") == "ready"
    assert "(success)" in vetro.run("env", "deploy", "web")
    # A node that was evacuated in vain, since there was no other, and is still away.
    nodes.lose(node)
    assert "were not created again" in vetro.run("server", "evacuate", node, "--fenced", code=1)
    assert vetro.status("web") == "machines missing"
    vetro.run("env", "destroy", "--yes", "web")
    vetro.run("server", "delete", node, "--yes")
    assert vetro.json("server", "list") == []
