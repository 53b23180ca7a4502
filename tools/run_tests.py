"""Runs the tests of a tier: `make test` and `make test-all` call it (decision 0788).

    run_tests.py quick [--keep-budget]     what decides whether this tree is right on this machine
    run_tests.py all [SUITE...]            everything, by suites; what passed is kept in tests/passed.json
    run_tests.py unproven SECONDS          of the unproven suites those that end in time, the rest by name
    run_tests.py list                      the suites, and which are proven
    run_tests.py openstack                 the tests against a real OpenStack, of tools/with-openstack.sh

A test that fails is not tried again. In CI (`CI=true`) a skipped test is a failure: a machine that cannot run
a test must not look as if the test had passed. At the end of a run stand a table of what each directory
took, and the programs of the machine that no package of set-up brings.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import budgets
import leftovers
import machine_programs
import suites

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.times import loop  # noqa: E402 - what tests time themselves with

#: Five for two cores: with four, one had nothing to do a sixth of the time, while tests waited for browsers.
WORKERS = ("-n", "5", "--dist", "worksteal")
#: Tests marked `root`: each worker has a network, mounts and processes of its own (decision 0783).
NAMESPACES = ("--tx", "2*popen//python=tools/python-in-namespaces", "--dist", "worksteal")
#: For the tests that were interrupted to end what they started; then they are killed.
ENDING_SECONDS = 60
#: What a suite takes beside another run on two cores, against what it takes on quiet ones.
CROWDED = 2.0


def pytest(run: Path, marks: str, *arguments: str, tier: str) -> Running:
    """Start pytest on the tests with ``marks``, below the directory ``run``."""
    base = tempfile.mkdtemp(prefix="t", dir=run)
    command = [sys.executable, "-m", "pytest", "-m", marks, "-rs", f"--basetemp={base}", *arguments]
    environ = {**os.environ, "VETRO_TEST_TIER": tier, "VETRO_TEST_RECORDS": str(run)}
    # What is compiled is kept: each process would do it again, for test modules alone 7 s of processor time.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return Running(command, environ)


class Running:
    """A command that runs, and what it has printed."""

    def __init__(self, command: list[str], environ: dict[str, str], *, chain: bool = False) -> None:
        #: Whether it waits for another program, which must be interrupted too, as by a terminal (`make`).
        self.chain = chain
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # who presses Ctrl-C interrupts it once, and not its servers
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                self._lines.put(line)
        self._lines.put(None)

    def show(self) -> tuple[int, str]:
        """Print what it printed and prints, until its end; its exit code and all of it."""
        lines: list[str] = []
        while (line := self._lines.get()) is not None:
            print(line, end="", flush=True)
            lines.append(line)
        return self.process.wait(), "".join(lines)

    def interrupt(self) -> None:
        """Do what Ctrl-C does: end it, and what it has started with it."""
        with contextlib.suppress(ProcessLookupError):
            if self.chain:
                os.killpg(self.process.pid, signal.SIGINT)
            else:
                self.process.send_signal(signal.SIGINT)


def shown(*started: Running) -> list[tuple[int, str]]:
    """Show commands that run side by side, one after the other; what each returned and printed."""
    try:
        return [each.show() for each in started]
    except KeyboardInterrupt:
        print("Interrupted: the tests that run are ended.", flush=True)
        for each in started:
            each.interrupt()
        for each in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(ENDING_SECONDS)
        raise


def quick(run: Path, keep_budget: bool) -> int:
    """The tier of `make test`."""
    # Side by side: each of the two waits for machines, browsers and clocks a fifth of its time.
    started = [pytest(run, "not root and not openstack", *WORKERS, tier="quick")]
    if os.geteuid() == 0:
        started.append(pytest(run, "root and not openstack", *NAMESPACES, tier="quick"))
    else:
        print("Not root: the tests that need containers and networks are left out.")
    outcomes = shown(*started)
    return int(not judged("quick", outcomes, run, keep_budget))


def judged(name: str, outcomes: list[tuple[int, str]], run: Path, keep_budget: bool) -> bool:
    """Print what a run took and whether it holds: tests, skips, programs of the machine, budget."""
    took = budgets.spent(run)
    print(*budgets.table(name, took, budgets.left_over(run)), sep="\n", flush=True)
    red = failed(outcomes)
    found = machine_programs.recorded(run)
    if shutil.which("dpkg-query") and (problems := machine_programs.problems(found)):
        print("Programs of the machine:", *problems, sep="\n  ")
        red = True
    if keep_budget and not red:
        budgets.write(name, took)
    elif os.geteuid() == 0 and (grown := budgets.grown(name, took)):
        print(*grown, sep="\n")
        red = True
    return not red


def failed(outcomes: list[tuple[int, str]]) -> bool:
    """Whether a test failed, or in CI was skipped."""
    skipped = sum(int(n) for _, text in outcomes for n in re.findall(r"(\d+) skipped", text))
    if skipped and os.environ.get("CI") == "true":
        print(f"{skipped} tests were skipped: in CI that is a failure (the reasons stand above).")
        return True
    return any(code != 0 for code, _ in outcomes)


def run_suite(run: Path, suite: suites.Suite, known: suites.Standing) -> bool:
    """Run one suite at full effort and keep it when it passes; whether it did."""
    print(f"\n== {suite.name}: {suite.subject}", flush=True)
    before, began = suites.digest(suite), time.monotonic()
    if suite.command:
        [outcome] = shown(Running([*suite.command], {**os.environ}, chain=True))
        passed = outcome[0] == 0
    else:
        records = Path(tempfile.mkdtemp(prefix="s", dir=run))
        workers = NAMESPACES if suite.root else WORKERS
        [outcome] = shown(pytest(records, suite.marks, *workers, *suite.selection(), tier="full"))
        passed = judged(suite.name, [outcome], records, keep_budget=False)
    seconds = time.monotonic() - began
    skipped = re.search(r"(\d+) skipped", outcome[1])
    summary = re.findall(r"^=*\s*(\d+ passed.*?) in [\d.]+s", outcome[1], re.M)
    if passed and skipped:
        print(f"{suite.name}: passed, and is not proven: {skipped[0]}")
    elif passed:
        known.keep(suite, before, seconds, summary[-1] if summary else "passed")
    print(f"{suite.name}: {'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
    return passed


def run_all(run: Path, names: list[str]) -> int:
    """Run these suites, or all; 1 when one failed."""
    known = suites.standing()
    unknown = [name for name in names if name not in known.suites]
    if unknown:
        print(f"There is no suite {unknown[0]}; suites: {', '.join(known.suites)}")
        return 2
    chosen = [known.suites[name] for name in names or known.suites]
    broken = [suite.name for suite in chosen if not run_suite(run, suite, known)]
    if broken:
        print("Failed:", ", ".join(broken))
    print("Unproven:", ", ".join(suite.name for suite in known.unproven()) or "none")
    return int(bool(broken))


def run_unproven(run: Path, seconds: float) -> int:
    """Run unproven suites for at most about so long, longest unproven first; 1 when one failed.

    ``seconds`` are those of a quiet host of the usual speed; a slower one gets as much more, at most twice.
    """
    known = suites.standing()
    slow = min(max(loop() / budgets.LOOP_SECONDS, 1.0), 2.0)
    began, broken, waiting = time.monotonic(), list[str](), list[str]()
    for suite in known.unproven():
        rest = slow * seconds - (time.monotonic() - began)
        if slow * CROWDED * known.seconds(suite) > rest:
            waiting.append(suite.name)
        elif not run_suite(run, suite, known):
            broken.append(suite.name)
    print("Unproven, and left to `make test-all`:", ", ".join(waiting) or "none")
    if broken:
        print("Failed:", ", ".join(broken))
    return int(bool(broken))


def list_suites() -> int:
    """Print each suite, and whether it is proven."""
    known = suites.standing()
    unproven = {suite.name for suite in known.unproven()}
    for name, suite in known.suites.items():
        last = known.passed.get(name)
        state = "unproven" if name in unproven else "proven"
        when = f"{last.day}, {last.seconds:.0f} s, {last.result}" if last else "never passed"
        print(f"{name:16} {state:9} {when:40} {suite.subject}")
    return 0


def main(arguments: list[str]) -> int:
    if arguments == ["list"]:
        return list_suites()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with leftovers.run_directory() as run:
        os.environ["TMPDIR"] = str(run / "tmp")
        match arguments:
            case ["quick", *options]:
                return quick(run, "--keep-budget" in options)
            case ["all", *names]:
                return run_all(run, names)
            case ["unproven", seconds]:
                return run_unproven(run, float(seconds))
            case ["openstack"]:
                where = ("-n", "0", "tests/openstack", "tests/identity")
                return int(failed(shown(pytest(run, "openstack", *where, tier="full"))))
            case _:
                print(__doc__)
                return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
