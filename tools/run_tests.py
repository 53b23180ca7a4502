"""Runs every test: first side by side, then those that change networks and containers here.

`make test` starts it. In CI (`CI=true`) a skipped test is a failure: a machine that cannot run a
test must not look as if the test had passed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = "not root"
ALONE = "root"


def run(marker: str, *arguments: str) -> tuple[int, str]:
    """Run pytest on the tests with ``marker``; show and return what it printed."""
    command = [sys.executable, "-m", "pytest", "-m", marker, "-rs", "--durations=8", *arguments]
    process = subprocess.Popen(  # the output is shown while it comes
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return process.wait(), "".join(lines)


def main() -> int:
    outcomes = [run(PARALLEL, "-n", "2", "--dist", "worksteal")]
    if os.geteuid() == 0:
        outcomes.append(run(ALONE, "-n", "0"))
    else:
        print("Not root: the tests that need containers and networks are left out.")
    failed = any(code != 0 for code, _ in outcomes)
    skipped = sum(int(n) for _, text in outcomes for n in re.findall(r"(\d+) skipped", text))
    if skipped and os.environ.get("CI") == "true":
        print(f"{skipped} tests were skipped: in CI that is a failure (the reasons stand above).")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
