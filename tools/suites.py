"""The suites of `make test-all`, and what is kept of those that passed.

`tests/suites.toml` says what each suite runs and which paths it covers. When a suite passes in full, the
digest of these paths, what it took and its result are written to `tests/passed.json`, which is committed. A
suite whose paths have changed since is unproven (decision 0788).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFINITIONS = ROOT / "tests/suites.toml"
PASSED = ROOT / "tests/passed.json"
#: What every suite depends on, and on the modules beside the rooms of the tests: they share those.
EVERY = ("constraints.txt", ":(glob)src/vetro/*.py")


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A part of all tests that is run, and proven, by itself.

    ``tests`` (patterns below the checkout) and ``marks`` are what pytest takes; ``root`` tests run in
    namespaces of their own. A suite of another kind has a ``command``. It covers its ``tests``, its ``rooms``
    of the source with all that these may import by the contracts of pyproject.toml, and ``paths``.
    ``minutes``: at most so long on two quiet cores; stands in for the time of a suite that never passed.
    """

    name: str
    subject: str
    minutes: float
    rooms: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    marks: str = "not root and not openstack"
    root: bool = False
    command: tuple[str, ...] = ()

    def selection(self) -> list[str]:
        """The files and directories that its tests are in."""
        return [
            str(path.relative_to(ROOT)) for given in self.tests for path in sorted(ROOT.glob(given))
        ]


@dataclass(frozen=True)
class Pass:
    """One time that a suite passed: the ``digest`` of its paths, its wall ``seconds``, result and day."""

    digest: str
    seconds: float
    result: str
    day: str


@dataclass(frozen=True)
class Standing:
    """All suites, and which of them passed when."""

    suites: dict[str, Suite]
    passed: dict[str, Pass] = field(default_factory=dict[str, Pass])

    def unproven(self) -> list[Suite]:
        """The suites whose paths changed since they passed, longest unproven first."""
        found = [
            suite
            for name, suite in self.suites.items()
            if name not in self.passed or self.passed[name].digest != digest(suite)
        ]
        return sorted(found, key=lambda suite: self._day(suite.name))

    def _day(self, name: str) -> str:
        return self.passed[name].day if name in self.passed else ""

    def seconds(self, suite: Suite) -> float:
        """What a suite takes on two quiet cores, as far as is known."""
        known = self.passed.get(suite.name)
        return known.seconds if known else 60 * suite.minutes

    def keep(self, suite: Suite, before: str, seconds: float, result: str) -> None:
        """Note in the tree that a suite passed.

        ``before`` is its digest when it began: what was edited while it ran is not proven.
        """
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        # Another run may have noted other suites since this one began.
        self.passed.update(passes(self.suites))
        self.passed[suite.name] = Pass(before, round(seconds), result, today)
        rows = {name: vars(self.passed[name]) for name in self.suites if name in self.passed}
        PASSED.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def standing() -> Standing:
    """What the tree says."""
    with DEFINITIONS.open("rb") as file:
        rows = tomllib.load(file)
    suites = {
        name: Suite(
            name=name, **{key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
        )
        for name, row in rows.items()
    }
    return Standing(suites, passes(suites))


def passes(suites: Iterable[str]) -> dict[str, Pass]:
    """What the tree has of these suites."""
    kept = json.loads(PASSED.read_text(encoding="utf-8")) if PASSED.exists() else {}
    return {name: Pass(**row) for name, row in kept.items() if name in suites}


def may_import() -> dict[str, list[str]]:
    """What each room of the source may import, by the contracts of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return {
        contract["room"].removeprefix("vetro."): contract.get("may_import", [])
        for contract in contracts
        if contract["type"] == "room"
    }


def source(rooms: Iterable[str]) -> set[str]:
    """These rooms of the source, as `compute` or `compute.wire`, and all that they may import."""
    allowed, found, waiting = may_import(), set[str](), [*rooms]
    while waiting:
        room = waiting.pop()
        if room not in found:
            found.add(room)
            waiting += allowed[room.partition(".")[0]]
    return found


def covered(suite: Suite) -> list[str]:
    """The paths that a suite covers, as git takes them."""
    beside = [path for path in (ROOT / "tests").glob("*.py") if not path.name.startswith("test_")]
    paths = [*EVERY, *(str(path.relative_to(ROOT)) for path in beside), *suite.paths]
    paths += [f":(glob){path}" if "*" in path else path for path in suite.tests]
    for room in sorted(source(suite.rooms)):
        directory = f"src/vetro/{room.replace('.', '/')}"
        paths += [directory, f"{directory}.py"]
    return paths


def files(suite: Suite) -> list[str]:
    """The files that a suite covers: those that git has or would take, without what suites write."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    shown = subprocess.run(
        [*listing, "--", *covered(suite)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    own = {str(path.relative_to(ROOT)) for path in (DEFINITIONS, PASSED)}
    return sorted({name for name in shown.split("\0") if name and name not in own})


def digest(suite: Suite) -> str:
    """A digest of the names and bytes of the files that a suite covers."""
    whole = hashlib.sha256()
    for name in files(suite):
        path = ROOT / name
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{name} {content}\n".encode())
    return whole.hexdigest()[:32]
