"""Processes beside each other on one PostgreSQL: what the second one adds.

Each process that is measured has a share of a core (control groups), so that two of them, the database
and what drives them fit on this machine's cores: the ratio shows what processes cost each other (locks,
the database, waiting), not what the machine lacks. It needs root, and PostgreSQL (`tools/with-postgres.sh`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from catalog_api import VETRO, Caller, archive, upload
from limits import REPETITIONS, Topic

POSTGRES = os.environ.get("VETRO_TEST_POSTGRES_URL", "")
SHARE = 0.35
"""Of a core, for each measured process with its children."""
SECONDS = float(os.environ.get("VETRO_BENCH_SECONDS", "2")) * 3
CALLERS = 16
DEPLOYMENTS = int(os.environ.get("VETRO_BENCH_DEPLOYMENTS", "20"))
LEAST_APIS, LEAST_ENGINES = 1.7, 1.8
CLASS = """
Namespaces: {=: bench, std: io.murano, res: io.murano.resources}
Name: One
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:LinuxMuranoInstance).notNull()}
Methods:
  deploy:
    Body:
      - $.instance.deploy()
"""


@contextmanager
def share_of_a_core() -> Generator[Callable[[int], None]]:
    """A control group; what it gives puts a process, and its later children, into it."""
    name = f"vetro-bench-{secrets.token_hex(4)}"
    second = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    place = Path("/sys/fs/cgroup") / ("" if second else "cpu") / name
    place.mkdir()
    period = 20_000
    if second:
        (place / "cpu.max").write_text(f"{int(SHARE * period)} {period}")
    else:
        (place / "cpu.cfs_period_us").write_text(str(period))
        (place / "cpu.cfs_quota_us").write_text(str(int(SHARE * period)))

    def put(pid: int) -> None:
        (place / "cgroup.procs").write_text(str(pid))

    try:
        yield put
    finally:
        # The group of a process that has just ended is busy for a moment.
        for _ in range(100):
            with contextlib.suppress(OSError):
                place.rmdir()
                break
            time.sleep(0.05)


def free_port() -> int:
    """A port that nothing listens on."""
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Site:
    """An installation of several processes; each has a directory of its own."""

    def __init__(self, directory: Path, database: str, ending: ExitStack) -> None:
        self.directory, self.ending = directory, ending
        self.compute = free_port()
        self.environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("OS_")},
            "VETRO_DATABASE_URL": database,
            "VETRO_SHARED_DIR": str(directory / "shared"),
            "VETRO_ENGINE_COMPUTE_URL": f"http://127.0.0.1:{self.compute}",
            "VETRO_NODE_COMPUTE_URL": f"http://127.0.0.1:{self.compute}",
            "VETRO_NODE_DRIVER": "simulated",
        }

    def start(self, name: str, *command: str, limited: bool = False, port: int = 0) -> None:
        """Start a process, and wait until it is ready (a port), or said so."""
        place = self.directory / name
        place.mkdir()
        log = self.ending.enter_context((place / "log").open("wb"))
        put = self.ending.enter_context(share_of_a_core()) if limited else None
        process = subprocess.Popen(
            [VETRO, *command, "--data-dir", str(place), *(["--port", str(port)] if port else [])],
            env={**self.environ, "VETRO_DATA_DIR": str(place)},
            stdout=log,
            stderr=subprocess.STDOUT,
            # Its children are in its group from the beginning.
            preexec_fn=None if put is None else lambda: put(os.getpid()),
        )
        self.ending.callback(process.wait, 120)
        self.ending.callback(process.terminate)
        while not self._is_ready(name, port):
            if process.poll() is not None:
                raise RuntimeError((place / "log").read_text())
            time.sleep(0.1)

    def _is_ready(self, name: str, port: int) -> bool:
        if not port:
            return "_started" in (self.directory / name / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return True
        except OSError:
            return False

    def token(self, name: str, port: int) -> str:
        """An administrator's token."""
        environ = {
            **self.environ,
            "VETRO_DATA_DIR": str(self.directory / name),
            "VETRO_URL": f"http://127.0.0.1:{port}",
        }
        return subprocess.check_output([VETRO, "token"], env=environ, text=True).strip()


