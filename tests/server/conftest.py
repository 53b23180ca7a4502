"""A whole Vetro as a user has it: ``vetro up``, the command, real containers.

Tests that leave a service as it is share one, in a project each (decision 0790).
"""

import contextlib
import copy
import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner
from tests.networks import unused_number
from tests.ports import free_port
from tests.waiting import until

from vetro.cli import cli
from vetro.cli.client.connection import read_openrc
from vetro.identity import passwords

ROOT = Path(__file__).resolve().parents[2]
VETRO = str(Path(sys.executable).with_name("vetro"))
IMAGE = "debian-12-apache"
# A clone without history has no version before: tools/fresh.sh says so.
collect_ignore = (
    ["test_upgrade_under_load.py"] if os.environ.get("VETRO_TEST_VERSION_BEFORE") == "none" else []
)


def processes_of(directory: Path) -> list[int]:
    """Processes that are at work below a directory, or have an argument below it."""
    found: list[int] = []
    below = f"{directory}/"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text(errors="replace").split("\0")
                at = os.readlink(entry / "cwd")
            except OSError:
                continue
            if any(word.startswith(below) for word in (*words, f"{at}/")):
                found.append(int(entry.name))
    return found


class Installation:
    """A ``vetro up`` in a directory, and the command line client for it."""

    def __init__(
        self,
        directory: Path,
        *,
        driver: str = "lxc",
        host: str = "127.0.0.1",
        **environ: str,
    ) -> None:
        self.directory = directory
        self.driver = driver
        self.net = unused_number()
        self.port = free_port()
        self.url = f"http://{host}:{self.port}"
        self.prefix = f"v{self.port % 4096:03x}"
        self.process: subprocess.Popen[bytes] | None = None
        #: Whether commands run in the test's process, which costs a tenth; only one at a time can.
        self.inside = False
        self.environ = {
            **os.environ,
            "VETRO_DATA_DIR": str(directory),
            "VETRO_URL": self.url,
            "VETRO_HOST": host,
            "XDG_STATE_HOME": str(directory / "client"),
            # Apart from every other Vetro on this machine.
            "VETRO_NODE_PREFIX": self.prefix,
            "VETRO_NETWORK_EXTERNAL_CIDR": f"172.29.{self.net}.0/24",
            "VETRO_NETWORK_ENV_IP_TEMPLATE": f"10.{self.net}.0.0",
            "VETRO_NETWORK_MAX_ENVIRONMENTS": "16",
            **environ,
        }

    def start(self) -> None:
        """Start the process and wait until it says that it is ready."""
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [VETRO, "up", "--port", str(self.port), "--driver", self.driver],
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(self._ready, "vetro up is ready")

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

    def http(
        self, method: str, path: str, body: Any = None, *, token: str = "", **headers: str
    ) -> tuple[int, Any]:
        """A request with a token (the administrator's unless given): status and JSON."""
        data = None if body is None else json.dumps(body).encode()
        given = {"X-Auth-Token": token or self.run("token").strip(), **headers}
        if data is not None:
            given["Content-Type"] = "application/json"
        request = urllib.request.Request(self.url + path, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=240) as answer:
                text = answer.read()
                self.answer_headers = answer.headers
                return int(answer.status), json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def stop(self) -> None:
        """Stop gracefully."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(240) == 0, self.log()

    def end(self) -> None:
        """Stop, if it still runs, and kill the instances of its driver `process`: those outlive it."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        if self.driver == "process":
            for pid in processes_of(self.directory):
                with contextlib.suppress(ProcessLookupError):
                    group = os.getpgid(pid)
                    if group != os.getpgrp():
                        os.killpg(group, signal.SIGKILL)

    def run(self, *arguments: str, code: int | None = 0, directory: Path | None = None) -> str:
        """Run a command, in ``directory`` or here; its output, both streams."""
        if self.inside:
            result = CliRunner().invoke(cli, arguments, env=self.environ)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            text = result.output
            assert code is None or result.exit_code == code, f"{arguments}: {text}\n{self.log()}"
            return text
        done = subprocess.run(
            [VETRO, *arguments],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=900,
            cwd=directory,
        )
        text = done.stdout + done.stderr
        assert code is None or done.returncode == code, f"{arguments}: {text}\n{self.log()}"
        return text

    @contextlib.contextmanager
    def project(self) -> Generator["Installation"]:
        """The same installation, to its administrator in a new project; that goes with all it has."""
        name = f"of-a-test-{secrets.token_hex(4)}"
        token, at = self.run("token").strip(), "/identity/v3"
        made = self.http("POST", f"{at}/projects", {"project": {"name": name}}, token=token)[1]
        where = f"{at}/projects/{made['project']['id']}"
        user = self.http("GET", f"{at}/users?name=admin", token=token)[1]["users"][0]["id"]
        role = self.http("GET", f"{at}/roles?name=admin", token=token)[1]["roles"][0]["id"]
        assert self.http("PUT", f"{where}/users/{user}/roles/{role}", token=token)[0] == 204
        own = copy.copy(self)
        own.environ = {
            **self.environ,
            **read_openrc(self.directory / "admin-openrc"),
            "OS_PROJECT_NAME": name,
            "XDG_STATE_HOME": str(self.directory / "client" / name),
        }
        yield own
        assert self.http("DELETE", f"{where}?force=true", token=token)[0] in (202, 204)
        until(lambda: self.http("GET", where, token=token)[0] == 404, "the project is gone")

    def link(self) -> str:
        """An address that signs a browser in, once."""
        return self.run("dashboard").strip()

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
        with urllib.request.urlopen(services[0]["url"], timeout=240) as answer:
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

    def reports(self, environment: str) -> str:
        """The texts of the newest deployment's reports."""
        newest = self.json("deployment", "list", environment)[0]
        rows = self.json("deployment", "show", environment, newest["id"])
        return "\n".join(row["text"] for row in rows)

    def open_to_others(self) -> list[str]:
        """What other users of the machine may read of the data directory, containers' trees aside."""
        found: list[str] = []
        for parent, directories, files in os.walk(self.directory):
            inside = Path(parent).relative_to(self.directory)
            if inside == Path():
                # The tests' own, and not the service's.
                directories[:] = [name for name in directories if name != "client"]
                files[:] = [name for name in files if name != "up.log"]
            if inside in (Path("node"), Path("node/images")) or inside.match("node/vms/*"):
                # Containers have other user ids: these are passed through, and what is theirs is below.
                directories[:] = [name for name in directories if name in ("vms", "tasks", "run")]
            for name in (*directories, *files):
                path = Path(parent, name)
                passed = path.is_dir() and (inside / name).parts[0] == "node"
                shown = path.lstat().st_mode & (0o066 if passed else 0o077)
                if shown and not path.is_symlink() and name != "seccomp.profile":
                    found.append(str(path.relative_to(self.directory)))
        return found

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


