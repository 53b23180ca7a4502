"""Runs every test: those that change networks and containers last, in namespaces of their own.

`make test` starts it. In CI (`CI=true`) a skipped test is a failure: a machine that cannot run a
test must not look as if the test had passed. `run_tests.py machine` runs the tests that use programs
of the machine, `run_tests.py rest` the others: CI runs the first in a new Debian (`make fresh`). At the
end the programs that were started are compared with the packages that set-up installs.
`run_tests.py openstack` runs the tests against a real OpenStack (tools/with-openstack.sh starts it).

Up to three tests that fail are run a second time, alone, when the others have ended; one that passes then is
reported as UNSTABLE and does not fail the run: decision 0477.
"""

from __future__ import annotations

import json
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
#: Two workers, each with networks, mounts, control groups and processes of its own (decision 0783).
APART = ["--tx", "2*popen//python=tools/python-in-namespaces"]
#: More failures than these are no accident: nothing is run again.
SECOND_TRIES = 3


def run(marker: str, *arguments: str) -> tuple[int, str]:
    """Run pytest on the tests with ``marker``, and what failed once more; show and return what it printed."""
    with tempfile.TemporaryDirectory(prefix="vetro-failures.") as directory:
        remember = ["-o", f"cache_dir={directory}"]
        code, text = pytest(marker, *remember, *arguments)
        names = last_failed(Path(directory))
        if code != 1 or not 0 < len(names) <= SECOND_TRIES:
            return code, text
        print("A second time, alone:", *names, sep="\n  ", flush=True)
        again, more = pytest(marker, *remember, "-n", "0", *names)
        if again == 0:
            print("UNSTABLE, passed the second time; find the cause:", *names, sep="\n  ")
        return again, text + more


def last_failed(cache: Path) -> list[str]:
    """The tests that failed in the run that had this cache directory."""
    found = cache / "v/cache/lastfailed"
    return sorted(json.loads(found.read_text(encoding="utf-8"))) if found.exists() else []


def pytest(marker: str, *arguments: str) -> tuple[int, str]:
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
        if part == "openstack":
            return int(failed([run("openstack", "-n", "0", "tests/openstack", "tests/identity")]))
        outcomes = [run(PARALLEL[part], "-n", "2", "--dist", "worksteal")]
        if part == "rest":
            print("The tests that use programs of the machine are left to `make fresh`.")
        elif os.geteuid() == 0:
            outcomes.append(run(ALONE, *APART, "--dist", "worksteal"))
        else:
            print("Not root: the tests that need containers and networks are left out.")
        records = machine_programs.recorded(Path(directory))
    red = failed(outcomes)
    if shutil.which("dpkg-query") and (problems := machine_programs.problems(records)):
        print("Programs of the machine:", *problems, sep="\n  ")
        red = True
    return int(red)


def failed(outcomes: list[tuple[int, str]]) -> bool:
    """Whether a test failed, or in CI was skipped."""
    skipped = sum(int(n) for _, text in outcomes for n in re.findall(r"(\d+) skipped", text))
    if skipped and os.environ.get("CI") == "true":
        print(f"{skipped} tests were skipped: in CI that is a failure (the reasons stand above).")
        return True
    return any(code != 0 for code, _ in outcomes)


if __name__ == "__main__":
    sys.exit(main())