def rate(ports: list[int], token: str, path: str) -> float:
    """Answers a second to callers that are spread over some APIs."""
    counts = [0] * CALLERS
    began = time.monotonic()

    def call(number: int) -> None:
        caller = Caller(ports[number % len(ports)], token)
        while time.monotonic() - began < SECONDS:
            caller.ok("GET", path)
            counts[number] += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def deploy_all(caller: Caller, image: str) -> float:
    """Seconds until many environments that are deployed at once are ready."""
    begun: list[tuple[str, str]] = []
    for number in range(DEPLOYMENTS):
        one: dict[str, Any] = {
            "?": {"id": secrets.token_hex(16), "type": "bench.One/1.0.0@bench.One"},
            "instance": {
                "?": {
                    "id": secrets.token_hex(16),
                    "type": "io.murano.resources.LinuxMuranoInstance",
                },
                "name": f"i{secrets.token_hex(4)}",
                "flavor": "m1.small",
                "image": image,
            },
        }
        name = f"e{number}-{secrets.token_hex(4)}"
        environment = str(caller.ok("POST", "/v1/environments", {"name": name})["id"])
        place = f"/v1/environments/{environment}"
        session = str(caller.ok("POST", f"{place}/configure")["id"])
        caller.ok("POST", f"{place}/services", one, X_Configuration_Session=session)
        begun.append((environment, session))
    start = time.monotonic()
    for environment, session in begun:
        caller.ok("POST", f"/v1/environments/{environment}/sessions/{session}/deploy", {})
    waiting = {environment for environment, _ in begun}
    while waiting:
        time.sleep(0.2)
        for environment in list(waiting):
            status = caller.ok("GET", f"/v1/environments/{environment}")["status"]
            if status == "deploy failure":
                place = f"/v1/environments/{environment}/deployments"
                last = caller.ok("GET", place)["deployments"][0]["id"]
                reports = caller.ok("GET", f"{place}/{last}")["reports"]
                raise RuntimeError([one["text"] for one in reports])
            if status == "ready":
                waiting.discard(environment)
    took = time.monotonic() - start
    # The next ones need the room of these.
    for environment, _ in begun:
        caller.call("DELETE", f"/v1/environments/{environment}")
    for environment, _ in begun:
        while caller.call("GET", f"/v1/environments/{environment}")[0] != 404:
            time.sleep(0.1)
    return took


def measure(site: Site) -> int:
    """Start what is needed, measure one and two, judge."""
    topic = Topic("processes")
    first, second = free_port(), free_port()
    site.start("api-1", "api", limited=True, port=first)
    site.start("compute", "compute", port=site.compute)
    site.start("node", "node")
    site.start("engine-1", "engine", "--workers", "4", limited=True)
    token = site.token("api-1", first)
    site.start("api-2", "api", limited=True, port=second)
    caller = Caller(first, token)
    path = f"/v1/environments/{caller.ok('POST', '/v1/environments', {'name': 'shown'})['id']}"
    ratios = [
        rate([first, second], token, path) / rate([first], token, path) for _ in range(REPETITIONS)
    ]
    topic.take("requests of two api processes", ratios, "x one", LEAST_APIS, at_least=True)

    upload(caller, "One", archive("One", CLASS))
    image = caller.ok("POST", "/compute/images", {"name": "bench"})["uuid"]
    caller.ok("PUT", f"/compute/images/{image}/file", b"bench")
    deploy_all(caller, image)  # the first ones compile
    alone = statistics.median(deploy_all(caller, image) for _ in range(REPETITIONS))
    site.start("engine-2", "engine", "--workers", "4", limited=True)
    deploy_all(caller, image)  # those of the second compile too
    ratios = [alone / deploy_all(caller, image) for _ in range(REPETITIONS)]
    topic.take("deployments of two engines", ratios, "x one", LEAST_ENGINES, at_least=True)
    return topic.end()


def main() -> int:
    """Run it; 1 when a figure fails."""
    if not POSTGRES or os.geteuid() != 0:
        print("not measured: it needs root, and PostgreSQL (tools/with-postgres.sh)")
        return 0
    name = f"bench{secrets.token_hex(4)}"
    with psycopg.connect(POSTGRES, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")  # pyright: ignore[reportArgumentType, reportCallIssue]
    with tempfile.TemporaryDirectory() as directory, ExitStack() as ending:
        return measure(Site(Path(directory), POSTGRES.rsplit("/", 1)[0] + f"/{name}", ending))


if __name__ == "__main__":
    sys.exit(main())
