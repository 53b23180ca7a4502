"""Running test classes (muranopl.md section 26).

    runtime = Runtime()
    enable_testing(runtime)
    package = runtime.add_package(DirectoryPackage("my.app"))
    for result in run_tests(runtime, discover_tests(runtime, package)):
        print(result.test, result.outcome, result.message)

A test is a method whose name begins with `test` (not followed by a small letter), declared in a
class that derives from `io.murano.test.TestFixture`. Each runs in a session of its own, on an
object made from `{}`: `initialize`, `setUp`, the test, `tearDown` (always). Call `enable_testing`
before the runtime's classes are compiled: it registers the mock functions and the fixture.
"""

from __future__ import annotations

import fnmatch
import logging
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from vetro.muranopl.classes.types import MuranoPackage, MuranoType
from vetro.muranopl.threads.effects import DirectEffects
from vetro.muranopl.values.errors import LimitExceeded, MuranoError, Position
from vetro.muranopl.values.limits import Limits

from .testing_fixture import FIXTURE, AssertionFailed, Fixture
from .testing_mocks import register_mock_functions, remove_mocks

if TYPE_CHECKING:
    from vetro.muranopl.host.runtime import Runtime
    from vetro.muranopl.host.session import Session

_TEST_NAME = re.compile(r"test(?![a-z])")
TEST_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of a test's clock; only `sleep` advances it, which takes no time."""
TEST_LIMITS = Limits(seconds=60.0)
"""Budgets of each step of a test, for sessions that the host does not make itself."""

Outcome = Literal["passed", "failed", "error"]
MakeSession = Callable[["Runtime"], "Session"]


@dataclass(frozen=True, slots=True, order=True)
class MuranoTest:
    """One test: a method of a test class."""

    class_name: str
    method: str
    package: str = ""

    def __str__(self) -> str:
        return f"{self.class_name}.{self.method}"

    def matches(self, selector: str) -> bool:
        """Whether it matches: `method`, `ClassFQN` or `ClassFQN.method`, also with `*` and `?`."""
        names = (self.method, self.class_name, str(self))
        return any(fnmatch.fnmatchcase(name, selector) for name in names)


@dataclass(slots=True)
class MuranoTestResult:
    """The outcome of a test.

    `outcome`: `failed` when an assertion does not hold, `error` for any other failure. `trace` is
    the MuranoPL stack trace with name and message; `expected` and `observed` are the compared
    values of an assertion, as text. `warnings`: failures of clean-up code.
    """

    test: MuranoTest
    outcome: Outcome
    seconds: float = 0.0
    step: str = ""
    """Where it failed: `initialize`, `setUp`, `tearDown` or the test's name."""
    message: str = ""
    names: tuple[str, ...] = ()
    trace: str = ""
    position: Position | None = None
    expected: str | None = None
    observed: str | None = None
    warnings: list[str] = field(default_factory=list[str])
    log: list[str] = field(default_factory=list[str])
    """The lines that the program logged."""

    def as_json(self) -> dict[str, object]:
        """The result as JSON."""
        place = self.position
        return {
            "package": self.test.package,
            "class": self.test.class_name,
            "method": self.test.method,
            "outcome": self.outcome,
            "seconds": round(self.seconds, 6),
            "step": self.step or None,
            "message": self.message or None,
            "names": list(self.names),
            "trace": self.trace or None,
            "file": place.file if place else None,
            "line": place.line if place else None,
            "column": place.column if place else None,
            "expected": self.expected,
            "observed": self.observed,
            "warnings": self.warnings,
            "log": self.log,
        }


def enable_testing(runtime: Runtime) -> None:
    """Make `io.murano.test.TestFixture` and the mock functions known to a runtime."""
    runtime.add_native_class(FIXTURE, Fixture)
    register_mock_functions(runtime)


def is_test_class(type_: MuranoType) -> bool:
    """Whether a class derives from the fixture."""
    return any(item.name == FIXTURE for item in type_.ancestors[1:])


