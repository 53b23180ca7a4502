"""Makes the faults of tests/mutants.toml one by one and says which of them no test finds (decision 0786).

    python -m tools.mutants check [--room ROOM] [--number N] [--tier quick|full]

A process collects the tests once and forks for each mutant. The child gives the functions that the mutant
changes their new code and runs the tests, so nothing is written anywhere and no module is imported twice.
"""

import argparse
import contextlib
import gc
import importlib
import multiprocessing
import os
import select
import signal
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutants.toml"
# What starts whole services or needs one is too dear to be run for each mutant.
MARKERS = "not (root or e2e or postgres or rabbitmq or s3 or openstack or programs)"
SECONDS = 60  # of wall time for the tests that find a mutant: one that hangs is found, too
ALL_SECONDS = 900  # for all tests of its room


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault: ``old`` stands in ``file`` exactly once, and ``new`` takes its place."""

    number: int
    kind: str
    file: str
    old: str
    new: str
    found_by: tuple[str, ...]
    """Tests that find it, cheapest first."""
    tests: tuple[str, ...] = ()
    """Where a test that finds it is looked for when none of these does; by default the room's tests."""

    @property
    def room(self) -> str:
        """The part of src/vetro that it changes; `vetro` for a module that lies in no room."""
        parts = Path(self.file).parts
        return parts[2] if len(parts) > 3 else "vetro"

    @property
    def places(self) -> tuple[str, ...]:
        """The files and directories whose tests should find it."""
        if self.room == "vetro":  # such a module has a file of tests
            return self.tests or tuple({name.partition("::")[0] for name in self.found_by})
        return self.tests or (f"tests/{self.room}",)

    def __str__(self) -> str:
        """What it does, on one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.number} ({self.kind}) {self.file}: {old}  ->  {new}"

    def texts(self) -> tuple[str, str]:
        """The source as it is, and with the fault; ValueError if the list does not fit the source."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if (times := text.count(self.old)) != 1:
            raise ValueError(
                f"tests/mutants.toml, number {self.number}: {self.file} has the text {self.old!r} {times} "
                "times, not once. Write it as the source reads now; if what it changes is gone, put "
                "another mutant of the same room in its place"
            )
        return text, text.replace(self.old, self.new)


def mutants() -> list[Mutant]:
    """The whole list."""
    tables = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return [
        Mutant(
            **{
                key: tuple(value) if isinstance(value, list) else value
                for key, value in table.items()
            }
        )
        for table in tables
    ]


def _codes(text: str, path: Path) -> dict[tuple[str, int], CodeType]:
    """The code of each function of a module, by its name and its number among those of this name."""
    found: dict[tuple[str, int], CodeType] = {}
    numbers = Counter[str]()
    left = [compile(text, str(path), "exec", dont_inherit=True)]
    while left:
        inner = [each for each in left.pop().co_consts if isinstance(each, CodeType)]
        for code in inner:
            found[code.co_qualname, numbers[code.co_qualname]] = code
            numbers[code.co_qualname] += 1
        left += inner
    return found


def functions_of(files: Iterable[str]) -> dict[str, list[FunctionType]]:
    """All functions of this process that come from these files of the source."""
    found: dict[str, list[FunctionType]] = {str(ROOT / file): [] for file in files}
    for path in found:
        module = Path(path).relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        importlib.import_module(module.removesuffix(".__init__"))
    gc.unfreeze()  # tests/conftest.py hides what is imported from the collector, and so from us
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in found:
            found[each.__code__.co_filename].append(each)
    gc.freeze()
    return found


def apply(mutant: Mutant, functions: dict[str, list[FunctionType]]) -> None:
    """Give the functions of this process that the mutant changes their new code."""
    path = ROOT / mutant.file
    before, after = (_codes(text, path) for text in mutant.texts())
    changed = {old: after[name] for name, old in before.items() if after.get(name, old) != old}
    concerned = [each for each in functions[str(path)] if each.__code__ in changed]
    if not concerned:
        raise ValueError(
            f"tests/mutants.toml, number {mutant.number}: {mutant.file} has no function with this text. "
            "Only what is in the body of a function can be changed; put another mutant in its place"
        )
    for function in concerned:
        function.__code__ = changed[function.__code__]


