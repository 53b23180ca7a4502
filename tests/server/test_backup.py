"""Databases that are restored from a backup, as docs/operating.md says, and databases that are gone."""

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
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
    """The page's commands restore environments, packages and the administrator's login."""
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


def test_a_database_that_is_gone_is_noticed(install: Callable[..., Installation]) -> None:
    """A service whose file was deleted is not ready and says why; a restart is refused."""
    vetro = install("lost", driver="simulated")
    (vetro.directory / "vetro.db").unlink()
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{vetro.url}/readyz", timeout=240)
    assert caught.value.code == 503
    assert "was deleted or replaced" in caught.value.read().decode()
    vetro.stop()
    text = vetro.run("up", "--port", str(vetro.port), "--driver", "simulated", code=1)
    assert "is gone, and the rest of the installation is there" in text
    assert not (vetro.directory / "vetro.db").exists()
