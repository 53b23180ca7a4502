"""Quotas as users meet them: a deployment that needs more than its project may have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import Installation

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.e2e
def test_a_deployment_that_meets_a_quota_says_which(project: Installation, tmp_path: Path) -> None:
    """It fails with the resource and the numbers, leaves nothing, and deploys when there is room."""
    empty = tmp_path / "empty.tar"
    subprocess.run(["tar", "--create", "--file", empty, "--files-from", "/dev/null"], check=True)
    project.run("image", "import", "empty", str(empty))
    project.run("package", "import", str(ROOT / "library/HelloScript"))
    project.run("quota", "set", project.environ["OS_PROJECT_NAME"], "--instances", "1")
    for name in ("one", "two"):
        project.run("env", "create", name)
        script = f"#!/bin/sh\necho made {name}\n"
        project.run(
            *("env", "add", name, "HelloScript", "--name", "s"),
            *("--set", "image=empty", "--set", f"script={script}"),
        )
    assert "The script printed: made one" in project.run("env", "deploy", "one")
    text = project.run("env", "deploy", "two", code=1)
    assert "Quota exceeded for instances: 1 of 1 used, 1 more requested" in text
    assert project.status("two") == "deploy failure"
    assert len(project.json("vm", "list")) == 1
    project.run("env", "destroy", "--yes", "one")
    assert "The script printed: made two" in project.run("env", "deploy", "two")
    project.run("env", "destroy", "--yes", "two")
