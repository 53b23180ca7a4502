"""From deploy to the page, against the same container started by hand; `vetro up` at rest.

Needs root and LXC. Seconds are those of the reference machine (`limits.py`). Says where the
time of a deployment goes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from limits import REPETITIONS, Topic, libraries_mib, repetitions

from vetro.node.storage.idmapped import IdMapping

ROOT = Path(__file__).resolve().parent.parent
VETRO = str(Path(sys.executable).with_name("vetro"))
IMAGE = "debian-12-apache"
#: With both programs of TwoTier: what is measured is Vetro, not the distribution's mirror.
TIERS_IMAGE = "debian-12-tiers"
ROUNDS = int(os.environ.get("VETRO_BENCH_ROUNDS", "5"))
IDLE_SECONDS = 10.0
BRIDGE = "vbench0"
HAND_NETWORK = "10.199.7"


class Vetro:
    """A `vetro up` of its own, and its client."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.environ = {
            **os.environ,
            "VETRO_DATA_DIR": str(directory),
            "VETRO_URL": self.url,
            "XDG_STATE_HOME": str(directory / "client"),
            "VETRO_NODE_PREFIX": "vb",
            "VETRO_NETWORK_EXTERNAL_CIDR": "172.29.90.0/24",
            "VETRO_NETWORK_ENV_IP_TEMPLATE": "10.90.0.0",
        }
        self.token = ""

    def start(self) -> float:
        """Start; seconds until it is ready."""
        began = time.perf_counter()
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [VETRO, "up", "--port", str(self.port), "--driver", "lxc"],
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        while True:
            if self.process.poll() is not None:
                raise RuntimeError((self.directory / "up.log").read_text(errors="replace"))
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                    return time.perf_counter() - began
            except OSError:
                time.sleep(0.01)

    def stop(self) -> None:
        """Stop."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def leave_nothing(self) -> None:
        """Destroy what a run that broke off left; containers outlive the service."""
        if self.token and self.process.poll() is None:
            for row in self.call("GET", "/v1/environments")["environments"]:
                self.destroy(row["id"])

    def run(self, *arguments: str) -> str:
        """Run a command of the client."""
        done = subprocess.run(
            [VETRO, *arguments], env=self.environ, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"vetro {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request with the administrator's token."""
        given = {"X-Auth-Token": self.token, "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, given, method=method)
        with urllib.request.urlopen(request, timeout=300) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def submit(self, name: str, service: dict[str, Any]) -> tuple[str, float, float]:
        """Deploy one application: environment id, clock at submission, seconds the API took."""
        environment = self.call("POST", "/v1/environments", {"name": name})["id"]
        base = f"/v1/environments/{environment}"
        session = self.call("POST", f"{base}/configure")["id"]
        header = {"X-Configuration-Session": session}
        self.call("POST", f"{base}/services", service, **header)
        began = time.perf_counter()
        self.call("POST", f"{base}/sessions/{session}/deploy")
        return environment, began, time.perf_counter() - began

    def deploy_flat(self, name: str, service: dict[str, Any]) -> tuple[str, float]:
        """Deploy one service of the v0.3 API as its clients do: environment id, clock at submission."""
        environment = self.call("POST", "/environments", {"name": name})["id"]
        base = f"/environments/{environment}"
        session = self.call("POST", f"{base}/configure")["id"]
        header = {"X-Configuration-Session": session}
        self.call("POST", f"{base}/services", service, **header)
        began = time.perf_counter()
        self.call("POST", f"{base}/sessions/{session}/deploy")
        return environment, began

    def address_of(self, environment: str) -> str:
        """Wait for a deployment of the v0.3 API to end; the address of its first unit."""
        while self.call("GET", f"/environments/{environment}")["status"] != "ready":
            time.sleep(0.005)
        (service,) = self.call("GET", f"/environments/{environment}/services")
        return str(service["units"][0]["floatingip"])

    def page_of(self, environment: str) -> str:
        """Follow the deployment's events to the report that names the page."""
        base = f"/v1/environments/{environment}/deployments"
        task = self.call("GET", base)["deployments"][0]["id"]
        request = urllib.request.Request(
            f"{self.url}{base}/{task}/events", headers={"X-Auth-Token": self.token}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            for line in answer:
                if found := re.search(rb"The page is at (http://[^\"\s\\]+)", line):
                    return found[1].decode()
                if line.startswith(b"event: end"):
                    break
        raise RuntimeError(f"the deployment gave no page: {self.call('GET', f'{base}/{task}')}")

    def destroy(self, environment: str) -> None:
        """Remove an environment and wait until it is gone."""
        while self.call("GET", f"/v1/environments/{environment}")["status"] == "deploying":
            time.sleep(0.02)  # the page came before the deployment was saved
        self.call("DELETE", f"/v1/environments/{environment}")
        while any(
            row["id"] == environment for row in self.call("GET", "/v1/environments")["environments"]
        ):
            time.sleep(0.02)


def instance(name: str, image: str = IMAGE, *, floating: bool = True) -> dict[str, Any]:
    """A machine for an image that has what it needs."""
    return {
        "?": {"type": "io.murano.resources.LinuxMuranoInstance"},
        "name": name,
        "flavor": "m1.tiny",
        "image": image,
        "assignFloatingIp": floating,
    }


def until_page(address: str, text: str = "") -> None:
    """Wait for HTTP 200 (with a text in it)."""
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                if text in answer.read().decode(errors="replace"):
                    return
        except OSError:
            pass
        time.sleep(0.002)


def instant(stored: int) -> float:
    """Seconds of a time as SQLite has it (microseconds)."""
    return stored / 1e6


def parts(vetro: Vetro, environment: str) -> dict[str, float]:
    """Where a deployment's time went, from the times the rooms keep, in seconds."""
    with sqlite3.connect(f"file:{vetro.directory / 'vetro.db'}?mode=ro", uri=True) as database:
        one = lambda sql, *p: database.execute(sql, p).fetchone()  # noqa: E731
        reports = dict(
            database.execute(
                "select s.text, s.created from environments_statuses s"
                " join environments_tasks t on t.id = s.task_id where t.environment_id = ?",
                (environment,),
            ).fetchall()
        )
        create = one(
            "select created, finished from compute_tasks where task = 'machine_create'"
            " order by created desc limit 1"
        )
        plan = one(
            "select sent_at, acknowledged_at, result_at from messaging_calls"
            " order by sent_at desc limit 1"
        )
    database.close()
    scheduled = instant(reports["Action deploy is scheduled"])
    creating = instant(reports["Creating the machine"])
    installing = instant(reports["Installing Apache and writing the page"])
    created, finished = map(instant, create)
    sent, acknowledged, answered = map(instant, plan)
    return {
        "engine: task to first statement": creating - scheduled,
        "stack and allocation": (created - creating) + (installing - finished),
        "container start (node)": finished - created,
        "agent: first poll": acknowledged - sent,
        "plan: page and Apache": answered - acknowledged,
    }


@contextmanager
def bridge() -> Iterator[None]:
    """A bridge for the containers started by hand."""
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    try:
        subprocess.run(["ip", "addr", "add", f"{HAND_NETWORK}.1/24", "dev", BRIDGE], check=True)
        subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def overlay_of(vetro: Vetro) -> tuple[Path, str]:
    """The image below a running instance of ours, and that instance's LXC configuration."""
    for mount in Path("/proc/mounts").read_text().splitlines():
        _, target, kind, options, *_ = mount.split(" ")
        if kind == "overlay" and str(vetro.directory) in options:
            image = next((vetro.directory / "node/images").glob("*/rootfs"))
            return image, (Path(target).parent / "config").read_text()
    raise RuntimeError("no instance of this installation runs")


def by_hand(image: Path, config: str, number: int, work: Path) -> float:
    """`lxc-start` over the same overlay: seconds until its page."""
    # Below /run: LXC enters the path as the container's mapped root.
    home = Path(f"/run/vetro-bench-{os.getpid()}/{number}")
    own = work / f"hand{number}"
    root = home / "root"
    lower = own / "lower"
    for directory in (root, own / "upper", own / "work", lower):
        directory.mkdir(parents=True)
    mapped = re.search(r"^lxc.idmap = u 0 (\d+) (\d+)", config, re.M)
    if mapped is None:
        raise RuntimeError("the instances of this node are privileged: nothing to compare with")
    mapping = IdMapping(image.stat().st_uid, int(mapped[1]), int(mapped[2]))
    os.chown(own / "upper", int(mapped[1]), int(mapped[1]))
    kept = [
        line
        for line in config.splitlines()
        if not line.startswith(("lxc.net", "lxc.rootfs.path", "lxc.console.logfile", "lxc.log"))
        and "cgroup" not in line.split("=")[0]
    ]
    address = f"{HAND_NETWORK}.{number + 10}"
    kept += [
        f"lxc.rootfs.path = dir:{root}",
        "lxc.net.0.type = veth",
        f"lxc.net.0.link = {BRIDGE}",
        "lxc.net.0.flags = up",
        "lxc.net.0.name = eth0",
        f"lxc.net.0.ipv4.address = {address}/24",
    ]
    (own / "config").write_text("\n".join(kept) + "\n")
    began = time.perf_counter()
    mapping.mount(image, lower)
    subprocess.run(
        [
            *("mount", "-t", "overlay", "overlay", "-o"),
            f"lowerdir={lower},upperdir={own}/upper,workdir={own}/work",
            str(root),
        ],
        check=True,
    )
    name = f"vetro-bench-{number}"
    try:
        subprocess.run(
            ["lxc-start", "-n", name, "-P", str(home), "-f", str(own / "config"), "-d"], check=True
        )
        until_page(f"http://{address}/")
        return time.perf_counter() - began
    finally:
        subprocess.run(["lxc-stop", "-k", "-n", name, "-P", str(home)], check=False)
        subprocess.run(["umount", "-l", str(root), str(lower)], check=False)
        mapping.close()
        shutil.rmtree(home.parent, ignore_errors=True)


def family(pid: int) -> list[int]:
    """A process and everything below it."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [pid, *(one for child in children for one in family(child))]


def pss(pids: list[int]) -> float:
    """Proportional set size of processes together, MiB."""
    total = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])  # type: ignore[index]
    return total / 1024


def processor_seconds(pids: list[int]) -> float:
    """Processor time that processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(topic: Topic, vetro: Vetro, work: Path) -> None:
    """Measure, judge."""
    bare = libraries_mib()
    ready: list[float] = []
    for factor in repetitions():
        ready.append(vetro.start() * factor)
        if len(ready) < REPETITIONS:
            vetro.stop()
    topic.take("vetro up, start to ready", ready, "s", 3)
    time.sleep(5)  # what the start put off is done
    pids = family(vetro.process.pid)
    used: list[float] = []
    for factor in repetitions():
        before, began = processor_seconds(pids), time.monotonic()
        time.sleep(IDLE_SECONDS)
        taken = processor_seconds(pids) - before
        used.append(1000 * taken * factor / (time.monotonic() - began))
    topic.take("idle: memory (PSS) of all processes", pss(pids) / bare, "x libs", 2)
    topic.take("idle: processor in a second", used, "ms", 10, compared=False)

    cache = ROOT / "var/image-cache"
    vetro.run("image", "build", IMAGE, "--packages", "apache2", "--cache-dir", str(cache))
    tiers = "apache2,haproxy"
    vetro.run("image", "build", TIERS_IMAGE, "--packages", tiers, "--cache-dir", str(cache))
    for name in ("ApacheHttpServer", "TwoTier"):
        vetro.run("package", "import", "--public", str(ROOT / "library" / name))
    vetro.token = vetro.run("token").strip()

    def apache(number: int) -> tuple[float, dict[str, float]]:
        text = f"bench {number}"
        service = {
            "?": {"type": "org.vetro.samples.ApacheHttpServer", "classVersion": "1.0.0"},
            "name": "web",
            "page": text,
            "instance": instance(f"web{number}"),
        }
        environment, began, api = vetro.submit(f"bench-{number}", service)
        until_page(vetro.page_of(environment), text)
        seconds = time.perf_counter() - began
        found = {"API: POST deploy": api, **parts(vetro, environment)}
        if number == 0:
            nonlocal image, config
            image, config = overlay_of(vetro)
        vetro.destroy(environment)
        return seconds, found

    image, config = Path(), ""
    apache(0)  # the image is unpacked by the first
    rounds: list[dict[str, float]] = []
    hands: list[float] = []
    ratios: list[float] = []
    with bridge():
        for number, factor in enumerate(repetitions(ROUNDS), 1):
            ours, found = apache(number)
            hands.append(by_hand(image, config, number, work) * factor)
            ratios.append(ours * factor / (3 * hands[-1] + 1.5))
            found["the whole: POST deploy to the page"] = ours
            rounds.append({what: seconds * 1000 * factor for what, seconds in found.items()})
    topic.take("by hand: overlay, lxc-start, page", hands, "s")
    for what in rounds[0]:
        topic.take(what, [found[what] for found in rounds], "ms")
    topic.take("POST deploy to the page, of 3 x by hand + 1.5 s", ratios, "x", 1)
    whole = statistics.median(found["the whole: POST deploy to the page"] for found in rounds)

    def flat(number: int) -> float:
        service: dict[str, Any] = {
            "type": "linuxApacheService",
            "name": "web",
            "unitNamingPattern": "old#",
            "flavor": "m1.tiny",
            "osImage": IMAGE,
            "assignFloatingIP": True,
            "units": [{}],
        }
        environment, began = vetro.deploy_flat(f"bench-flat-{number}", service)
        until_page(f"http://{vetro.address_of(environment)}/", "Apache on old1")
        seconds = time.perf_counter() - began
        vetro.destroy(environment)
        return seconds

    flat(0)
    old = [
        flat(number) * 1000 * factor / whole for number, factor in enumerate(repetitions(ROUNDS), 1)
    ]
    topic.take("v0.3: the same by XML workflows", old, "x", 1.3)

    def tiers(name: str, count: int) -> float:
        service = {
            "?": {"type": "org.vetro.samples.TwoTier", "classVersion": "1.0.0"},
            "name": f"tier{name}",
            "page": "bench",
            "servers": [
                instance(f"w{name}-{number}", TIERS_IMAGE, floating=False)
                for number in range(count)
            ],
            "balancer": instance(f"b{name}", TIERS_IMAGE),
        }
        environment, began, _ = vetro.submit(f"tiers-{name}", service)
        until_page(vetro.page_of(environment), "bench")
        seconds = time.perf_counter() - began
        vetro.destroy(environment)
        return seconds

    tiers("first", 1)  # the image is unpacked by the first
    growth = [tiers(f"{n}-10", 10) / tiers(f"{n}-1", 1) for n in range(ROUNDS)]
    topic.take("TwoTier with 10 web servers to 1", growth, "x", 4)


def main() -> int:
    """Measure, judge."""
    if os.geteuid() != 0 or shutil.which("lxc-start") is None:
        print("This needs root and LXC.")
        return 1
    topic = Topic("deployment")
    with tempfile.TemporaryDirectory(prefix="vetro-bench-") as name:
        work = Path(name)
        work.chmod(0o711)
        directory = work / "data"
        directory.mkdir(mode=0o711)
        vetro = Vetro(directory)
        try:
            measure(topic, vetro, work)
        finally:
            vetro.leave_nothing()
            vetro.stop()
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
