"""An installation of every kind of process, most of them twice behind a balancer, and load on it."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port
from tests.server.balancer import Balancer
from tests.server.test_processes import Parts
from tests.waiting import PATIENCE_SECONDS, until

MANIFEST = """
Format: '1.4'
Type: Application
FullName: test.load
Name: Load
Description: waits
Author: the tests
Classes: {test.Load: load.yaml}
"""
LOAD = """
Namespaces: {=: test, std: io.murano}
Name: Load
Extends: std:Application
Methods:
  deploy:
    Body:
      - $this.find(std:Environment).reporter.report($this, begun)
      - sleep(1)
      - $this.find(std:Environment).reporter.report($this, done)
"""
#: The kinds that serve others, each twice behind a balancer, and how they are started.
SERVING = {
    "api": ("api",),
    "compute": ("compute",),
    "repository": ("repository", "serve"),
    "broker": ("broker",),
}
FIRST = (*SERVING, "engine")
SECOND = tuple(f"{name}-2" for name in FIRST)
ALL = (*FIRST, *SECOND, "node")


class Site(Parts):
    """Two processes of each kind that serves others, two engines and a node."""

    def __init__(self, directory: Path, database_url: str, broker_url: str) -> None:
        super().__init__(directory, database_url)
        self.ports = {name: free_port() for name in (*FIRST, *SECOND)}
        self.doors = {
            kind: Balancer(
                self.compute_port if kind == "compute" else free_port(),
                [self.ports[kind], self.ports[f"{kind}-2"]],
            )
            for kind in SERVING
        }
        url = self.doors["api"].url
        self.environ |= {
            "VETRO_NODE_DRIVER": "simulated",
            "VETRO_SERVER_ANNOUNCE_SECONDS": "1",
            "VETRO_ENGINE_WORKERS": "2",
            "VETRO_CFAPI_AUTH_URL": f"{url}/identity/v3",
            "VETRO_CFAPI_CATALOG_URL": url,
            "VETRO_CFAPI_DATABASE_URL": broker_url,
        }
        self.api.environ |= {**self.environ, "VETRO_URL": url}
        self.token = self.login = ""
        self.patient = False
        self.requests = 0

    def begin(self, *names: str) -> None:
        """Start processes, and wait until they work."""
        begun = {name: self.log(name) if (self.directory / name).exists() else "" for name in names}
        for name in names:
            kind = name.removesuffix("-2")
            port = str(self.ports.get(name, 0))
            self.environ["VETRO_SERVER_METRICS_PORT"] = port if kind == "engine" else "0"
            given = (*SERVING[kind], "--port", port) if kind in SERVING else (kind,)
            self.start(name, *given)
        for name in names:
            if name in self.ports:
                self.ready(name, f"http://127.0.0.1:{self.ports[name]}")
            else:
                said = len(begun[name])
                until(lambda said=said: "node_ready" in self.log("node")[said:], "a node")
        until(self.is_known, "the balancers know all")

    def is_known(self) -> bool:
        """Whether every balancer sends connections to all that run of its kind."""
        return all(
            len(door.ready) == sum(name.removesuffix("-2") == kind for name in self.processes)
            for kind, door in self.doors.items()
        )

    def end(self, names: Iterable[str]) -> None:
        """Stop processes as a site does, all at once; each must end well."""
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)
        for name in names:
            assert self.processes.pop(name).wait(600) == 0, self.log(name)

    def restart(self, *names: str) -> None:
        """End processes, and start them again."""
        self.end(names)
        self.begin(*names)

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "api", **headers: str
    ) -> Any:
        """A request through a balancer. Errors: `OSError` for every answer that is none.

        A ``patient`` client repeats a request whose connection broke, or that nobody could take (503).
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._answer(method, path, body, kind, headers)
            except (OSError, http.client.HTTPException) as error:
                given = isinstance(error, urllib.error.HTTPError) and error.code != 503
                if given or not self.patient or time.monotonic() > deadline:
                    raise

    def _answer(
        self, method: str, path: str, body: Any, kind: str, headers: Mapping[str, str]
    ) -> Any:
        data = None if body is None else json.dumps(body).encode()
        given = {"X-Auth-Token": self.token, "Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.doors[kind].url + path, data, given, method=method)
        self.requests += 1
        with urllib.request.urlopen(request, timeout=240) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text

    def submit(self) -> str:
        """Deploy an application; the environment's address. No request does harm when it is repeated."""
        networks = {"environment": None, "flat": None}
        made = {"name": uuid.uuid4().hex, "defaultNetworks": networks}
        try:
            found = self.call("POST", "/v1/environments", made)
        except urllib.error.HTTPError as error:
            if error.code != 409 or not self.patient:
                raise
            rows = self.call("GET", "/v1/environments")["environments"]
            (found,) = [row for row in rows if row["name"] == made["name"]]
        base = f"/v1/environments/{found['id']}"
        service = {"?": {"id": uuid.uuid4().hex, "type": "test.Load"}, "name": "load"}
        self.deploy(base, service)
        return base

    def deploy(self, base: str, *services: dict[str, Any]) -> None:
        """Deploy an environment, with these applications in place of those that it has."""
        session = self.call("POST", f"{base}/configure")["id"]
        if services:
            within = {"X-Configuration-Session": session}
            self.call("PUT", f"{base}/services", list(services), **within)
        try:
            self.call("POST", f"{base}/sessions/{session}/deploy")
        except urllib.error.HTTPError as error:
            if error.code != 403 or not self.patient:  # the request before had been taken
                raise

    def outcome(self, base: str) -> str:
        """How a deployment ended."""

        def status() -> str:
            found = str(self.call("GET", base)["status"])
            return "" if found in ("deploying", "pending") else found

        return until(status, f"{base} is deployed")

    def read_all(self) -> None:
        """Read something from every kind of process, through its balancer."""
        self.call("GET", "/v1/environments?limit=5")
        self.call("GET", "/compute/servers")
        self.call("GET", "/servers", kind="compute")
        assert self.call("GET", "/v1/client/conductor", kind="repository")
        given = {"Authorization": f"Basic {self.login}", "X-Broker-API-Version": "2.17"}
        assert self.call("GET", "/v2/catalog", kind="broker", **given)["services"]

    def states(self) -> list[str]:
        """What the compute service says of its nodes."""
        return [str(one["status"]) for one in self.call("GET", "/compute/servers")]

    def close(self) -> None:
        """End everything; each must end well."""
        try:
            for process in self.processes.values():
                process.send_signal(signal.SIGTERM)
            codes = {name: process.wait(600) for name, process in self.processes.items()}
            assert not any(codes.values()), codes
        finally:
            for door in self.doors.values():
                door.close()


class Load:
    """Reads, and deployments one after the other, until `end`."""

    def __init__(self, site: Site) -> None:
        self.rounds = 0
        self.deployed: list[str] = []
        self.failures: list[str] = []
        self.interrupted = 0
        self._site = site
        self._end = threading.Event()
        works = (self._read, self._deploy, self._deploy)
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        for one in self._threads:
            one.start()

    def end(self) -> None:
        """Let the last ones end."""
        self._end.set()
        for one in self._threads:
            one.join()

    def _repeat(self, work: Any) -> None:
        while not self._end.is_set():
            try:
                work()
            except (OSError, AssertionError) as error:
                self.failures.append(f"{work.__name__}: {error!r} {getattr(error, 'url', '')}")

    def _read(self) -> None:
        self._site.read_all()
        self.rounds += 1

    def _deploy(self) -> None:
        base = self._site.submit()
        ended = self._site.outcome(base)
        if ended == "deploy failure" and self._site.patient:
            self.interrupted += 1
            self._site.deploy(base)
            ended = self._site.outcome(base)
        self.deployed.append(ended)

    def goes_on(self) -> None:
        """Wait until deployments and reads that begin now have ended."""
        done, read = len(self.deployed), self.rounds
        until(lambda: len(self.deployed) > done + 2, "deployments go on")
        until(lambda: self.rounds > read + 1, "reads go on")


@contextmanager
def running_site(
    directory: Path, database_url: str, broker_url: str, source: Path | None = None
) -> Generator[Site]:
    """The processes, all at work, with a package; all of them of the version in ``source`` if given."""
    made = Site(directory, database_url, broker_url)
    made.source = source
    try:
        made.begin("api")  # it makes the database and the keys
        made.begin(*[name for name in made.ports if name != "api"], "node")
        package = directory / "package"
        (package / "Classes").mkdir(parents=True)
        (package / "manifest.yaml").write_text(MANIFEST)
        (package / "Classes/load.yaml").write_text(LOAD)
        made.api.run("package", "import", "--public", str(package))
        made.token = made.api.run("token").strip()
        openrc = (directory / "api/admin-openrc").read_text()
        (password,) = [
            line.split("=", 1)[1].strip("\"'")
            for line in openrc.splitlines()
            if "OS_PASSWORD=" in line
        ]
        made.login = base64.b64encode(f"admin:{password}".encode()).decode()
        until(lambda: made.states() == ["running"], "the node is registered")
        yield made
    finally:
        made.close()
