"""``vetro test``: MuranoPL test classes, side by side in processes of their own.

JUnit XML of their results is as CI systems read it.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree

import click

from vetro.cli.offline.options import library_option
from vetro.cli.terminal.output import PrintingCommand, emit_json, fail, wants_json
from vetro.muranopl import MuranoTestResult

if TYPE_CHECKING:
    from vetro.cli.offline.world import World
    from vetro.muranopl import FileCoverage, LineCoverage, MuranoError, MuranoTest, MuranoTestResult


T = TypeVar("T")
R = TypeVar("R")
WORTH_A_PROCESS = 8
"""Tests that keep one more process busy for longer than it takes to start."""


@dataclass(frozen=True)
class Setting:
    """What a worker needs to run tests."""

    paths: tuple[Path, ...]
    libraries: tuple[Path, ...]
    seconds: float | None
    coverage: bool
    package_names: tuple[str, ...] = ()


class Worker:
    """A runtime that runs one test after the other."""

    def __init__(self, setting: Setting) -> None:
        from vetro.cli.offline.world import open_world
        from vetro.muranopl import LineCoverage

        self.setting = setting
        names = setting.package_names
        self.coverage = LineCoverage(names) if setting.coverage else None
        self.world: World = open_world(
            setting.paths, libraries=setting.libraries, testing=True, coverage=self.coverage
        )

    def run(self, test: MuranoTest) -> MuranoTestResult:
        """Run one test."""
        from vetro.muranopl import TEST_CLOCK, DirectEffects, Limits, Runtime, Session, run_test

        def make_session(_runtime: Runtime) -> Session:
            effects = DirectEffects(seed=1, start=TEST_CLOCK)
            return self.world.session(effects=effects, limits=Limits(seconds=self.setting.seconds))

        result = run_test(self.world.runtime, test, make_session=make_session)
        if result.position is not None:
            place = result.position
            result.position = dataclasses.replace(place, file=self.world.real_file(place.file))
        return result


_worker: Worker | None = None


def _prepare(setting: Setting) -> None:
    global _worker
    _worker = Worker(setting)


def _run_in_worker(test: MuranoTest) -> tuple[MuranoTestResult, int, object]:
    assert _worker is not None
    result = _worker.run(test)
    coverage = _worker.coverage
    return result, os.getpid(), None if coverage is None else coverage.counts()


def in_processes(
    items: Sequence[T],
    run: Callable[[T], R],
    *,
    jobs: int,
    prepare: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
) -> Iterator[tuple[T, R | None]]:
    """`run` of each item in worker processes, as they end; None for one that ended its process.

    A process that dies takes the items after it with it; those are tried again, one at a time.
    """
    left = list(items)
    context = multiprocessing.get_context("spawn")
    width = min(jobs, len(left))
    with ProcessPoolExecutor(width, context, prepare, arguments) as pool:
        futures = {pool.submit(run, item): item for item in left}
        for future in as_completed(futures):
            try:
                value = future.result()
            except BrokenProcessPool:
                continue
            left.remove(futures[future])
            yield futures[future], value
    for item in left:
        with ProcessPoolExecutor(1, context, prepare, arguments) as pool:
            try:
                yield item, pool.submit(run, item).result()
            except BrokenProcessPool:
                yield item, None


def _lost(test: MuranoTest) -> MuranoTestResult:
    from vetro.muranopl import MuranoTestResult

    return MuranoTestResult(
        test, "error", step=test.method, message="the process that ran the test ended"
    )


class Report:
    """What people see while tests run."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.quiet = quiet
        self.total = total
        self.done = 0

    def one(self, result: MuranoTestResult) -> None:
        """A line for a test; for one that did not pass, why."""
        self.done += 1
        if self.quiet:
            return
        passed = result.outcome == "passed"
        word = click.style("OK" if passed else "FAIL!", fg="green" if passed else "red")
        click.echo(f"{result.test} .... {word}")
        if not passed:
            click.echo(_indented(result.trace or result.message))
            for line in result.log:
                click.echo(f"    log: {line}")
        for line in result.warnings:
            click.echo(f"    {click.style('warning', fg='yellow')}: {line}")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def coverage_table(files: Sequence[FileCoverage]) -> str:
    """The figures of files as text, with their total."""
    rows = [
        (
            file.file,
            str(len(file.statements)),
            str(len(file.missing)),
            f"{file.percent:.0f}%",
            file.missing_ranges(),
        )
        for file in files
    ]
    statements = sum(len(file.statements) for file in files)
    missing = sum(len(file.missing) for file in files)
    rows.append(("TOTAL", str(statements), str(missing), f"{_percent(files):.0f}%", ""))
    width = max(len(row[0]) for row in rows)
    lines = [f"{'FILE'.ljust(width)}  STATEMENTS  MISSING  COVER  MISSING LINES"]
    for name, total, gone, percent, ranges in rows:
        lines.append(
            f"{name.ljust(width)}  {total:>10}  {gone:>7}  {percent:>5}  {ranges}".rstrip()
        )
    return "\n".join(lines)


