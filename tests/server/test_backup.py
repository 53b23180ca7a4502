"""docs/operating.md, followed: a backup of a running service is restored elsewhere."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Installation = Any  # the fixtures of conftest.py
ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def commands(heading: str) -> list[str]:
    """The shell blocks of a section of the page."""
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.M | re.S)


def test_a_backup_of_a_running_service_is_restored_elsewhere(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    """The page's own commands: environments, packages and the administrator's login are there again."""
    first = install("first", driver="simulated")
    first.run("package", "import", str(ROOT / "library/ApacheHttpServer"))
    first.run("env", "create", "web")
    back_up, restore = commands("Backup and restore")
    where = {"BACKUP": str(tmp_path / "backup"), "VETRO_DATA_DIR": str(first.directory)}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["bash", "-euo", "pipefail", "-c"]
    subprocess.run([*shell, back_up], env={**os.environ, **where, "PATH": path}, check=True)
    first.stop()
    where["VETRO_DATA_DIR"] = str(tmp_path / "second")
    subprocess.run([*shell, restore], env={**os.environ, **where, "PATH": path}, check=True)
    second = install("second", driver="simulated")
    assert [row["name"] for row in second.json("env", "list")] == ["web"]
    [package] = second.json("package", "list")
    second.run("package", "download", package["id"], str(tmp_path / "again.zip"))
    assert second.open_to_others() == []
