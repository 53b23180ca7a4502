"""Pages that promise what happens when something goes wrong name tests that there are."""

import ast
import re
from pathlib import Path

import pytest

from vetro.packages import open_package

ROOT = Path(__file__).resolve().parents[2]
PAGES = [("compute/tested.md", 15), ("framework.md", 15), ("library.md", 80)]


def test_every_test_class_the_page_of_the_framework_names_is_there() -> None:
    """Tests of the package itself, each with its class."""
    package = open_package(ROOT / "library/io.murano.applications")
    texts = "\n---\n".join(package.read_class(file) for file in set(package.classes.values()))
    there = {
        f"{name[1]}.{method}"
        for text in re.split(r"^---$", texts, flags=re.M)
        if (name := re.search(r"^Name: (\w+Test)$", text, re.M))
        for method in re.findall(r"^  (test\w+):", text, re.M)
    }
    page = (ROOT / "docs/framework.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+Test\.test\w+)`", page)
    assert len(named) >= 60
    assert sorted(set(named) - there) == []


@pytest.mark.parametrize(("page", "least"), PAGES)
def test_every_test_the_page_names_is_there(page: str, least: int) -> None:
    """A test that is renamed or removed is also here."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(named) >= least
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        found = {
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        assert name in found, (path, name)
