"""The dashboard's own unit tests, which are TypeScript."""

import subprocess
import sys
from pathlib import Path

import pytest

DASHBOARD = Path(__file__).resolve().parents[2] / "dashboard"


@pytest.mark.programs
def test_the_units_of_the_dashboard() -> None:
    """Graphs of models, files of results and times behave as their tests say (``*.test.ts``)."""
    runner = DASHBOARD / "node_modules/vitest/vitest.mjs"
    if not runner.exists():
        pytest.skip("the npm packages are not installed: make dashboard")
    node = Path(sys.executable).with_name("node")
    done = subprocess.run(
        [node, runner, "run"], cwd=DASHBOARD, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
