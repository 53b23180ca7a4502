"""``kill -9`` of the whole service while machines are created: nothing is left, nothing is done twice."""

import configparser
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Installation
from tests.waiting import until

from vetro.node.processes import command_line, kill_family

ROOT = Path(__file__).resolve().parents[2]
SERVICE = Path(__file__).with_name("service_that_waits.py")
MACHINES = 7  # one for each of the moments in service_that_waits.py
pytestmark = [pytest.mark.thorough, pytest.mark.e2e]


class Killed:
    """An installation whose service is killed, and its environments."""

    def __init__(self, vetro: Installation, directory: Path, place: Path) -> None:
        self.vetro = vetro
        self.reached = directory / "reached"
        self.lines = place / "lines"
        self.token = vetro.run("token").strip()
        self.environments: dict[str, str] = {}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What the service answers to the administrator."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer = self.vetro.http(method, path, body, token=self.token, **given)
        assert status < 300, (method, path, status, answer)
        return answer

    def add(self, name: str) -> None:
        """An environment with a script that appends its name to a file; it is deployed."""
        id_ = self.call("POST", "/v1/environments", {"name": name})["id"]
        self.environments[name] = id_
        application = {
            "?": {
                "id": os.urandom(16).hex(),
                "type": "org.vetro.samples.HelloScript",
                "classVersion": "1.0.0",
            },
            "name": name,
            "script": f"#!/bin/sh\numask 0; echo '{name}' >>{self.lines}\n",
            "instance": {
                "?": {
                    "id": os.urandom(16).hex(),
                    "type": "io.murano.resources.LinuxMuranoInstance",
                },
                "name": name,
                "flavor": "m1.tiny",
                "image": "empty",
            },
        }
        self.deploy(name, application)

    def deploy(self, name: str, application: Any = None) -> None:
        """Deploy an environment, with one more application if there is one."""
        path = f"/v1/environments/{self.environments[name]}"
        session = self.call("POST", f"{path}/configure")["id"]
        if application is not None:
            self.call("POST", f"{path}/services", application, X_Configuration_Session=session)
        self.call("POST", f"{path}/sessions/{session}/deploy")

    def status(self, name: str) -> str:
        """An environment's status."""
        return str(self.call("GET", f"/v1/environments/{self.environments[name]}")["status"])

    def all_reached(self) -> bool:
        """Whether every creation is at its moment."""
        # A deployment that has ended can never get there.
        assert "deployment_ended" not in self.vetro.log(), self.vetro.log()
        return len(list(self.reached.iterdir())) == MACHINES

    def machines(self) -> dict[str, list[int]]:
        """The processes above the guest agents, by directory of their instance."""
        found: dict[str, list[int]] = {}
        for entry in Path("/proc").iterdir():
            # A process that ended and was not waited for has no command line.
            argv = command_line(int(entry.name)) if entry.name.isdigit() else []
            root = argv[3] if argv[1:2] == ["-c"] and len(argv) > 3 else ""
            if root.startswith(f"{self.vetro.directory}/node/vms/"):
                found.setdefault(root, []).append(int(entry.name))
        return found

    def mailboxes(self) -> set[str]:
        """The mailboxes that the agents of running instances ask."""
        found: set[str] = set()
        for root in self.machines():
            settings = configparser.ConfigParser(interpolation=None)
            settings.read(Path(root) / "etc/murano/agent.conf")
            found.add(settings["mailbox"]["input_queue"])
        return found


@pytest.fixture
def killed(
    install: Callable[..., Installation],
    tmp_path: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Killed:
    """A service on the process driver whose creations of machines wait at their moments."""
    real = subprocess.Popen

    def start(arguments: list[str], **options: Any) -> Any:
        if arguments[1:2] == ["up"]:
            arguments = [sys.executable, str(SERVICE), str(tmp_path / "reached"), *arguments[1:]]
        return real(arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", start)
    (tmp_path / "reached").mkdir()
    vetro = install(
        "killed",
        driver="process",
        VETRO_ENGINE_WORKERS=str(MACHINES),
        VETRO_ENGINE_PROJECT_WORKERS=str(MACHINES),
    )
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    vetro.run("image", "import", "empty", str(tmp_path / "empty.tar"))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    return Killed(vetro, tmp_path, place)


def test_a_service_killed_while_it_creates_machines_leaves_no_orphan(killed: Killed) -> None:
    """Wherever their creation was, each environment gets one machine with a mailbox of its own, no plan
    runs twice, and nothing is left in the end."""
    vetro = killed.vetro
    for number in range(MACHINES):
        killed.add(f"number-{number}")
    until(killed.all_reached, "each creation has reached its moment")
    kill_family(vetro.process.pid)
    assert vetro.process.wait(60) == -signal.SIGKILL
    killed.reached.rename(killed.reached.with_name("before"))
    vetro.start()
    for name in killed.environments:
        until(lambda name=name: killed.status(name) != "deploying", f"{name} has ended")
        # Its engine was killed in the middle: the report says so, and it can be deployed again.
        assert killed.status(name) == "deploy failure"
        killed.deploy(name)
    for name in killed.environments:
        until(lambda name=name: killed.status(name) != "deploying", f"{name} is deployed")
        assert killed.status(name) == "ready", vetro.log()
    assert [len(pids) for pids in killed.machines().values()] == [1] * MACHINES
    assert len(killed.mailboxes()) == MACHINES
    assert sorted(killed.lines.read_text().split()) == sorted(killed.environments)
    with sqlite3.connect(vetro.directory / "vetro.db") as database:
        assert database.execute("select count(*) from messaging_dead_letters").fetchone() == (0,)
    database.close()
    for id_ in killed.environments.values():
        killed.call("DELETE", f"/v1/environments/{id_}")
    until(lambda: killed.call("GET", "/v1/environments")["environments"] == [], "all are destroyed")
    assert killed.machines() == {}
    assert list((vetro.directory / "node/vms").iterdir()) == []