def discover_tests(
    runtime: Runtime,
    package: MuranoPackage,
    *,
    broken: list[tuple[str, MuranoError]] | None = None,
) -> list[MuranoTest]:
    """The tests of a package, in order of the manifest and of declaration.

    The `MuranoError` of a class that cannot be compiled is raised or added to `broken`, as is that
    of a faulty method that is not a test. A faulty test fails when it runs.
    """
    found: list[MuranoTest] = []
    for name in package.class_files:
        try:
            type_ = runtime.classes.own_type(package, name)
            if type_ is None:
                continue
            _ = type_.assembly
        except MuranoError as error:
            if broken is None:
                raise
            broken.append((name, error))
            continue
        tests: list[str] = []
        if is_test_class(type_):
            tests.extend(filter(_TEST_NAME.match, type_.methods))
            found.extend(MuranoTest(name, method, package.name) for method in tests)
        for method in type_.methods.values():
            if method.error is not None and method.name not in tests:
                if broken is None:
                    raise method.error.fresh()
                broken.append((name, method.error))
    return found


def select_tests(tests: Iterable[MuranoTest], selectors: Sequence[str]) -> list[MuranoTest]:
    """The tests that any selector names; all without selectors."""
    return [
        test for test in tests if not selectors or any(test.matches(item) for item in selectors)
    ]


def default_session(runtime: Runtime) -> Session:
    """A session for tests: seeded random numbers, a clock that only `sleep` advances."""
    effects = DirectEffects(seed=1, start=TEST_CLOCK)
    return runtime.session(effects=effects, limits=TEST_LIMITS)


def run_tests(
    runtime: Runtime, tests: Iterable[MuranoTest], *, make_session: MakeSession = default_session
) -> Iterator[MuranoTestResult]:
    """Run tests one after the other; yields each result when its test ends."""
    for test in tests:
        yield run_test(runtime, test, make_session=make_session)


def run_test(
    runtime: Runtime, test: MuranoTest, *, make_session: MakeSession = default_session
) -> MuranoTestResult:
    """Run one test. The result reports failures; they are not raised."""
    _compile_everything(runtime)
    started = time.perf_counter()
    result = MuranoTestResult(test, "passed")
    session = make_session(runtime)
    try:
        with _captured_log(result.log):
            _steps(session, test, result)
    finally:
        remove_mocks(session)
        try:
            session.close()
        except MuranoError as error:
            _record(result, "destroy", error)
    result.warnings.extend(session.warnings)
    result.seconds = time.perf_counter() - started
    return result


class _LogLines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")


@contextmanager
def _captured_log(lines: list[str]) -> Generator[None]:
    """A context in which messages of programs (`applications.…`) are added to the lines."""
    logger = logging.getLogger("applications")
    handler = _LogLines(lines)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _steps(session: Session, test: MuranoTest, result: MuranoTestResult) -> None:
    try:
        item = session.in_green_thread(
            lambda: session.run.create(session.runtime.type(test.class_name), {}, None)
        )
    except MuranoError as error:
        _record(result, "initialize", error)
        return
    for step in ("setUp", test.method):
        try:
            session.call(item, step)
        except MuranoError as error:
            _record(result, step, error)
            break
    try:
        session.call(item, "tearDown")
    except MuranoError as error:
        _record(result, "tearDown", error)


def _record(result: MuranoTestResult, step: str, error: MuranoError) -> None:
    if result.outcome != "passed":
        result.warnings.append(f"{step} failed as well: {error.message}")
        return
    failed = isinstance(error, AssertionFailed)
    result.outcome = "failed" if failed else "error"
    result.step = step
    result.message = error.message
    result.names = error.names
    result.trace = error.format()
    result.position = error.stack_trace[-1].position if error.stack_trace else error.position
    if failed:
        result.expected = error.extra.get("expected")
        result.observed = error.extra.get("observed")
    if isinstance(error, LimitExceeded) and error.limit == "seconds":
        result.message = f"timed out: {error.message}"


def _compile_everything(runtime: Runtime) -> None:
    """Compile all classes before mocks are set: a mock affects every class with the method."""
    for package in runtime.packages:
        for name in list(package.class_files):
            if name in package.types:
                continue
            try:
                type_ = runtime.classes.own_type(package, name)
                if type_ is not None:
                    _ = type_.assembly
            except MuranoError:
                # A class that cannot be compiled cannot be mocked either; its use raises the error.
                continue
