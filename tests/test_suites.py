"""What `make test-all` proves, and what `make test` may cost, is said in the tree and holds together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import budgets  # noqa: E402
import run_tests  # noqa: E402
import suites  # noqa: E402

KNOWN = suites.standing().suites
pytestmark = pytest.mark.programs  # git says which files there are


def test_every_test_file_is_in_a_suite() -> None:
    """`make test-all` leaves no test file out; those of a real OpenStack are in the suite of a command."""
    taken = {
        path
        for suite in KNOWN.values()
        for chosen in suite.selection()
        for path in [ROOT / chosen, *(ROOT / chosen).rglob("test_*.py")]
    }
    files = set((ROOT / "tests").rglob("test_*.py"))
    assert {file for file in files - taken if file.parent.name != "openstack"} == set()


@pytest.mark.parametrize("name", KNOWN)
def test_a_suite_covers_what_it_runs(name: str) -> None:
    """What a suite covers is there, its own tests among it, and it may take 40 minutes at most."""
    suite = KNOWN[name]
    files = suites.files(suite)
    assert any(file.startswith("src/vetro/") for file in files)
    for path in suite.paths:
        assert (ROOT / path).exists(), path
    for chosen in suite.selection():
        assert any(file == chosen or file.startswith(f"{chosen}/") for file in files), chosen
    assert bool(suite.command) != bool(suite.tests)
    assert suite.minutes <= 40


def test_all_suites_take_four_hours_at_most() -> None:
    """The whole of `make test-all` can be run in an afternoon."""
    assert sum(suite.minutes for suite in KNOWN.values()) <= 240


def test_a_suite_covers_what_its_rooms_may_import() -> None:
    """A change of a room below unproves the suites above it, and not those beside it."""
    assert suites.source(["muranopl"]) == {"muranopl", "documents", "yaql"}
    assert {"compute.wire", "http", "secrecy", "tracing", "documents"} <= suites.source(["node"])
    assert "environments" not in suites.source(["compute"])


def test_a_change_unproves_a_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite that passed is proven until a file that it covers is changed, added or removed."""
    suite = suites.Suite(name="one", subject="one", minutes=1, rooms=("yaql",))
    listed = ["a.py", "b.py"]
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "PASSED", tmp_path / "passed.json")
    monkeypatch.setattr(suites, "files", lambda _: listed)
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(name)
    standing = suites.Standing({"one": suite})
    assert standing.unproven() == [suite]
    standing.keep(suite, suites.digest(suite), 12.4, "3 passed")
    assert standing.unproven() == []
    assert json.loads((tmp_path / "passed.json").read_text())["one"]["seconds"] == 12
    (tmp_path / "a.py").write_text("changed")
    assert standing.unproven() == [suite]
    (tmp_path / "a.py").write_text("a.py")
    assert standing.unproven() == []
    listed.append("c.py")
    assert standing.unproven() == [suite]
    del listed[0], listed[-1]
    assert standing.unproven() == [suite]


def test_what_was_edited_during_a_run_is_not_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite is kept with the digest that its files had when it began."""
    suite = suites.Suite(name="one", subject="one", minutes=1)
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "PASSED", tmp_path / "passed.json")
    monkeypatch.setattr(suites, "files", lambda _: ["a.py"])
    (tmp_path / "a.py").write_text("before")
    before = suites.digest(suite)
    (tmp_path / "a.py").write_text("after")
    standing = suites.Standing({"one": suite})
    standing.keep(suite, before, 1, "passed")
    assert standing.unproven() == [suite]


def test_two_runs_side_by_side_keep_the_suites_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another run noted since this one began stays."""
    rows = {name: suites.Suite(name=name, subject="", minutes=1) for name in ("one", "two")}
    monkeypatch.setattr(suites, "PASSED", tmp_path / "passed.json")
    monkeypatch.setattr(suites, "digest", lambda suite: suite.name)
    here, there = suites.Standing(rows), suites.Standing(rows)
    here.keep(rows["one"], "one", 1, "passed")
    there.keep(rows["two"], "two", 1, "passed")
    assert there.unproven() == []
    assert list(json.loads((tmp_path / "passed.json").read_text())) == ["one", "two"]


def test_a_test_beside_the_rooms_is_of_its_own_suite_only() -> None:
    """What all tests share is in each suite; a file of tests beside it only where it is run."""
    with_it = [
        suite.name for suite in KNOWN.values() if "tests/test_suites.py" in suites.files(suite)
    ]
    assert with_it == ["commands", "mutants"]
    assert all("tests/waiting.py" in suites.files(suite) for suite in KNOWN.values())