def in_child(work: Callable[[], str], seconds: float) -> str:
    """What ``work`` returns in a process of its own; a child that has to be ended says `no end`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        try:
            answer = work()
        except BaseException as exception:  # noqa: BLE001 - a child never returns to the session
            answer = f"error {exception!r}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], seconds)
    answer = os.read(reading, 65536).decode() if ready else ""
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer or "no end"


class Forks:
    """A plugin of pytest: instead of the collected tests it runs those of each mutant, in a child."""

    def __init__(
        self,
        wanted: Sequence[Mutant],
        choose: Callable[[Mutant, list[pytest.Item]], Iterable[pytest.Item]],
        seconds: float,
    ) -> None:
        self.answers: dict[int, str] = {}
        self._wanted, self._choose, self._seconds = wanted, choose, seconds
        self._functions: dict[str, list[FunctionType]] = {}
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that the test at work failed."""
        self._failed |= report.failed

    def _found_by(self, mutant: Mutant, items: Iterable[pytest.Item]) -> str:
        apply(mutant, self._functions)
        for item in items:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            if self._failed:
                return f"found {item.nodeid}"
        return "survived"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try each mutant."""
        self._functions = functions_of({mutant.file for mutant in self._wanted})
        for done, mutant in enumerate(self._wanted):
            if done and done % 50 == 0:
                print(f"{done} of {len(self._wanted)} mutants were tried", file=sys.__stderr__)
            items = list(self._choose(mutant, session.items))
            self.answers[mutant.number] = (
                in_child(lambda m=mutant, i=items: self._found_by(m, i), self._seconds)
                if items
                else "survived"
            )
        return True


def _own_tests(mutant: Mutant, items: list[pytest.Item]) -> list[pytest.Item]:
    by_name = {item.nodeid: item for item in items}
    return [by_name[name] for name in mutant.found_by if name in by_name]


def _all_tests(mutant: Mutant, items: list[pytest.Item]) -> list[pytest.Item]:
    """Every test of the mutant's places, those beside the ones that found it first."""
    near = {name.partition("::")[0] for name in mutant.found_by}
    there = [item for item in items if item.nodeid.startswith(mutant.places)]
    return sorted(there, key=lambda item: item.nodeid.partition("::")[0] not in near)


def _session(wanted: Sequence[Mutant], every_test: bool) -> dict[int, str]:
    """What became of each mutant, in one session of pytest."""
    places = {place for mutant in wanted for place in mutant.places}
    files = {name.partition("::")[0] for mutant in wanted for name in mutant.found_by}
    forks = (
        Forks(wanted, _all_tests, ALL_SECONDS) if every_test else Forks(wanted, _own_tests, SECONDS)
    )
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        options = [
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            "-m",
            MARKERS,
            f"--basetemp={directory}/tests",
        ]
        status = pytest.main([*options, *sorted(places if every_test else files)], plugins=[forks])
        if not forks.answers:
            output.seek(0)
            raise RuntimeError(f"pytest ended with {status}:\n{output.read().decode()}")
    return forks.answers


def _check(wanted: list[Mutant]) -> int:
    for mutant in wanted:
        mutant.texts()
    wrong = 0
    for every_test in (False, True):
        if not wanted:
            break
        if every_test:
            print(
                *(f"its own tests do not find {mutant}" for mutant in wanted), sep="\n", flush=True
            )
        # Each session in a process of its own: what the first one imported shall not meet the second.
        with multiprocessing.get_context("fork").Pool(1) as pool:
            answers = pool.apply(_session, (wanted, every_test))
        for mutant in wanted:
            answer = answers[mutant.number]
            if answer.startswith("error"):
                print(f"{answer.removeprefix('error ')}: {mutant}")
                wrong += 1
            elif every_test and answer in ("survived", "no end"):
                print(f"{'no test finds' if answer == 'survived' else 'no end of'} {mutant}")
                wrong += 1
            elif every_test:
                print(f"{answer}: put it first in found_by of {mutant}")
        wanted = [mutant for mutant in wanted if answers[mutant.number] == "survived"]
    return wrong


def main() -> int:
    """Check the mutants that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    check = parser.add_subparsers(required=True).add_parser(
        "check", help="say which mutants no test finds"
    )
    check.add_argument("--room", help="only those of this room of src/vetro")
    check.add_argument("--number", type=int, help="only this one")
    check.add_argument(
        "--tier", choices=["quick", "full"], default="full", help="with this tier's tests"
    )
    asked = parser.parse_args()
    os.environ["VETRO_TEST_TIER"] = asked.tier
    os.chdir(ROOT)
    wanted = [
        mutant
        for mutant in mutants()
        if asked.room in (None, mutant.room) and asked.number in (None, mutant.number)
    ]
    if not wanted:
        print("tests/mutants.toml has no such mutant", file=sys.stderr)
        return 2
    try:
        wrong = _check(wanted)
    except (ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(wanted) - wrong} of {len(wanted)} mutants are found by the {asked.tier} tests")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
