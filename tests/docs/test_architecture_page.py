"""docs/architecture.md says where behaviours live, and they do."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([^|]+) \| `(vetro(?:\.\w+)+)` \|$", re.M)


def defined(dotted: str) -> bool:
    """Whether a name with its module, or a module, is in the sources."""
    parts = dotted.split(".")
    for count in range(len(parts), 1, -1):
        place = ROOT.joinpath("src", *parts[:count])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if not file.is_file():
            continue
        rest = parts[count:]
        names: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
        for name in rest:
            found = [
                node
                for node in names
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
                and node.name == name
            ]
            if not found:
                return False
            names = found[0].body
        return True
    return False


def test_every_behaviour_is_where_the_page_says() -> None:
    """Each row of the table names a function or class that the sources define at that place."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = ROW.findall(page.partition("## Where behaviours live")[2])
    assert len(rows) >= 40
    assert len({behaviour for behaviour, _ in rows}) == len(rows)
    assert [place for _, place in rows if not defined(place)] == []


def test_a_wrong_place_is_noticed() -> None:
    """A name that a module does not define, and a module that is not there, are no places."""
    assert defined("vetro.storage.leases.LeaseQueue.claim")
    assert not defined("vetro.storage.leases.NoSuchQueue")
    assert not defined("vetro.nowhere.LeaseQueue")