def _percent(files: Sequence[FileCoverage]) -> float:
    statements = sum(len(file.statements) for file in files)
    covered = statements - sum(len(file.missing) for file in files)
    return 100.0 * covered / statements if statements else 100.0


def coverage_json(files: Sequence[FileCoverage]) -> dict[str, object]:
    """The figures of files as JSON, with their total."""
    return {
        "files": {file.file: file.as_json() for file in files},
        "statements": sum(len(file.statements) for file in files),
        "covered": sum(len(file.statements) - len(file.missing) for file in files),
        "percent": round(_percent(files), 1),
    }


def _measured_files(world: World, coverage: LineCoverage) -> list[FileCoverage]:
    """Files under test, by their paths; files that only have test classes are not code under test."""
    from vetro.muranopl import is_test_class

    code: set[str] = set()
    for package in world.packages:
        for name, file in package.class_files.items():
            type_ = package.types.get(name)
            if type_ is None or not is_test_class(type_):
                code.add(f"{package.name}/Classes/{file}")
    return [
        dataclasses.replace(file, file=world.real_file(file.file))
        for file in coverage.files()
        if file.file in code
    ]


def _job_count(asked: int | None, tests: int) -> int:
    if asked is not None:
        return max(1, min(asked, tests))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, tests // WORTH_A_PROCESS))


@click.command("test", cls=PrintingCommand)
@click.argument("packages", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--filter",
    "-k",
    "selectors",
    multiple=True,
    metavar="SELECTOR",
    help="Run METHOD, CLASS or CLASS.METHOD only (* matches anything); may be repeated.",
)
@library_option("the tested ones require")
@click.option("--jobs", "-j", type=click.IntRange(1), help="Processes [as many as are worth it].")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds a step.")
@click.option("--junit", type=click.Path(path_type=Path), help="Write JUnit XML to this file.")
@click.option("--coverage", is_flag=True, help="Say which statements of the packages ran.")
@click.option(
    "--coverage-json",
    "coverage_file",
    type=click.Path(path_type=Path),
    help="Write the coverage to this file.",
)
@click.option("--list", "list_only", is_flag=True, help="Name the tests, run none.")
@click.option("--fail-fast", "-x", is_flag=True, help="Stop at the first that does not pass.")
def test(
    packages: tuple[Path, ...],
    selectors: tuple[str, ...],
    libraries: tuple[Path, ...],
    jobs: int | None,
    timeout: float,
    junit: Path | None,
    coverage: bool,
    coverage_file: Path | None,
    list_only: bool,
    fail_fast: bool,
) -> None:
    """Run the test classes of PACKAGES (directories or zips); exit 0 when every test passes.

    A test is a method `test…` of a class that derives from io.murano.test.TestFixture.
    """
    from vetro.cli.offline.world import packages_or_fail
    from vetro.muranopl import discover_tests, select_tests

    started = time.perf_counter()
    wants_coverage = coverage or coverage_file is not None
    setting = Setting(packages, libraries, timeout if timeout > 0 else None, wants_coverage)
    for target in (junit, coverage_file):
        refuse_unwritable(target)
    with packages_or_fail(packages):
        setting = dataclasses.replace(setting, package_names=_names(packages))
        worker = Worker(setting)
    broken: list[tuple[str, MuranoError]] = []
    tests: list[MuranoTest] = []
    for package in worker.world.packages:
        tests.extend(discover_tests(worker.world.runtime, package, broken=broken))
    chosen = select_tests(tests, selectors)
    if list_only:
        if wants_json():
            emit_json([str(item) for item in chosen])
        else:
            for item in chosen:
                click.echo(str(item))
        return
    report = Report(len(chosen), wants_json())
    results: list[MuranoTestResult] = []
    for name, error in broken:
        results.append(_broken_class(worker.world, name, error))
        report.one(results[-1])
    merged = worker.coverage
    for result in _outcomes(worker, chosen, _job_count(jobs, len(chosen)), merged):
        results.append(result)
        report.one(result)
        if fail_fast and result.outcome != "passed":
            break
    order = {str(item): index for index, item in enumerate(chosen)}
    results.sort(key=lambda item: order.get(str(item.test), -1))
    files = [] if merged is None else _measured_files(worker.world, merged)
    _finish(results, files, time.perf_counter() - started, merged is not None)
    if junit is not None:
        from vetro.cli.offline.testing import write_junit

        write_junit(results, junit)
    if coverage_file is not None:
        coverage_file.write_text(json.dumps(coverage_json(files), indent=2) + "\n", "utf-8")
    if not results:
        fail(
            "there are no tests" + (" that the filter names" if tests else ""),
            "A test is a method test… of a class that extends io.murano.test.TestFixture "
            "and is named in the manifest's Classes.",
        )
    if any(item.outcome != "passed" for item in results):
        raise SystemExit(1)