def build_image(vetro: Installation) -> None:
    """Build the image of the samples, once for all tests of the checkout."""
    packages = "apache2,openbsd-inetd,telnetd"
    cache = ROOT / "var/image-cache"
    vetro.run("image", "build", IMAGE, "--packages", packages, "--cache-dir", str(cache))


@pytest.fixture(scope="session")
def vetro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A running installation with the image and the sample packages."""
    directory = tmp_path_factory.mktemp("whole")
    directory.chmod(0o711)
    installation = Installation(directory)
    installation.start()
    build_image(installation)
    for name in ("ApacheHttpServer", "HelloScript", "TwoTier"):
        installation.run("package", "import", "--public", str(ROOT / "library" / name))
    yield installation
    installation.stop()


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """To hash one takes no time: it is meant to take 30 ms, at each login."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_HASHER", hasher)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A running installation with the driver `process`, for all tests that leave it as it is."""
    directory = tmp_path_factory.mktemp("plain")
    directory.chmod(0o711)
    installation = Installation(directory, driver="process")
    installation.inside = True
    installation.start()
    yield installation
    installation.end()


@pytest.fixture
def project(plain: Installation) -> Iterator[Installation]:
    """A new project in that installation."""
    with plain.project() as made:
        yield made


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory where plans of the driver `process`, which are users of their own, come and write."""
    with TemporaryDirectory(prefix="vetro-place-", dir="/tmp") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[..., Installation]]:
    """Starts more installations: ``install(name, driver=…, host=…, VETRO_…=…)``; ended after."""
    with ExitStack() as stack:

        def start(name: str, **options: Any) -> Installation:
            directory = options.pop("directory", tmp_path / name)
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
            tmp_path.chmod(0o711)
            tmp_path.parent.chmod(0o711)
            installation = Installation(directory, **options)
            installation.start()
            stack.callback(installation.end)
            return installation

        yield start
    # A process that ends is listed until its parent has heard of it.
    until(lambda: not processes_of(tmp_path), "nothing runs that the test has started")
