"""The language programs against plain Python, measured in one run (part of `make bench`).

Each program runs in a process of its own, then its plain Python twin; only equal digests count. A ratio is
processor time of the first run in a process to that of the twin. After that come the figures of the language
itself: start, compiling, a model of 10,000 objects, sleeping threads, depth of calls, the price of the
guards; times are those of the reference machine (`limits.py`).

The first five programs are looked for beside the checkout (`../shared/bench`) or in `VETRO_BENCH`;
the others, stand-ins for the kinds of program a package holds, are in `benchmarks/programs`.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from limits import REPETITIONS, Topic, repetitions

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
SET = Path(os.environ.get("VETRO_BENCH") or ROOT.parent / "shared/bench")
Program = tuple[Path, str, int, str, float]
#: Where it is, its name, its size, its twin, and how many times as long as the twin it may take. Two of ours
#: took 5.0 to 5.8 in runs of one commit: a promise of 5 failed by chance.
PROGRAMS: list[Program] = [
    (SET, "a_loop", 50_000, "a_loop", 4.0),
    (SET, "b_fib", 22, "b_fib", 6.0),
    (SET, "c_queries", 6000, "c_queries", 4.0),
    (SET, "e_objects", 2000, "e_objects_checked", 5.0),
    (SET, "f_model", 1000, "f_model", 8.0),
    (HERE, "d_strings", 4000, "d_strings", 5.0),
    (HERE, "g_templates", 4000, "g_templates", 5.0),
    (HERE, "h_control", 4000, "h_control", 6.0),
    (HERE, "i_parallel", 2000, "i_parallel_tasks", 5.0),
    (HERE, "j_framework", 2000, "j_framework_checked", 6.5),
    (HERE, "k_shared", 640, "k_shared", 12.0),
]
#: The topic and key of `language_figures.py`, the title, the unit and the promise.
FIGURES: list[tuple[str, str, str, str, float | None]] = [
    ("start", "start", "import and standard library", "ms", 150.0),
    ("compile", "compile", "a class of io.murano ready, cold", "ms", 3.0),
    ("compile", "compile_first", "the same, first in a process", "ms", None),
    ("compile", "compile_methods", "the same, all its methods compiled", "ms", None),
    ("compile", "compile_cached", "the same from the code cache", "ms", None),
    ("model", "model_seconds", "10,000 objects loaded, called, saved", "s", 1.0),
    ("model", "model_mib", "the same, memory of the process", "MiB", 150.0),
    ("sleep", "sleep_seconds", "5,000 sleeping green threads", "s", 1.0),
    ("sleep", "sleep_mib", "the same, more memory than before", "MiB", 60.0),
    ("depth", "depth", "nested calls of a method", "calls", 500.0),
    ("guards", "guards", "three programs with guards to those without", "x", 1.15),
]

#: The given twins time themselves by the clock on the wall, in which a busy machine does other things.
BY_PROCESSOR_TIME = """
import runpy, sys, time
time.perf_counter = time.process_time
del sys.argv[0]
sys.path[0] = sys.argv[0].rpartition('/')[0]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


def run(*arguments: str) -> dict[str, Any]:
    """Run a program of ours; the JSON of its last line."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
    )
    value: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return value


def compare(topic: Topic, program: Program) -> float:
    """How many times as long as its twin a program takes."""
    where, name, size, twin, limit = program
    ratios: list[float] = []
    command = ("benchmarks/run_program.py", "--programs", str(where / "programs"), name, str(size))
    for _ in range(REPETITIONS):
        ours = run(*command)
        plain = run("-c", BY_PROCESSOR_TIME, str(where / "plain_python.py"), twin, str(size))
        if ours["result_digest"] != plain["result_digest"]:
            topic.wrong(f"{name}: another result than its twin's")
        ratios.append(ours["cpu_seconds"] / plain["seconds"])
    return topic.take(name, ratios, "x plain", limit)


def main() -> int:
    """Measure, judge."""
    topic = Topic("language")
    given: list[float] = []
    everything: list[float] = []
    for program in PROGRAMS:
        if not (program[0] / "programs").is_dir():
            print(f"{program[1]}: not found at {program[0]}; set VETRO_BENCH to its directory")
            continue
        ratio = compare(topic, program)
        everything.append(ratio)
        if program[0] == SET:
            given.append(ratio)
    for title, ratios in (("the five given programs", given), ("all programs", everything)):
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
            topic.take(f"geometric mean of {title}", mean, "x plain", 5)
    units = {key: unit for _, key, _, unit, _ in FIGURES}
    found: dict[str, list[float]] = defaultdict(list)
    for name in dict.fromkeys(figure[0] for figure in FIGURES):
        for factor in repetitions():
            for key, value in run("benchmarks/language_figures.py", name).items():
                found[key].append(value * factor if units[key] in ("s", "ms") else value)
    for _, key, title, unit, limit in FIGURES:
        topic.take(title, found[key], unit, limit, at_least=key == "depth")
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
