"""What the tests of each room cover of it, in lines and branches; `make coverage` calls it.

`measure_coverage.py [--write] [ROOM…]` runs the tests of each room (all rooms of docs/coverage.md when none
is named) and compares with that page. A figure that fell by more than `NOISE` fails; `--write` publishes
the new figures.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/coverage.md"
#: Points by which runs differ: which of two tasks comes first is not the same each time.
NOISE = 2.0
MARKS = "not root and not e2e and not programs and not postgres and not rabbitmq and not s3 and not openstack"
SETTINGS = "[run]\nbranch = true\nconcurrency = greenlet,thread\ndisable_warnings = no-sysmon\n"

HEAD = """# Coverage

Written by `make coverage WRITE=1`; `make coverage` fails when a figure is more than two points lower than
here, CI runs it ([decision 0245](decisions/0245-coverage-of-rooms.md)).

The tests of a room are measured against that room alone: what tests of other rooms reach on their way does
not count, nor do tests that need root, containers, PostgreSQL, RabbitMQ or whole processes. Rooms that are
tested by such tests for the most part are not in the table.

| room | lines, % | branches, % |
|---|---|---|
"""
ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", re.M)
Figures = dict[str, tuple[float, float]]


def published() -> Figures:
    """The figures of the page."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    return {room: (float(lines), float(branches)) for room, lines, branches in ROW.findall(text)}


def measure(room: str, directory: Path) -> tuple[float, float] | None:
    """Percent of a room's lines and branches that its tests execute; ``None`` when a test fails."""
    settings, data = directory / "settings", directory / f"{room}.data"
    settings.write_text(SETTINGS, encoding="utf-8")
    coverage = [sys.executable, "-m", "coverage"]
    files = [f"--rcfile={settings}", f"--data-file={data}"]
    tests = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        MARKS,
        str(ROOT / "tests" / room),
    ]
    run = [*coverage, "run", *files, f"--source={ROOT / 'src/vetro' / room}", *tests]
    # The generated examples are the same in every run. A test that fails once is left to `make test`.
    examples = {**os.environ, "CI": "true"}
    if all(subprocess.run(run, cwd=ROOT, env=examples, check=False).returncode for _ in range(2)):
        return None
    report = directory / f"{room}.json"
    subprocess.run([*coverage, "json", "-q", *files, "-o", str(report)], cwd=ROOT, check=True)
    totals = json.loads(report.read_text(encoding="utf-8"))["totals"]
    lines = totals["covered_lines"] / totals["num_statements"]
    branches = totals["covered_branches"] / totals["num_branches"]
    return round(100 * lines, 1), round(100 * branches, 1)


def fallen(room: str, now: tuple[float, float], before: tuple[float, float]) -> list[str]:
    """What to say of figures that are lower than the published ones."""
    return [
        f"{room}: {figure} % of its {what} are covered, {limit} % are published in docs/coverage.md"
        for what, figure, limit in zip(("lines", "branches"), now, before, strict=True)
        if figure < limit - NOISE
    ]


def main(arguments: list[str]) -> int:
    """Measure, then compare or publish; 1 when a test failed or a figure fell."""
    write = "--write" in arguments
    known = published()
    problems: list[str] = []
    measured: Figures = {}
    with tempfile.TemporaryDirectory(prefix="vetro-coverage.") as directory:
        for room in [one for one in arguments if one != "--write"] or sorted(known):
            figures = measure(room, Path(directory))
            if figures is None:
                problems.append(f"{room}: its tests fail")
                continue
            print(
                f"{room}: {figures[0]} % of the lines, {figures[1]} % of the branches", flush=True
            )
            measured[room] = figures
            if not write:
                problems += fallen(room, figures, known.get(room, (0.0, 0.0)))
    if write and not problems:
        rows = sorted({**known, **measured}.items())
        table = "".join(
            f"| `{room}` | {lines} | {branches} |\n" for room, (lines, branches) in rows
        )
        PAGE.write_text(HEAD + table, encoding="utf-8")
    for one in problems:
        print(one)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
