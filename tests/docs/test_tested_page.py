"""docs/compute/tested.md names tests that there are."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_the_page_names_is_there() -> None:
    """A test that is renamed or removed is also here."""
    page = (ROOT / "docs/compute/tested.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 15
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        found = {
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        assert name in found, (path, name)
