"""The parts of an installation as processes of their own, on one PostgreSQL database."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.ports import free_port
from tests.server.conftest import Installation
from tests.waiting import until

from vetro.blobs import BLOB_SUFFIXES
from vetro.cli import cli

S3 = os.environ.get("VETRO_TEST_S3_URL")
VETRO = str(Path(sys.executable).with_name("vetro"))
ROOT = Path(__file__).resolve().parents[2]


class Parts:
    """Processes of one installation; each has a directory of its own, and its output in it."""

    def __init__(
        self, directory: Path, database_url: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.api = Installation(directory / "api", driver="process")
        self.compute_port = free_port()
        self.environ = {
            **self.api.environ,
            "VETRO_DATABASE_URL": database_url,
            "VETRO_SHARED_DIR": str(directory / "shared"),
            "VETRO_ENGINE_COMPUTE_URL": f"http://127.0.0.1:{self.compute_port}",
            # Guests are plain processes here: they share the machine's loopback.
            "VETRO_MAILBOX_URL": f"http://127.0.0.1:{self.compute_port}",
            "VETRO_NODE_COMPUTE_URL": f"http://127.0.0.1:{self.compute_port}",
            "VETRO_NODE_DRIVER": "process",
            **(settings or {}),
        }
        self.api.environ.update(self.environ)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        #: Where processes have Vetro's own modules from, instead of this tree.
        self.source: Path | None = None

    def start(self, name: str, *command: str) -> None:
        """Start a process."""
        place = self.directory / name
        place.mkdir(exist_ok=True)
        source = {"PYTHONPATH": str(self.source)} if self.source else {}
        with (place / "up.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [VETRO, *command, "--data-dir", str(place)],
                env={**self.environ, **source, "VETRO_DATA_DIR": str(place)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def log(self, name: str) -> str:
        """What a process said."""
        return (self.directory / name / "up.log").read_text(errors="replace")

    def ready(self, name: str, url: str) -> None:
        """Wait until a process answers that it is ready."""

        def answers() -> bool:
            assert self.processes[name].poll() is None, self.log(name)
            try:
                with urllib.request.urlopen(f"{url}/readyz", timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        until(answers, f"{name} is ready")

    def said(self, name: str, text: str) -> None:
        """Wait until a process said something."""

        def has() -> bool:
            assert self.processes[name].poll() is None, self.log(name)
            return text in self.log(name)

        until(has, f"{name} says {text!r}")

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to a process, and wait for its end; its exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(120)

    def close(self) -> None:
        """End all that runs; each must end well."""
        codes = {name: self.stop(name) for name in reversed(list(self.processes))}
        assert not any(codes.values()), {
            name: self.log(name) for name, code in codes.items() if code
        }


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.s3)])
def parts(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_database: str
) -> Iterator[Parts]:
    """The processes of an installation with a database of its own; files in a directory or a bucket."""
    settings: dict[str, str] = {}
    if request.param == "s3":
        if S3 is None:
            pytest.skip("VETRO_TEST_S3_URL is not set; tools/with-s3.sh sets it")
        settings = {
            "VETRO_BLOBS_STORE": "s3",
            "VETRO_BLOBS_BUCKET": "vetro",
            "VETRO_BLOBS_PREFIX": tmp_path.name,
            "VETRO_BLOBS_ENDPOINT": S3,
            "VETRO_BLOBS_ACCESS_KEY": "S3RVER",
            "VETRO_BLOBS_SECRET_KEY": "S3RVER",
        }
    made = Parts(tmp_path, postgres_database, settings)
    yield made
    made.close()
    if settings:
        shared = tmp_path / "shared"
        assert not [file for what in BLOB_SUFFIXES for file in (shared / what).iterdir()]


@pytest.mark.thorough
@pytest.mark.e2e
@pytest.mark.postgres
def test_a_deployment_goes_through_processes_of_their_own(parts: Parts, tmp_path: Path) -> None:
    """Two APIs, two engines, the compute service and a node deploy an application, also after kills."""
    api = parts.api
    other = Installation(tmp_path / "other", driver="process")
    parts.start("api", "api", "--port", str(api.port))
    parts.ready("api", api.url)
    parts.start("other", "api", "--port", str(other.port))
    parts.start("compute", "compute", "--port", str(parts.compute_port))
    parts.start("engine-1", "engine", "--workers", "1")
    parts.start("engine-2", "engine", "--workers", "1")
    parts.ready("compute", f"http://127.0.0.1:{parts.compute_port}")
    parts.start("node", "node")
    parts.ready("other", other.url)
    other.environ.update(parts.environ, VETRO_URL=other.url, VETRO_DATA_DIR=str(tmp_path / "other"))
    until(lambda: len(api.json("server", "list")) == 1, "the node is registered")

    empty = tmp_path / "empty.tar"
    subprocess.run(["tar", "--create", "--file", empty, "--files-from", "/dev/null"], check=True)
    api.run("image", "import", "empty", str(empty))
    api.run("package", "import", "--public", str(ROOT / "library/HelloScript"))
    api.run("env", "create", "first")
    script = "#!/bin/sh\necho deployed by parts\n"
    arguments = ("--name", "s", "--set", "image=empty", "--set", f"script={script}")
    other.run("env", "add", "first", "HelloScript", *arguments)
    other.run("env", "deploy", "first")
    assert api.status("first") == "ready"

    # Without one engine and one API the others go on; stopped ones come back.
    assert parts.stop("engine-1", signal.SIGKILL) == -signal.SIGKILL
    assert parts.stop("api") == 0
    other.run("env", "deploy", "first")
    parts.start("engine-1", "engine", "--workers", "1")
    parts.said("engine-1", "1 deployments at a time")
    assert parts.stop("engine-2") == 0
    other.run("env", "destroy", "first", "--yes")
    assert json.loads(other.run("--json", "env", "list")) == []


@pytest.mark.parametrize("command", ["api", "engine", "compute"])
def test_parts_refuse_a_database_of_one_process(command: str, tmp_path: Path) -> None:
    """On SQLite each part says that it needs PostgreSQL, and names the one process for SQLite."""
    said = CliRunner().invoke(cli, [command, "--data-dir", str(tmp_path)])
    assert said.exit_code == 1
    assert f"vetro {command} works with other processes on one PostgreSQL database" in said.stderr
    assert "one process on SQLite is 'vetro up'" in said.stderr
