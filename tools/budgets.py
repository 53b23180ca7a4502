"""The budget of a run: processor seconds by directory, compared with `tests/budgets.json`.

Seconds are those of a host where the fixed work of `tests/times.py` takes `LOOP_SECONDS`: what a run took is
divided by what that work took during it. A run that is more than a fifth over its budget fails, and the files
that grew are named. `limit` is what all budgets of a run may add up to: who raises one lowers another
(decision 0788).
"""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "tests/budgets.json"
#: What the fixed work takes on the host that budgets are written for, in processor seconds.
LOOP_SECONDS = 0.04
MAY_GROW = 1.2
SHOWN = 12


@dataclass(frozen=True)
class Spent:
    """What a run took: ``files`` in processor seconds of the common host, its ``tests``, the ``loop``."""

    files: dict[str, float]
    tests: dict[str, int]
    loop: float

    @property
    def total(self) -> float:
        """Processor seconds of the common host, of all files."""
        return sum(self.files.values())


def spent(records: Path) -> Spent:
    """Read what the processes of a run recorded."""
    seconds: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    loops: list[float] = []
    for path in sorted(records.glob("seconds.*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if "loop" in record:
                loops.append(record["loop"])
            else:
                file = record["test"].partition("::")[0]
                seconds[file] += record["seconds"]
                tests[file] += 1
    loop = statistics.median(loops) if loops else LOOP_SECONDS
    host = LOOP_SECONDS / loop
    return Spent({file: round(used * host, 2) for file, used in seconds.items()}, tests, loop)


def directory_of(file: str) -> str:
    """The directory below `tests` that a file is of."""
    parts = file.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def by_directory(files: dict[str, float]) -> dict[str, float]:
    """Sums by directory below `tests`."""
    sums: dict[str, float] = defaultdict(float)
    for file, value in files.items():
        sums[directory_of(file)] += value
    return dict(sorted(sums.items()))


def read(run: str) -> tuple[float, dict[str, float]]:
    """The limit of a run and its budget by file; no limit and no budget for a run that has none yet."""
    if not BUDGETS.exists():
        return 0.0, {}
    row = json.loads(BUDGETS.read_text(encoding="utf-8")).get(run, {"limit": 0.0, "files": {}})
    return row["limit"], row["files"]


def write(run: str, took: Spent) -> None:
    """Make what a run took its budget. The limit stays, and grows only where there was none."""
    rows = json.loads(BUDGETS.read_text(encoding="utf-8")) if BUDGETS.exists() else {}
    files = {file: value for file, value in sorted(took.files.items()) if value >= 0.1}
    limit = rows.get(run, {}).get("limit") or round(sum(files.values()) * 1.05)
    rows[run] = {"limit": limit, "files": files}
    BUDGETS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table(run: str, took: Spent, left: dict[str, int]) -> list[str]:
    """The lines of the table: what each directory took, its budget, and the tests left to `make test-all`."""
    _, budget = read(run)
    now, planned = by_directory(took.files), by_directory(budget)
    ran: Counter[str] = Counter()
    for file, number in took.tests.items():
        ran[directory_of(file)] += number
    lines = [
        f"{'directory':24} {'tests':>6} {'left to test-all':>17} {'processor s':>12} {'budget':>8}"
    ]
    for name in sorted({*now, *left}):
        lines.append(
            f"{name:24} {ran[name]:6} {left.get(name, 0):17}"
            f" {now.get(name, 0.0):12.1f} {planned.get(name, 0.0):8.1f}"
        )
    lines.append(
        f"{'all':24} {sum(ran.values()):6} {sum(left.values()):17}"
        f" {took.total:12.1f} {sum(planned.values()):8.1f}"
    )
    lines.append(
        f"The fixed work took {1000 * took.loop:.0f} ms of processor time here;"
        f" the seconds above are those of a host where it takes {1000 * LOOP_SECONDS:.0f} ms."
    )
    return lines


def grown(run: str, took: Spent) -> list[str]:
    """What to say of a run that is more than a fifth over its budget; nothing of another."""
    _, budget = read(run)
    planned = sum(budget.values())
    if not budget or took.total <= MAY_GROW * planned:
        return []
    more = Counter({file: used - budget.get(file, 0.0) for file, used in took.files.items()})
    return [
        f"'{run}' took {took.total:.0f} processor seconds; its budget in tests/budgets.json is {planned:.0f}."
        " Make these files cheaper, or leave some of their tests to `make test-all` (marker `thorough`):",
        *(
            f"  {file}: {took.files[file]:.1f} s, budget {budget.get(file, 0.0):.1f} s"
            for file, _ in more.most_common(SHOWN)
        ),
    ]


def left_over(records: Path) -> dict[str, int]:
    """How many tests of each directory a run left out."""
    file = records / "left.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def sums_within_limits() -> Iterable[str]:
    """A line for each run whose budgets add up to more than its limit."""
    for run in json.loads(BUDGETS.read_text(encoding="utf-8")):
        limit, files = read(run)
        if sum(files.values()) > limit:
            yield f"{run}: the budgets add up to {sum(files.values()):.0f}, its limit is {limit:.0f}"
