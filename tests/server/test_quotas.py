"""Quotas as users meet them: a deployment that needs more than its project may have."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_deployment_that_meets_a_quota_says_which(
    install: Callable[..., Any], tmp_path: Path
) -> None:
    """It fails with the resource and the numbers, leaves nothing, and deploys when there is room."""
    vetro = install("quotas", driver="process")
    empty = tmp_path / "empty.tar"
    subprocess.run(["tar", "--create", "--file", empty, "--files-from", "/dev/null"], check=True)
    vetro.run("image", "import", "empty", str(empty))
    vetro.run("package", "import", str(ROOT / "library/HelloScript"))
    vetro.run("quota", "set", "admin", "--instances", "1")
    for name in ("one", "two"):
        vetro.run("env", "create", name)
        script = f"#!/bin/sh\necho made {name}\n"
        vetro.run(
            *("env", "add", name, "HelloScript", "--name", "s"),
            *("--set", "image=empty", "--set", f"script={script}"),
        )
    assert "The script printed: made one" in vetro.run("env", "deploy", "one")
    text = vetro.run("env", "deploy", "two", code=1)
    assert "Quota exceeded for instances: 1 of 1 used, 1 more requested" in text
    assert vetro.status("two") == "deploy failure"
    assert len(vetro.json("vm", "list")) == 1
    vetro.run("env", "destroy", "--yes", "one")
    assert "The script printed: made two" in vetro.run("env", "deploy", "two")
    vetro.run("env", "destroy", "--yes", "two")
    vetro.stop()
