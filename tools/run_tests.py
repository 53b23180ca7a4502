"""Runs every test: first side by side, then those that change networks and containers here.

`make test` starts it. In CI (`CI=true`) a skipped test is a failure: a machine that cannot run a
test must not look as if the test had passed. `run_tests.py machine` runs the tests that use programs
of the machine, `run_tests.py rest` the others: CI runs the first in a new Debian (`make fresh`). At the
end the programs that were started are compared with the packages that set-up installs.
`run_tests.py openstack` runs the tests against a real OpenStack (tools/with-openstack.sh starts it).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import leftovers
import machine_programs

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = {
    "all": "not root and not openstack",
    "machine": "not root and not openstack and (programs or e2e)",
    "rest": "not root and not openstack and not programs and not e2e",
}
ALONE = "root"
#: For the tests that were interrupted to end what they started; then it is killed.
ENDING_SECONDS = 60


def run(directory: Path, marker: str, *arguments: str) -> tuple[int, str]:
    """Run pytest on the tests with ``marker``, below ``directory``; show and return what it printed."""
    temporary = tempfile.mkdtemp(prefix="t", dir=directory)
    command = [
        *(sys.executable, "-m", "pytest", "-m", marker, "-rs", "--durations=8"),
        *(f"--basetemp={temporary}", *arguments),
    ]
    process = subprocess.Popen(  # the output is shown while it comes
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,  # who presses Ctrl-C interrupts it once, and not its servers
    )  # fmt: skip
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        return process.wait(), "".join(lines)
    except KeyboardInterrupt:
        print("Interrupted: the tests that run are ended.", flush=True)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            print(process.communicate(timeout=ENDING_SECONDS)[0], end="")
        raise


def main() -> int:
    part = sys.argv[1] if len(sys.argv) > 1 else "all"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with leftovers.run_directory() as directory:
        os.environ["TMPDIR"] = str(directory / "tmp")
        programs = directory / "programs"
        programs.mkdir()
        os.environ["VETRO_TEST_PROGRAMS"] = str(programs)
        if part == "openstack":
            places = ("tests/openstack", "tests/identity")
            return int(failed([run(directory, "openstack", "-n", "0", *places)]))
        outcomes = [run(directory, PARALLEL[part], "-n", "2", "--dist", "worksteal")]
        if part == "rest":
            print("The tests that use programs of the machine are left to `make fresh`.")
        elif os.geteuid() == 0:
            outcomes.append(run(directory, ALONE, "-n", "0"))
        else:
            print("Not root: the tests that need containers and networks are left out.")
        records = machine_programs.recorded(programs)
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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
