"""Units of systemd that `vetro install` writes."""

import configparser
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import PATIENCE_SECONDS

from vetro.cli import cli
from vetro.server.settings import load_settings
from vetro.server.supervisor import READY, notify_supervisor
from vetro.server.systemd import PARTS, ROOT, Places, unit_of

OWN = ["--user", "root"]


class Unit(configparser.ConfigParser):
    """A unit's sections; names of settings have capitals."""

    def __init__(self, text: str) -> None:
        super().__init__(strict=True, interpolation=None)
        self.read_string(text)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def words(setting: str) -> list[str]:
    """The words of a setting, as systemd reads quotes and '%'."""
    return [word.replace("%%", "%") for word in shlex.split(setting)]


def given(root: Path) -> list[str]:
    """Directories below one of the test."""
    return [
        *("--config-dir", str(root / "etc")),
        *("--data-dir", str(root / "data")),
        *("--unit-dir", str(root / "units")),
        *OWN,
    ]


@pytest.fixture(params=["path", "abstract"])
def supervisor(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The socket of a supervisor, as systemd names it: a file, or a name of the abstract namespace."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"@vetro-{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(name.replace("@", "\0"))
        door.settimeout(PATIENCE_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield door


def test_a_supervisor_is_told(supervisor: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets one datagram; a missing socket or variable is not an error."""
    notify_supervisor(READY, "STATUS=serving")
    assert supervisor.recv(4096) == b"READY=1\nSTATUS=serving"
    supervisor.close()
    notify_supervisor(READY)
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify_supervisor(READY)


@pytest.mark.sampled(only=["abstract-up --driver simulated --port 0"])
@pytest.mark.e2e
@pytest.mark.parametrize(
    "command",
    [
        ["up", "--driver", "simulated", "--port", "0"],
        ["repository", "serve", "--port", "0"],
    ],
    ids=" ".join,
)
def test_a_process_says_when_it_is_ready_and_when_it_stops(
    supervisor: socket.socket, tmp_path: Path, command: list[str]
) -> None:
    """A unit with Type=notify is up only when the process listens."""
    program = Path(sys.executable).with_name("vetro")
    process = subprocess.Popen(
        [program, *command, "--data-dir", str(tmp_path / "data")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "VETRO_NODE_PREFIX": f"v{uuid.uuid4().hex[:3]}"},
    )
    try:
        assert supervisor.recv(4096) == b"READY=1"
        process.terminate()
        assert supervisor.recv(4096) == b"STOPPING=1"
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("part", PARTS)
def test_every_unit_runs_a_command_that_exists(part: str, tmp_path: Path) -> None:
    """A unit's command line is one that the command takes, with any directories; only nodes have root's
    rights."""
    data = tmp_path / 'große "Daten" 10%'
    places = Places(tmp_path / "etc", data, tmp_path / "units")
    unit = Unit(unit_of(part, places, data / part))
    program, *arguments = words(unit["Service"]["ExecStart"])
    assert Path(program).name == "vetro"
    done = CliRunner().invoke(cli, [*arguments, "--help"])
    assert done.exit_code == 0
    assert "--config" in done.stdout
    assert arguments[-1] == str(data / part)
    assert unit["Service"]["Type"] == "notify"
    assert ("User" in unit["Service"]) == (part not in ROOT)
    assert ("Delegate" in unit["Service"]) == (part in ROOT)
    if part not in ROOT:
        assert unit["Service"]["ProtectSystem"] == "strict"
        writable = words(unit["Service"]["ReadWritePaths"])
        assert writable == [str(data / part), str(data / "shared")]


@pytest.mark.root
def test_one_process_gets_one_unit_and_keeps_its_settings(tmp_path: Path) -> None:
    """Settings are written once, readable for the owner only, and can be read as settings."""
    done = CliRunner().invoke(cli, ["install", *given(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "systemctl enable --now vetro\n" in done.stdout
    file = tmp_path / "etc/vetro.toml"
    assert file.stat().st_mode & 0o777 == 0o600
    assert load_settings({}, environ={}, config_file=file).server.log_format == "json"
    file.write_text("[server]\nport = 1234\n")
    again = CliRunner().invoke(cli, ["install", *given(tmp_path)])
    assert f"kept {file}" in again.stdout
    assert "1234" in file.read_text()
    assert [path.name for path in (tmp_path / "units").iterdir()] == ["vetro.service"]


@pytest.mark.root
def test_parts_get_units_and_directories_of_their_own(tmp_path: Path) -> None:
    """Each part has a unit and a directory; all have one shared directory in their settings."""
    root = tmp_path / 'with "quotes"'
    done = CliRunner().invoke(cli, ["install", "api", "engine", "node", *given(root)])
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in (root / "units").iterdir())
    assert names == ["vetro-api.service", "vetro-engine.service", "vetro-node.service"]
    assert (root / "data/engine").is_dir()
    settings = load_settings({}, environ={}, config_file=root / "etc/vetro.toml")
    assert settings.shared_dir == root / "data/shared"
    assert settings.shared_dir.stat().st_mode & 0o777 == 0o700


@pytest.mark.root
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where a directory should be ends the command with its name."""
    (tmp_path / "units").write_text("")
    done = CliRunner().invoke(cli, ["install", *given(tmp_path)])
    assert done.exit_code == 1
    assert f"{tmp_path / 'units'} cannot be written" in done.stderr
