"""What a figure of `make bench` is compared with: a loop of the same run, its promise, and the last figure.

A second says little: one commit explained 661 to 1,111 placements a second on one quiet machine. So a time
is taken together with that of a fixed loop in plain Python, and given as what it would be where the loop
takes `REFERENCE_SECONDS`: milliseconds of the reference machine are ratios to the loop in familiar units.
What is measured against a twin, a process or the original in the same run is a ratio already.

A topic hands each figure to `Topic.take`, with its repetitions, of which the median counts, and its promise.
A figure fails when it misses its promise, or is more than a fifth worse than the last one in
`figures.json`. With ``VETRO_BENCH_WRITE`` set (`make bench WRITE=1`) the figures become the last ones.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.json")
REPETITIONS = 5
FIFTH = 1.2
#: What the loop takes on the machine on which the server that Vetro replaces was measured: by the ratios of
#: programs in plain Python there and here (docs/decisions/0782).
REFERENCE_SECONDS = 0.012
#: What `vetro up` and the node agent are made of. They are imported by a process that does nothing else.
LIBRARIES = (
    "aio_pika, alembic, argon2, click, cryptography.fernet, greenlet, httpx2, litestar, msgspec, numpy,"
    " prometheus_client, psycopg, pyroute2, rich, sqlalchemy.ext.asyncio, structlog, uvicorn, uvloop, yaml"
)


def loop_seconds() -> float:
    """Processor seconds of the fixed loop, the median of three."""
    taken: list[float] = []
    for _ in range(3):
        began = time.process_time()
        counts: dict[int, int] = {}
        total = 0
        for number in range(100_000):
            key = number % 97
            counts[key] = counts.get(key, 0) + number
            total += len(str(number)) * key
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def repetitions(times: int = REPETITIONS) -> Iterator[float]:
    """Once for each repetition: what turns its seconds into those of the reference machine.

    The loop runs before each: a host that others share has another speed a moment later.
    """
    for _ in range(times):
        yield REFERENCE_SECONDS / loop_seconds()


def libraries_mib() -> float:
    """Resident memory of a process that has imported the libraries and done nothing else."""
    code = (
        f"import {LIBRARIES}\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith('VmRSS:'): print(int(line.split()[1]) / 1024)"
    )
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


class Topic:
    """The figures of a topic: prints a row for each, and says at the end what failed."""

    def __init__(self, name: str, file: Path = FIGURES) -> None:
        self.name, self.file = name, file
        self.last: dict[str, float] = self._all().get(name, {})
        self.now: dict[str, float] = {}
        self.failed: list[str] = []
        self.is_wrong = False
        print(f"{'':58}{'median':>9} {'unit':8}{'last':>9}{'change':>8}  promise", flush=True)

    def take(
        self,
        what: str,
        figures: float | Iterable[float],
        unit: str,
        promise: float | None = None,
        *,
        at_least: bool = False,
        compared: bool = True,
    ) -> float:
        """Judge the median of a figure and print it.

        ``promise``: the most that it may be (``at_least``: the least, and more is better). ``compared``:
        whether it may be worse than the last one, within its promise.
        """
        figure = float(figures if isinstance(figures, int | float) else statistics.median(figures))
        last = self.last.get(what)
        self.now[what] = float(f"{figure:.4g}")
        marks: list[str] = []
        if promise is not None and (figure < promise if at_least else figure > promise):
            marks.append(f"misses its promise, {'at least' if at_least else 'at most'} {promise:g}")
        better, worse = (last, figure) if not at_least else (figure, last)
        if last is not None and compared and worse > better * FIFTH:
            marks.append(f"more than a fifth worse than the last, {last:.4g}")
        self.failed += [f"{what}: {figure:.4g} {unit} {mark}" for mark in marks]
        bound = "" if promise is None else f"{'>=' if at_least else '<='} {promise:g}"
        change = f"{figure / last - 1:+.0%}" if last else ""
        print(
            f"{what:58}{figure:9.4g} {unit:8}{'new' if last is None else f'{last:.4g}':>9}{change:>8}"
            f"  {bound}{'  FAILED' if marks else ''}",
            flush=True,
        )
        return figure

    def wrong(self, what: str) -> None:
        """What was measured is not right, so its figures say nothing."""
        self.is_wrong = True
        self.failed.append(what)

    def end(self) -> int:
        """Name what failed, keep the figures when asked to; 1 when anything failed."""
        for gone in self.last.keys() - self.now.keys():
            print(f"{gone}: not measured in this run")
        if os.environ.get("VETRO_BENCH_WRITE") and not self.is_wrong:
            kept = {**self._all(), self.name: self.now}
            text = json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False)
            self.file.write_text(text + "\n", encoding="utf-8")
        for one in self.failed:
            print(f"FAILED {self.name}: {one}", flush=True)
        return int(bool(self.failed))

    def _all(self) -> dict[str, dict[str, float]]:
        if not self.file.exists():
            return {}
        found: dict[str, dict[str, float]] = json.loads(self.file.read_text(encoding="utf-8"))
        return found
