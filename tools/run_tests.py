"""Runs every test: first side by side, then those that change networks and containers here.

`make test` starts it. In CI (`CI=true`) a skipped test is a failure: a machine that cannot run a
test must not look as if the test had passed. `run_tests.py machine` runs the tests that use programs
of the machine, `run_tests.py rest` the others: CI runs the first in a new Debian (`make fresh`). At the
end the programs that were started are compared with the packages that set-up installs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import machine_programs

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = {
    "all": "not root and not openstack",
    "machine": "not root and not openstack and (programs or e2e)",
    "rest": "not root and not openstack and not programs and not e2e",
}
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
    part = sys.argv[1] if len(sys.argv) > 1 else "all"
    with tempfile.TemporaryDirectory(prefix="vetro-programs.") as directory:
        os.environ["VETRO_TEST_PROGRAMS"] = directory
        outcomes = [run(PARALLEL[part], "-n", "2", "--dist", "worksteal")]
        if part == "rest":
            print("The tests that use programs of the machine are left to `make fresh`.")
        elif os.geteuid() == 0:
            outcomes.append(run(ALONE, "-n", "0"))
        else:
            print("Not root: the tests that need containers and networks are left out.")
        records = machine_programs.recorded(Path(directory))
    failed = any(code != 0 for code, _ in outcomes)
    if shutil.which("dpkg-query") and (problems := machine_programs.problems(records)):
        print("Programs of the machine:", *problems, sep="\n  ")
        failed = True
    skipped = sum(int(n) for _, text in outcomes for n in re.findall(r"(\d+) skipped", text))
    if skipped and os.environ.get("CI") == "true":
        print(f"{skipped} tests were skipped: in CI that is a failure (the reasons stand above).")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
