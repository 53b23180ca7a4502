"""A project for the tests of a module, and its package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.service.shop import CLASSES, FORM, MANIFEST
from tests.cli.serving import Service


@pytest.fixture(scope="module")
def running(without_machines: Service, request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service, with a project for all tests of the module."""
    with without_machines.project(Path(request.path).stem) as made:
        yield made


@pytest.fixture
def service(running: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service; commands find it by the files in its data directory."""
    running.reach(monkeypatch)
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
