"""Copies what an installation runs with from this interpreter's environment: `runtime_packages.py DIRECTORY`.

`make setup` installed it by the hashes of hashes.txt: copying takes a second, installing it again 40.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import files, requires
from pathlib import Path


def canonical(name: str) -> str:
    """A project's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str) -> set[str]:
    """What a project needs, itself included, without the extras `dev` and `vm` of ours."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    left: list[tuple[str, frozenset[str]]] = [(name, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        one, extras = left.pop()
        if (one, extras) in seen:
            continue
        seen.add((one, extras))
        found.add(one)
        for text in requires(one) or []:
            wanted = Requirement(text)
            environments = [{"extra": extra} for extra in ("", *extras)]
            if wanted.marker is None or any(wanted.marker.evaluate(e) for e in environments):
                left.append((canonical(wanted.name), frozenset(wanted.extras)))
    return found


def main() -> None:
    """Copy the files of each, without commands and without compiled code."""
    target = Path(sys.argv[1])
    for name in sorted(needed("vetro") - {"vetro"}):
        for file in files(name) or []:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                place = target / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), place)


if __name__ == "__main__":
    main()
