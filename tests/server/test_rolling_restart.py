"""Every process of an installation is restarted, killed and cut off from its database, under load."""

import base64
import json
import os
import signal
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.server.balancer import Balancer
from tests.server.replicated import Replicated
from tests.server.test_processes import Parts
from tests.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.timeout(1200)]
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


class Site(Parts):
    """Two processes of each kind that serves others, two engines and a node."""

    def __init__(self, directory: Path, database: Replicated) -> None:
        super().__init__(directory, database.url)
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
            "VETRO_CFAPI_DATABASE_URL": database.broker_url,
        }
        self.api.environ |= {**self.environ, "VETRO_URL": url}
        self.token = self.login = ""

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

    def restart(self, *names: str) -> None:
        """Stop processes as a site does, all at once; each must end well; then start them."""
        for name in names:
            self.processes[name].send_signal(signal.SIGTERM)
        for name in names:
            assert self.processes.pop(name).wait(600) == 0, self.log(name)
        self.begin(*names)

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "api", **headers: str
    ) -> Any:
        """A request through a balancer. Errors: `OSError` for every answer that is none."""
        data = None if body is None else json.dumps(body).encode()
        given = {"X-Auth-Token": self.token, "Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.doors[kind].url + path, data, given, method=method)
        with urllib.request.urlopen(request, timeout=240) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith((b"{", b"[")) else text

    def submit(self) -> str:
        """Deploy an application; the environment's address."""
        networks = {"environment": None, "flat": None}
        made = {"name": uuid.uuid4().hex, "defaultNetworks": networks}
        base = f"/v1/environments/{self.call('POST', '/v1/environments', made)['id']}"
        session = self.call("POST", f"{base}/configure")["id"]
        service = {"?": {"id": uuid.uuid4().hex, "type": "test.Load"}, "name": "load"}
        self.call("POST", f"{base}/services", service, **{"X-Configuration-Session": session})
        self.call("POST", f"{base}/sessions/{session}/deploy")
        return base

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
    """Reads, and deployments one after the other, until it is told to end."""

    def __init__(self, site: Site) -> None:
        self.rounds = 0
        self.deployed: list[str] = []
        self.failures: list[str] = []
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
        self.deployed.append(self._site.outcome(self._site.submit()))


@pytest.fixture
def database() -> Iterator[Replicated]:
    """A primary and its standby."""
    if not os.environ.get("VETRO_TEST_POSTGRES_URL"):
        pytest.skip("VETRO_TEST_POSTGRES_URL is not set; tools/with-postgres.sh sets it")
    made = Replicated()
    yield made
    made.close()


@pytest.fixture
def site(tmp_path: Path, database: Replicated) -> Iterator[Site]:
    """The processes, all at work, with a package."""
    made = Site(tmp_path, database)
    try:
        made.begin("api")  # it makes the database and the keys
        made.begin(*[name for name in made.ports if name != "api"], "node")
        package = tmp_path / "package"
        (package / "Classes").mkdir(parents=True)
        (package / "manifest.yaml").write_text(MANIFEST)
        (package / "Classes/load.yaml").write_text(LOAD)
        made.api.run("package", "import", "--public", str(package))
        made.token = made.api.run("token").strip()
        openrc = (tmp_path / "api/admin-openrc").read_text()
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


def test_restarts_are_not_noticed_and_crashes_are_survived(
    site: Site, database: Replicated
) -> None:
    """A restart of every process fails no request, deployment or heartbeat; killed ones and a primary of
    the database that dies cost what they were doing, and everything goes on.
    """
    load = Load(site)
    try:
        for names in (FIRST, ("api-2", "compute-2", "engine-2", "node")):
            done, read = len(load.deployed), load.rounds
            site.restart(*names)
            until(lambda done=done: len(load.deployed) > done, "deployments go on")
            until(lambda read=read: load.rounds > read, "reads go on")
    finally:
        load.end()
    assert load.failures == []
    assert set(load.deployed) == {"ready"}
    assert "heartbeat_not_delivered" not in site.log("node")
    assert site.states() == ["running"]

    running = [site.submit() for _ in range(3)]
    for name in (*FIRST, "node"):
        assert site.stop(name, signal.SIGKILL) == -signal.SIGKILL
    until(site.is_known, "the balancers know who is left")
    site.read_all()
    site.begin("api", "compute", "engine", "node")
    assert {site.outcome(one) for one in running} <= {"ready", "deploy failure"}
    assert site.outcome(site.submit()) == "ready"

    kept = site.submit()
    database.kill_primary()
    until(lambda: not site.doors["api"].ready, "the services say that their database is away")
    with pytest.raises(urllib.error.HTTPError) as caught:
        address = f"http://127.0.0.1:{site.ports['api']}/v1/environments"
        asked = urllib.request.Request(address, headers={"X-Auth-Token": site.token})
        urllib.request.urlopen(asked, timeout=240)
    assert caught.value.code == 503
    database.promote_standby()
    until(site.is_known, "the services have their database again")
    assert site.outcome(kept) in ("ready", "deploy failure")
    assert site.outcome(site.submit()) == "ready"
    until(lambda: site.states() == ["running"], "the node reports again")
    site.read_all()
    assert all(one.poll() is None for one in site.processes.values())
