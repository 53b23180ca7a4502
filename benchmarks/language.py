"""The language programs against plain Python, measured in one run (part of `make bench`).

Each language program runs in a process of its own, then its plain Python twin; only equal digests
count. The programs are looked for beside the checkout (`../shared/bench`) or in `VETRO_BENCH`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SET = Path(os.environ.get("VETRO_BENCH") or ROOT.parent / "shared/bench")
PROGRAMS = [
    ("a_loop", 50_000, "a_loop", 4.0),
    ("b_fib", 22, "b_fib", 6.0),
    ("c_queries", 6000, "c_queries", 4.0),
    ("e_objects", 2000, "e_objects_checked", 5.0),
    ("f_model", 1000, "f_model", 8.0),
]


def run(*arguments: str) -> dict[str, Any]:
    """Run a program of ours; the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return value


def main() -> int:
    """Print the table; 1 when a digest differs."""
    if not (SET / "programs").is_dir():
        print(f"No benchmark programs at {SET}; set VETRO_BENCH to their directory.")
        return 1
    print(f"{'program':<12}{'n':>8}{'ours, s':>12}{'plain, s':>12}{'ratio':>9}{'limit':>8}")
    ratios: list[float] = []
    wrong = False
    for program, n, twin, limit in PROGRAMS:
        ours = run(
            "benchmarks/run_program.py", "--programs", str(SET / "programs"), program, str(n)
        )
        plain = run(str(SET / "plain_python.py"), twin, str(n))
        same = ours["result_digest"] == plain["result_digest"]
        wrong = wrong or not same
        ratio = ours["cpu_seconds"] / plain["seconds"]
        ratios.append(ratio)
        note = "" if same else "  DIGESTS DIFFER"
        print(
            f"{program:<12}{n:>8}{ours['cpu_seconds']:>12.4f}{plain['seconds']:>12.4f}"
            f"{ratio:>9.2f}{limit:>8.1f}{note}"
        )
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    print(f"geometric mean {mean:.2f} (limit 5)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
