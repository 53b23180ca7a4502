"""The language programs against plain Python, measured in one run (part of `make bench`).

Each program runs in a process of its own, then its plain Python twin; only equal digests count.
For each of three sizes: processor time of the first run in a process (cold) and of the second
(warm), their ratios to plain Python, and the time to load and compile the classes. After that come
the figures of the language itself: start, compiling, a model of 10,000 objects, sleeping threads,
depth of calls, the price of the guards.

The first five programs are looked for beside the checkout (`../shared/bench`) or in `VETRO_BENCH`;
the others, stand-ins for the kinds of program a package holds, are in `benchmarks/programs`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from limits import Published

PUBLISHED = Published()
ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
SET = Path(os.environ.get("VETRO_BENCH") or ROOT.parent / "shared/bench")
Program = tuple[Path, str, tuple[int, int, int], str, float | None]
PROGRAMS: list[Program] = [
    (SET, "a_loop", (12_500, 50_000, 200_000), "a_loop", 4.0),
    (SET, "b_fib", (18, 22, 24), "b_fib", 6.0),
    (SET, "c_queries", (1500, 6000, 24_000), "c_queries", 4.0),
    (SET, "e_objects", (500, 2000, 8000), "e_objects_checked", 5.0),
    (SET, "f_model", (250, 1000, 4000), "f_model", 8.0),
    (HERE, "d_strings", (1000, 4000, 16_000), "d_strings", 5.0),
    (HERE, "g_templates", (1000, 4000, 16_000), "g_templates", 5.0),
    (HERE, "h_control", (1000, 4000, 16_000), "h_control", 5.0),
    (HERE, "i_parallel", (500, 2000, 8000), "i_parallel_tasks", 5.0),
    (HERE, "j_framework", (500, 2000, 8000), "j_framework_checked", 5.0),
    (HERE, "k_shared", (160, 640, 1280), "k_shared", 12.0),
]
FIGURES = [
    ("start", "import and standard library, ms", 150.0),
    ("compile", "a class of io.murano ready, cold, ms", 3.0),
    ("compile_first", "the same, first in a process, ms", None),
    ("compile_methods", "the same, all its methods compiled, ms", None),
    ("compile_cached", "the same from the code cache, ms", None),
    ("model_seconds", "10,000 objects loaded, called, saved, s", 1.0),
    ("model_mib", "the same, MiB of the process", 150.0),
    ("sleep_seconds", "5,000 sleeping green threads, s of processor", 1.0),
    ("sleep_mib", "the same, MiB more than before", 60.0),
    ("depth", "nested calls of a method", 500.0),
    ("guards", "price of the guards in three programs, %", 15.0),
]


def run(*arguments: str) -> dict[str, Any]:
    """Run a program of ours; the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return value


def compare(program: Program) -> tuple[list[float], bool]:
    """Print the rows of a program; the cold ratio at the middle size, and whether digests agree."""
    where, name, sizes, twin, limit = program
    same = True
    ratios: list[float] = []
    for size in sizes:
        ours = run(
            "benchmarks/run_program.py", "--programs", str(where / "programs"), name, str(size)
        )
        plain = run(str(where / "plain_python.py"), twin, str(size))
        agree = ours["result_digest"] == plain["result_digest"]
        same = same and agree
        cold = ours["cpu_seconds"] / plain["seconds"]
        warm = ours["warm_cpu_seconds"] / plain["seconds"]
        ratios.append(cold)
        bound = mark = ""
        if limit is not None and size == sizes[1]:
            bound, mark = f"{limit:.0f}", PUBLISHED.most(name, cold, limit)
        print(
            f"{name:<13}{size:>8}{ours['cpu_seconds']:>10.4f}{ours['warm_cpu_seconds']:>10.4f}"
            f"{plain['seconds']:>10.4f}{cold:>8.2f}{warm:>8.2f}{bound:>7}"
            f"{ours['load_seconds'] * 1000:>9.1f}{mark}{'' if agree else '  DIGESTS DIFFER'}",
            flush=True,
        )
    return ratios, same


def main() -> int:
    """Print the tables; 1 when a digest differs."""
    print(
        f"{'program':<13}{'n':>8}{'cold, s':>10}{'warm, s':>10}{'plain, s':>10}"
        f"{'cold':>8}{'warm':>8}{'limit':>7}{'load, ms':>9}"
    )
    given: list[float] = []
    everything: list[float] = []
    wrong = False
    for program in PROGRAMS:
        if not (program[0] / "programs").is_dir():
            print(f"{program[1]:<13} not found at {program[0]}; set VETRO_BENCH to its directory")
            continue
        ratios, same = compare(program)
        wrong = wrong or not same
        everything.append(ratios[1])
        if program[0] == SET:
            given.append(ratios[1])
    for title, ratios in (("the five given programs", given), ("all programs", everything)):
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
            mark = PUBLISHED.most(title, mean, 5)
            print(f"geometric mean of {title}, cold, middle size: {mean:.2f} (limit 5){mark}")
    print()
    figures: dict[str, float] = {}
    for topic in ("start", "compile", "model", "sleep", "depth", "guards"):
        figures.update(run("benchmarks/language_figures.py", topic))
    for key, title, limit in FIGURES:
        bound = ""
        if limit is not None:
            judge = PUBLISHED.least if key == "depth" else PUBLISHED.most
            bound = f"  (limit {limit:g}){judge(title, figures[key], limit)}"
        print(f"{title:<50}{figures[key]:>10.2f}{bound}")
    return PUBLISHED.exit_code(wrong=wrong)


if __name__ == "__main__":
    sys.exit(main())
