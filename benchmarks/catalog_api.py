"""The catalog API under load: `vetro up` on one core, the callers on another.

Each row is a call (or a short sequence of calls) that one caller, then 16, repeat for some seconds on
kept-alive connections. `original` is what the API server that Vetro replaces did with one caller, on a
machine of the same kind, one core, with the same data; each row is to reach ten times that. Processor
time is that of the service's process for one row's calls.
"""

from __future__ import annotations

import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("VETRO_BENCH_SECONDS", "2"))
CALLERS = 16
VETRO = str(Path(sys.executable).with_name("vetro"))


class Caller:
    """One kept-alive connection, with as little of a client as HTTP allows."""

    def __init__(self, port: int, token: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.head = f"Host: 127.0.0.1\r\nX-Auth-Token: {token}\r\n"

    def call(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send a request; status and body of its answer."""
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        length = f"Content-Length: {len(body)}\r\n" if body or method != "GET" else ""
        head = f"{method} {path} HTTP/1.1\r\n{self.head}{lines}{length}\r\n".encode()
        self.socket.sendall(head + body)
        data = self.socket.recv(262_144)
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(262_144)
        top, _, rest = data.partition(b"\r\n\r\n")
        status = int(top[9:12])
        lower = top.lower()
        at = lower.find(b"content-length:")
        size = int(lower[at + 15 : lower.find(b"\r\n", at) if b"\r\n" in lower[at:] else None])
        parts, got = [rest], len(rest)
        while got < size:
            piece = self.socket.recv(262_144)
            parts.append(piece)
            got += len(piece)
        return status, b"".join(parts)

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON of a call that must succeed."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        if body is not None and not isinstance(body, bytes):
            headers["Content_Type"] = "application/json"
        status, content = self.call(method, path, raw, **headers)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content) if content[:1] in (b"{", b"[") else content


@dataclass
class Service:
    """A running service: its process, port and a token."""

    pid: int
    port: int
    token: str

    def caller(self) -> Caller:
        """A new connection."""
        return Caller(self.port, self.token)

    def cpu(self) -> float:
        """Processor seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident MiB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def running() -> Generator[Service]:
    """`vetro up` in a new directory, without a node, on the last core; this process on the first."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("OS_")},
            "VETRO_DATA_DIR": directory,
            "VETRO_NODE_ENABLED": "false",
        }
        with subprocess.Popen(
            [VETRO, "up", "--port", "0", "--driver", "simulated"],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {cores[-1]}),
        ) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            port = int(first.rsplit(":", 1)[1])
            for line in process.stdout:
                if line.startswith("  instances"):
                    break
            threading.Thread(target=process.stdout.read, daemon=True).start()
            token = subprocess.check_output([VETRO, "token"], env=environ, text=True).strip()
            os.sched_setaffinity(0, {cores[0]})
            try:
                yield Service(process.pid, port, token)
            finally:
                process.terminate()


def archive(name: str) -> bytes:
    """A small package."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(
            "manifest.yaml",
            f"Format: '1.4'\nType: Application\nFullName: bench.{name}\nVersion: 1.0.0\nName: {name}\n"
            f"Description: A package of the benchmark\nAuthor: bench\nTags: [bench, {name}]\n"
            f"Classes:\n  bench.{name}: App.yaml\n",
        )
        opened.writestr("Classes/App.yaml", f"Namespaces: {{=: bench}}\nName: {name}\n")
        opened.writestr("UI/ui.yaml", "Version: 2\nApplication: {'?': {type: bench.App}}\n")
    return buffer.getvalue()


def upload(caller: Caller, name: str) -> str:
    """Upload a package; its id."""
    mark = "vetrobenchmark"
    body = (
        (
            f'--{mark}\r\nContent-Disposition: form-data; name="p"; filename="p.zip"\r\n'
            "Content-Type: application/zip\r\n\r\n"
        ).encode()
        + archive(name)
        + f"\r\n--{mark}--\r\n".encode()
    )
    kind = f"multipart/form-data; boundary={mark}"
    return caller.ok("POST", "/v1/catalog/packages", body, Content_Type=kind)["id"]


def service_object(number: int) -> dict[str, Any]:
    """An application with an instance inside."""
    inner = {"?": {"type": "io.murano.resources.LinuxMuranoInstance"}, "name": f"vm-{number}",
             "flavor": "m1.small", "image": "debian", "assignFloatingIp": True}  # fmt: skip
    return {"?": {"type": "bench.App"}, "name": f"app-{number}", "port": 80, "instance": inner}


Step = Callable[[Caller, int], None]


def rows(one: str, package: str) -> list[tuple[str, float, Step]]:
    """The rows: name, the original's calls a second, and one repetition."""
    where = f"/v1/environments/{one}"

    def get(path: str) -> Step:
        return lambda caller, _number: caller.ok("GET", path) and None

    def session(caller: Caller, _number: int) -> None:
        made = caller.ok("POST", f"{where}/configure")["id"]
        caller.ok("POST", f"{where}/services", service_object(1), X_Configuration_Session=made)
        caller.ok("DELETE", f"{where}/sessions/{made}")

    def created(query: str) -> Step:
        def step(caller: Caller, number: int) -> None:
            made = caller.ok("POST", "/v1/environments", {"name": f"n-{number}"})["id"]
            caller.ok("DELETE", f"/v1/environments/{made}{query}")

        return step

    def uploaded(caller: Caller, number: int) -> None:
        caller.ok("DELETE", f"/v1/catalog/packages/{upload(caller, f'U{number}')}")

    packages = "/v1/catalog/packages"
    return [
        ("one environment", 93, get(where)),
        ("services", 144, get(f"{where}/services")),
        ("configure + add + delete session", 45, session),
        ("create + abandon", 79, created("?abandon=true")),
        ("create + delete", 31, created("")),
        ("packages page", 195, get(f"{packages}?limit=20&include_disabled=False")),
        ("search", 160, get(f"{packages}?search=package&limit=20")),
        ("download", 409, get(f"{packages}/{package}/download")),
        ("upload + delete", 55, uploaded),
    ]


@dataclass
class Figures:
    """What a row gave: calls a second, the slowest hundredth, processor time of a call (ms)."""

    rate: float
    p99: float
    cpu: float


def measure(service: Service, step: Step, callers: int) -> Figures:
    """Repeat a step for some seconds with a number of callers."""
    connections = [service.caller() for _ in range(callers)]
    took: list[float] = []
    numbers = iter(range(10**9))
    base = time.monotonic_ns()
    for connection in connections:
        step(connection, base + next(numbers))
    before, began = service.cpu(), time.perf_counter()
    until = began + SECONDS

    def work(connection: Caller) -> None:
        while (start := time.perf_counter()) < until:
            step(connection, base + next(numbers))
            took.append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(one,)) for one in connections]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    seconds = time.perf_counter() - began
    used = service.cpu() - before
    slowest = statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]
    for connection in connections:
        connection.socket.close()
    return Figures(len(took) / seconds, slowest * 1000, used / len(took) * 1000)


