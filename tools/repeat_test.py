"""`make repeat TEST=... TIMES=50`: how often a test fails on a busy machine, and how it failed first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import leftovers

ROOT = Path(__file__).resolve().parent.parent
LOAD = ["stress", "--quiet", "-c", "2"]


def main() -> int:
    test, times = sys.argv[1], int(sys.argv[2])
    if not test:
        sys.exit("TEST is missing: make repeat TEST=tests/http/test_face.py TIMES=50")
    if shutil.which(LOAD[0]) is None:
        sys.exit(
            "`stress` is not installed: apt-get install stress (tools/system-packages.sh test)"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    failures: list[str] = []
    with leftovers.run_directory(1 << 30) as directory, subprocess.Popen(LOAD) as load:
        try:
            for number in range(1, times + 1):
                temporary = directory / "t"
                command = [
                    *(sys.executable, "-m", "pytest", "-n", "0"),
                    f"--basetemp={temporary}",
                    test,
                ]
                environ = {**os.environ, "TMPDIR": str(directory / "tmp")}
                done = subprocess.run(
                    command, cwd=ROOT, env=environ, capture_output=True, text=True
                )
                if done.returncode > 1:  # no such test, or it cannot be collected
                    sys.exit(done.stdout + done.stderr)
                if done.returncode:
                    failures.append(done.stdout + done.stderr)
                print(f"{number} of {times}: {len(failures)} failed", flush=True)
        finally:
            load.terminate()
    if failures:
        print("The first failure:", failures[0], sep="\n")
    print(f"{test}: {len(failures)} of {times} failed beside `{' '.join(LOAD)}`")
    return int(bool(failures))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
