"""The case tables: one YAML file for each section of the specification.

A row has `expression`, perhaps `flavour`, `data` and `variables`, and either `result` or `error`
(one of the names a program may catch). With an error may stand `message` (how it begins), `hint`
and `at` (the offset of the place in the expression).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.tables import read_table

from vetro.yaql import (
    MURANOPL,
    YaqlException,
    YaqlParsingException,
    ast,
    compile,
    legacy_names,
    parse,
)
from vetro.yaql.standard import AREAS

CASES = Path(__file__).parent / "cases"


def rows(pattern: str) -> list[Any]:
    """The rows of the tables that match, each with an id that names its file and number."""
    found: list[Any] = []
    for path in sorted(CASES.glob(pattern)):
        for number, row in enumerate(read_table(path), 1):
            found.append(pytest.param(row, id=f"{path.stem}-{number}"))
    return found


def names_of(error: BaseException) -> set[str]:
    """The names under which a failure is known."""
    return {type(error).__name__, *(name.rpartition(".")[2] for name in legacy_names(error))}


def place_of(error: Exception, text: str) -> int | None:
    """The offset that a failure names: its own, else the one its note says."""
    if isinstance(error, YaqlException):
        return error.position
    for note in getattr(error, "__notes__", []):
        found = re.search(r"line (\d+), column (\d+)$", note)
        if found is not None:
            lines = text.splitlines(keepends=True)[: int(found[1]) - 1]
            return len("".join(lines)) + int(found[2]) - 1
    return None


@pytest.mark.parametrize("row", rows("section_[1-9]_*.yaml"))
def test_row(row: dict[str, Any]) -> None:
    """An expression has the result, or fails with the exception, that its row says."""
    text = row["expression"]
    try:
        expression = compile(text, flavour=row.get("flavour", "current"))
        result = expression.evaluate(row.get("data"), row.get("variables"))
    except Exception as error:
        assert "error" in row, f"{text} failed"
        assert row["error"] in names_of(error)
        if "message" in row:
            said = error.message if isinstance(error, YaqlException) else str(error.args[0])
            assert said.startswith(row["message"])
            assert getattr(error, "hint", None) == row.get("hint")
            assert place_of(error, text) == row.get("at")
        return
    assert "error" not in row, f"{text} should fail with {row['error']}, is {result!r}"
    assert result == row["result"]
    assert type(result) is type(row["result"])


@pytest.mark.parametrize("row", rows("section_10_*.yaml"))
def test_muranopl_grammar(row: dict[str, Any]) -> None:
    """A text is an expression of the MuranoPL grammar exactly when its row says so."""
    try:
        tree = type(parse(row["text"], MURANOPL)).__name__
    except YaqlParsingException:
        tree = None
    assert tree == row["tree"]


def test_number_of_cases() -> None:
    """The tables hold at least the promised number of cases."""
    assert len(rows("*.yaml")) >= 1400


def test_every_name_has_a_case() -> None:
    """Each function and property of the standard library is used by a row without an error."""
    used: set[str] = set()
    for param in rows("section_[1-9]_*.yaml"):
        row = param.values[0]
        if "error" in row:
            continue
        for node in ast.walk(parse(row["expression"])):
            if isinstance(node, (ast.Call, ast.MethodCall)):
                used.add(node.name)
            elif isinstance(node, ast.Property):
                used.add(f"#property#{node.name}")
    defined = {name for names in AREAS.values() for name in names.split()}
    assert defined - used == set()