def report(name: str, original: float, single: Figures, many: Figures) -> bool:
    """Print a row; whether it reaches its aims."""
    aim = original * 10
    print(
        f"{name:34} {original:6.0f} {aim:6.0f} {single.rate:8.0f} {single.p99:7.1f}"
        f" {single.cpu:7.2f} {many.rate:8.0f} {many.p99:7.1f} {many.cpu:7.2f}"
        f"  {'' if single.rate >= aim else 'below'}"
    )
    return single.rate >= aim * 0.75


def main() -> int:
    """Run the rows; 1 when one misses its aim by more than a quarter."""
    good = True
    with running() as service:
        caller = service.caller()
        ids = [upload(caller, f"P{number}") for number in range(40)]
        print(
            f"{'':34} {'orig.':>6} {'aim':>6} {'1: /s':>8} {'p99 ms':>7} {'cpu ms':>7}"
            f" {'16: /s':>8} {'p99 ms':>7} {'cpu ms':>7}"
        )
        one, memory = "", 0.0
        for total, original in ((100, 11), (1000, 1)):
            existing = 0 if total == 100 else 100
            for number in range(existing, total):
                body = {"name": f"e-{number}", "services": [service_object(n) for n in range(3)]}
                one = caller.ok("POST", "/v1/environments", body)["id"]
            if total == 100:
                memory = service.memory()
            step: Step = lambda caller, _number: caller.ok("GET", "/v1/environments") and None  # noqa: E731
            name = f"list of {total} environments"
            good &= report(
                name, original, measure(service, step, 1), measure(service, step, CALLERS)
            )
        for name, original, step in rows(one, ids[0]):
            single, many = measure(service, step, 1), measure(service, step, CALLERS)
            good &= report(name, original, single, many)
        after = service.memory()
        print(
            f"memory: {memory:.0f} MiB before, {after:.0f} MiB after ({after / memory:.2f} times)"
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
