"""One ``vetro up`` (without machines) for the tests of a module, and its package."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.service.shop import CLASSES, FORM, MANIFEST, Service

VETRO = str(Path(sys.executable).with_name("vetro"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all tests of the module."""
    directory = tmp_path_factory.mktemp("client")
    environ = {
        "VETRO_DATA_DIR": str(directory / "data"),
        "XDG_STATE_HOME": str(directory / "state"),
        "VETRO_NODE_ENABLED": "false",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    process = subprocess.Popen(
        [VETRO, "up", "--port", "0", "--driver", "simulated"],
        env={**inherited, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    made = Service(directory, process, environ=environ)
    begun = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            made.lines.append(line)
            if line.startswith("  instances"):
                begun.set()
        begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert begun.wait(120)
        assert process.poll() is None, "".join(made.lines)
        yield made
    finally:
        process.terminate()
        process.wait(60)
        reader.join(60)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def service(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service; commands find it by the files in its data directory."""
    for name in [key for key in os.environ if key.startswith(("OS_", "VETRO_U", "VETRO_T"))]:
        monkeypatch.delenv(name)
    for name, value in running.environ.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Make the package's directory."""

    def make(version: str = "1.0.0", form: str = FORM) -> Path:
        root = tmp_path / f"shop-{version}"
        for name, text in {
            "manifest.yaml": MANIFEST.replace("VERSION", version),
            "Classes/Shop.yaml": CLASSES,
            "UI/ui.yaml": form,
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    return make


@pytest.fixture
def shop(service: Service, package: Callable[..., Path]) -> Iterator[Service]:
    """The service with the package in its catalog."""
    service.ok("package", "import", package(), "--exists-action", "skip")
    yield service
    for row in service.json("package", "list"):
        service.ok("package", "delete", "--yes", row["id"])