def test_the_longest_unproven_suite_comes_first() -> None:
    """One that never passed is before one that passed, and an older pass is before a newer one."""
    rows = {name: suites.Suite(name=name, subject="", minutes=1) for name in ("new", "old", "no")}
    passed = {
        "new": suites.Pass("other", 1, "passed", "2026-11-28"),
        "old": suites.Pass("other", 1, "passed", "2026-10-01"),
    }
    found = suites.Standing(rows, passed).unproven()
    assert [suite.name for suite in found] == ["no", "old", "new"]


def recorded(directory: Path, loop: float, **seconds: float) -> budgets.Spent:
    """What a run took, as its processes record it; names of tests by file, without their endings."""
    lines = [{"loop": loop}, *({"test": f"tests/{f}/test_x.py::t", "seconds": s, "wall": 1.0}
                               for f, s in seconds.items())]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / "seconds.1.jsonl").write_text(text)
    return budgets.spent(directory)


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of budgets, where `quick` may take 10 s for two directories."""
    file = tmp_path / "budgets.json"
    files = {"tests/a/test_x.py": 6.0, "tests/b/test_x.py": 4.0}
    file.write_text(json.dumps({"quick": {"limit": 10.0, "files": files}}))
    monkeypatch.setattr(budgets, "BUDGETS", file)
    return file


@pytest.mark.usefixtures("budget")
def test_a_run_a_fifth_over_its_budget_names_the_files_that_grew(tmp_path: Path) -> None:
    """Up to a fifth a run may grow; beyond, the file that grew most comes first."""
    assert budgets.grown("quick", recorded(tmp_path, 0.04, a=6.0, b=5.9)) == []
    said = budgets.grown("quick", recorded(tmp_path, 0.04, a=6.0, b=6.2))
    assert "took 12 processor seconds; its budget in tests/budgets.json is 10" in said[0]
    assert said[1] == "  tests/b/test_x.py: 6.2 s, budget 4.0 s"


@pytest.mark.usefixtures("budget")
def test_a_slower_host_takes_longer_and_keeps_its_budget(tmp_path: Path) -> None:
    """What a run took is divided by what the fixed work took in it."""
    assert budgets.grown("quick", recorded(tmp_path, 0.08, a=12.0, b=11.8)) == []
    assert budgets.grown("quick", recorded(tmp_path, 0.08, a=12.0, b=12.4)) != []


@pytest.mark.usefixtures("budget")
def test_the_table_says_what_each_directory_took_and_left(tmp_path: Path) -> None:
    """One line a directory: its tests, those left to `make test-all`, its seconds and its budget."""
    lines = budgets.table("quick", recorded(tmp_path, 0.04, a=5.0), {"tests/c": 7})
    assert [line.split() for line in lines[1:4]] == [
        ["tests/a", "1", "0", "5.0", "6.0"],
        ["tests/c", "0", "7", "0.0", "0.0"],
        ["all", "1", "7", "5.0", "10.0"],
    ]


def test_who_raises_one_budget_lowers_another(budget: Path, tmp_path: Path) -> None:
    """A budget that is written keeps the limit of its run, and more than the limit is said."""
    assert list(budgets.sums_within_limits()) == []
    budgets.write("quick", recorded(tmp_path, 0.04, a=8.0, b=4.0))
    assert json.loads(budget.read_text())["quick"]["limit"] == 10.0
    assert list(budgets.sums_within_limits()) == [
        "quick: the budgets add up to 12, its limit is 10"
    ]


def test_the_budgets_of_the_tree_are_within_their_limits() -> None:
    """What tests/budgets.json says of each run adds up to at most its limit."""
    assert list(budgets.sums_within_limits()) == []


#: Notes its number and waits for a signal, which it heeds also where the run of the tests ignores it.
WAITS = """
import os, pathlib, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
note = pathlib.Path(sys.argv[1])
note.with_suffix(".new").write_text(str(os.getpid()))
note.with_suffix(".new").rename(note)
signal.pause()
"""


def test_an_interrupted_suite_ends_with_what_it_started(tmp_path: Path) -> None:
    """Ctrl-C reaches the programs below a suite that is a command: a shell waits for its own."""
    waits, note = tmp_path / "waits.py", tmp_path / "begun"
    waits.write_text(WAITS)
    shell = ["sh", "-c", '"$0" "$1" "$2"; echo "it ended"', sys.executable, str(waits), str(note)]
    started = run_tests.Running(shell, {}, chain=True)
    until(note.exists, "the program waits")
    program = Path("/proc", note.read_text())
    started.interrupt()
    until(lambda: not program.exists(), "the program below the shell has ended")
    started.show()
