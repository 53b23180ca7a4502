"""Compares the programs that tests started with the packages that set-up installs.

`run_tests.py` calls it after the tests, with what `tests/conftest.py` recorded. A program that no package
of `system-packages.sh` brings is there by accident: on a fresh machine its test fails. A test that starts
programs of the machine has the marker `programs` (or `root`, or `e2e`), so that `make fresh` runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: A test with one of these is run by `make fresh`.
MARKERS = frozenset({"programs", "root", "e2e"})
#: What `make fresh` starts from, beside what is essential in Debian.
START = frozenset({"apt", "make", "python3"})
_FIELDS = ("Package", "Essential", "Provides", "Pre-Depends", "Depends", "Recommends")


def installed() -> tuple[dict[str, set[str]], set[str]]:
    """What each installed package brings along, by name or by what it provides; and the base system."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "\t".join(f"${{{field}}}" for field in _FIELDS) + "\n"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    needs: dict[str, set[str]] = defaultdict(set)
    base = {*START}
    for line in shown.splitlines():
        name, essential, provides, *relations = line.split("\t")
        needs[name] |= _names(relations)
        for virtual in _names([provides]):
            needs[virtual].add(name)
        if essential == "yes":
            base.add(name)
    return needs, base


def _names(relations: Iterable[str]) -> set[str]:
    found = (
        re.match(r"[a-z0-9.+-]+", part.strip()) for part in re.split("[,|]", ",".join(relations))
    )
    return {one.group() for one in found if one}


def closure(names: Iterable[str], needs: dict[str, set[str]]) -> set[str]:
    """These packages and all that come with them."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += needs.get(name, ())
    return found


def owner(program: str) -> str | None:
    """The package a program is of, or None."""
    # Since /usr was merged, a file is in the database by either path; alternatives are links.
    for path in {program, os.path.realpath(program)}:
        for known in (path, path.removeprefix("/usr")):
            done = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True)
            for line in done.stdout.splitlines():
                if not line.startswith("diversion "):
                    return line.split(":")[0]
    return None


def problems(records: Iterable[dict[str, str | list[str]]]) -> list[str]:
    """What must be mended, one line each; `records` have `test`, `markers` and `program` (a path)."""
    needs, base = installed()
    listed = subprocess.run(
        [ROOT / "tools/system-packages.sh", "test", "--list"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    given = closure([*listed, *base], needs)
    minimal = closure(base, needs)
    users: dict[str, list[dict[str, str | list[str]]]] = defaultdict(list)
    for record in records:
        users[str(record["program"])].append(record)
    found: list[str] = []
    for program, uses in sorted(users.items()):
        package = owner(program)
        if package in minimal:
            continue
        tests = sorted({str(use["test"]) for use in uses})
        if package not in given:
            whose = f"is of {package}, which" if package else "is of no package:"
            found.append(
                f"{program} {whose} tools/system-packages.sh does not install; {tests[0]} starts it"
            )
            continue
        bare = sorted({str(use["test"]) for use in uses if not MARKERS & {*use["markers"]}})
        if bare:
            found.append(
                f"{program} is started by {len(bare)} tests without the marker `programs`:"
                f" {', '.join(bare[:5])}"
            )
    return found


def recorded(directory: Path) -> list[dict[str, str | list[str]]]:
    """What all test processes recorded below a directory."""
    return [
        json.loads(line)
        for path in sorted(directory.glob("programs.*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