def refuse_unwritable(target: Path | None) -> None:
    """End the command before any test has run when a report could not be written after them."""
    if target is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        fail(f"{target} cannot be written", "Name a file in a directory that you may write to.")


def _names(paths: Sequence[Path]) -> tuple[str, ...]:
    from vetro.packages import open_package

    return tuple(open_package(path).full_name for path in paths)


def _broken_class(world: World, name: str, error: Any) -> MuranoTestResult:
    from vetro.muranopl import MuranoTest, MuranoTestResult

    result = MuranoTestResult(MuranoTest(name, "(load)"), "error", step="load")
    result.message = error.message
    result.names = error.names
    result.trace = str(error)
    if error.position is not None:
        place = error.position
        result.position = dataclasses.replace(place, file=world.real_file(place.file))
        result.trace = f"{result.position}: {error.message}" + (
            f"; {error.hint}" if error.hint else ""
        )
    return result


def _outcomes(
    worker: Worker, tests: Sequence[MuranoTest], jobs: int, merged: LineCoverage | None
) -> Iterator[MuranoTestResult]:
    if jobs <= 1:
        for item in tests:
            yield worker.run(item)
        return
    counts: dict[int, Any] = {}
    for item, outcome in in_processes(
        tests, _run_in_worker, jobs=jobs, prepare=_prepare, arguments=(worker.setting,)
    ):
        if outcome is None:
            yield _lost(item)
            continue
        result, process, counted = outcome
        counts[process] = counted
        yield result
    if merged is not None:
        for counted in counts.values():
            merged.merge(counted)


def _finish(
    results: Sequence[MuranoTestResult],
    files: Sequence[FileCoverage],
    seconds: float,
    with_coverage: bool,
) -> None:
    passed = sum(item.outcome == "passed" for item in results)
    if wants_json():
        document: dict[str, object] = {
            "tests": [item.as_json() for item in results],
            "passed": passed,
            "failed": sum(item.outcome == "failed" for item in results),
            "errors": sum(item.outcome == "error" for item in results),
            "seconds": round(seconds, 3),
        }
        if with_coverage:
            document["coverage"] = coverage_json(files)
        emit_json(document)
        return
    if with_coverage and files:
        click.echo()
        click.echo(coverage_table(files))
    click.echo(
        f"Executed {len(results)} tests in {seconds:.2f} seconds: "
        f"{passed} passed, {len(results) - passed} failed"
    )


_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    """Text without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)


def junit_document(results: Sequence[MuranoTestResult]) -> ElementTree.Element:
    """`<testsuites>` with one suite a test class."""
    root = ElementTree.Element("testsuites", {"name": "vetro test", **_totals(results)})
    for name, group in groupby(results, key=lambda item: item.test.class_name):
        listed = list(group)
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_totals(listed)})
        for result in listed:
            suite.append(_case(result))
    return root


def _totals(results: Sequence[MuranoTestResult]) -> dict[str, str]:
    return {
        "tests": str(len(results)),
        "failures": str(sum(item.outcome == "failed" for item in results)),
        "errors": str(sum(item.outcome == "error" for item in results)),
        "time": f"{sum(item.seconds for item in results):.3f}",
    }


def _case(result: MuranoTestResult) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase",
        classname=result.test.class_name,
        name=result.test.method,
        time=f"{result.seconds:.3f}",
    )
    if result.position is not None:
        case.set("file", result.position.file)
        case.set("line", str(result.position.line))
    if result.outcome != "passed":
        tag = "failure" if result.outcome == "failed" else "error"
        kind = result.names[0] if result.names else result.outcome
        detail = ElementTree.SubElement(case, tag, message=_text(result.message), type=kind)
        detail.text = _text(result.trace)
    for tag, lines in (("system-out", result.log), ("system-err", result.warnings)):
        if lines:
            ElementTree.SubElement(case, tag).text = _text("\n".join(lines))
    return case


def write_junit(results: Sequence[MuranoTestResult], target: Path) -> None:
    """Write the document to a file."""
    tree = ElementTree.ElementTree(junit_document(results))
    ElementTree.indent(tree)
    target.parent.mkdir(parents=True, exist_ok=True)
    tree.write(target, encoding="utf-8", xml_declaration=True)
