"""What killed runs of tests left on the machine, the next removes (tools/leftovers.py, decision 0784)."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

TOOL = Path(__file__).resolve().parents[2] / "tools/leftovers.py"
pytestmark = [pytest.mark.root]


@pytest.fixture
def leftovers() -> Any:
    """The tool."""
    spec = importlib.util.spec_from_file_location("leftovers", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def do(*command: object) -> str:
    return subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    ).stdout


def left_by_a_vetro(node: Path, prefix: str, label: str) -> Path:
    """What a node leaves in /run and in the network when it is killed with its containers."""
    vm = str(uuid.uuid4())
    runtime = Path("/run/vetro") / f"{prefix}-{label}"
    (runtime / vm / "rootfs").mkdir(parents=True)
    (runtime / vm / "config").write_text(f"lxc.log.file = {node}/vms/{vm}/lxc.log\n")
    do("mount", "-t", "tmpfs", "left", runtime / vm / "rootfs")
    do("ip", "link", "add", f"{prefix}ext", "type", "bridge")
    do("ip", "link", "add", f"{prefix}b0123abcd", "type", "bridge")
    do("nft", "add", "table", "inet", f"vetro_{prefix}")
    return runtime


def seen(prefix: str, *paths: Path) -> list[str]:
    """Interfaces and tables with a prefix, mounts below the paths, and loop devices with files there."""
    links = [row["ifname"] for row in json.loads(do("ip", "-j", "link"))]
    tables = do("nft", "list", "tables").splitlines()
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    loops = do("losetup", "--list", "--noheadings", "--output", "BACK-FILE").splitlines()
    return [
        *(name for name in links if name.startswith(prefix)),
        *(line for line in tables if line.endswith(f"vetro_{prefix}")),
        *(line for line in (*mounts, *loops) for path in paths if f"{path}/" in line),
    ]


def test_what_belongs_to_the_directory_of_a_dead_run_goes(
    leftovers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes, mounts, loop devices, interfaces and tables, and the directory; another run's stay."""
    monkeypatch.setattr(leftovers, "PLACES", (tmp_path,))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = tmp_path / "vetro-run.dead"
    node = dead / "tmp" / "data" / "node"
    (node / "vms" / str(uuid.uuid4())).mkdir(parents=True)
    label = hashlib.sha256(str(node / "vms").encode()).hexdigest()[:8]
    runtime = left_by_a_vetro(node, "tdea", label)
    do("mkdir", dead / "mounted")
    do("mount", "-t", "tmpfs", "left", dead / "mounted")
    do("truncate", "--size", "1M", dead / "disk")
    do("losetup", "--find", dead / "disk")
    process = subprocess.Popen(["sleep", "1000"], cwd=dead)
    assert len(seen("tdea", dead, runtime)) == 6
    with leftovers.run_directory(needed=0) as alive:
        assert not dead.exists()
        assert not runtime.exists()
        until(lambda: seen("tdea", dead, runtime) == [], "nothing of the dead run is seen")
        assert process.wait(30) == -9
        assert [alive] == [one for one in tmp_path.iterdir() if one.name.startswith("vetro-run.")]
        assert leftovers.sweep() == []
        assert alive.is_dir()
    assert not alive.exists()


def test_a_vetro_whose_data_directory_is_gone_is_swept(
    leftovers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that were started without `make` leave no directory of a run; one with its data stays."""
    monkeypatch.setattr(leftovers, "PLACES", (tmp_path,))
    node = tmp_path / "node"
    node.mkdir()
    runtime = left_by_a_vetro(node, "tgon", "0123abcd")
    leftovers.sweep()
    assert len(seen("tgon", runtime)) == 4
    node.rmdir()
    leftovers.sweep()
    assert seen("tgon", runtime) == []
    assert not runtime.exists()
