"""What tests cost: processor seconds of each test, its processes included, for the budget of the run.

Wall time says what else the machine did; processor time says what the test did. Hosts differ too, so each
process of a run times fixed work now and then, by which the run is divided (tools/budgets.py).
`VETRO_TEST_RECORDS` names the directory where records go.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: Seconds between two measurements of the fixed work, which takes about 40 ms.
LOOP_EVERY = 20.0
_HERTZ = os.sysconf("SC_CLK_TCK")


def loop() -> float:
    """Processor seconds of the fixed work here and now: a loop in plain Python, and a new process of Python.

    Tests do both. By the loop alone, which took 15 ms on one host, the tests there were a quarter over the
    budget that other hosts kept: starting programs is bound by memory and the kernel.
    """
    began = time.process_time()
    total = 0
    for number in range(350_000):
        total += number % 7
    assert total == 1_050_000
    spent = time.process_time() - began
    program = [sys.executable, "-I", "-c", "import ast, dataclasses, json, re, typing"]
    _, status, used = os.wait4(os.posix_spawn(sys.executable, program, os.environ), 0)
    assert status == 0
    return spent + used.ru_utime + used.ru_stime


def processor_seconds(process: int | None = None) -> float:
    """What a process (this one), those it waited for and those that still run below it have used."""
    spent, below = 0.0, [str(process)]
    if process is None:
        own = os.times()
        spent = own.user + own.system + own.children_user + own.children_system
        below = _children(os.getpid())
    while below:
        one = below.pop()
        try:
            # After the name in parentheses, which may hold anything: the 12th to the 15th are times.
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            spent += sum(int(field) for field in fields[11:15]) / _HERTZ
            below += _children(int(one))
        except OSError:
            continue  # it has ended
    return spent


def _children(process: int) -> list[str]:
    """The processes that any thread of a process started."""
    found: list[str] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        try:
            found += (thread / "children").read_text().split()
        except OSError:
            continue  # it has ended
    return found


def note(test: str, seconds: float) -> None:
    """Record what a test used in processes that are not below its own, where a run asks for records."""
    if records := os.environ.get("VETRO_TEST_RECORDS"):
        file = Path(records, f"seconds.{os.getpid()}.jsonl")
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps({"test": test, "seconds": seconds, "wall": 0.0}) + "\n")


class Records:
    """Writes what each test cost to a file of this process."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / f"seconds.{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._loop_at = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        """Measure one test with its fixtures."""
        if time.monotonic() - self._loop_at > LOOP_EVERY:
            self._write(loop=loop())
            self._loop_at = time.monotonic()
        began, wall = processor_seconds(), time.monotonic()
        result = yield
        # What a process used is lost when whoever started it does not ask: it was counted while it ran.
        spent = max(0.0, processor_seconds() - began)
        self._write(test=item.nodeid, seconds=spent, wall=time.monotonic() - wall)
        return result

    def pytest_unconfigure(self) -> None:
        """Let nothing be lost in a buffer."""
        self._file.close()

    def _write(self, **record: object) -> None:
        self._file.write(json.dumps(record) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Record where a run asks for it."""
    if records := os.environ.get("VETRO_TEST_RECORDS"):
        config.pluginmanager.register(Records(Path(records)), "processor seconds")
