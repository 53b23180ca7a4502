"""The case tables: one YAML file for each section of the specification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vetro.yaql import MURANOPL, YaqlParsingException, compile, legacy_names, parse

CASES = Path(__file__).parent / "cases"


def rows(pattern: str) -> list[Any]:
    """The rows of the tables that match, each with an id that names its file and number."""
    found: list[Any] = []
    for path in sorted(CASES.glob(pattern)):
        for number, row in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), 1):
            found.append(pytest.param(row, id=f"{path.stem}-{number}"))
    return found


def names_of(error: BaseException) -> set[str]:
    """The names under which a failure is known."""
    return {type(error).__name__, *(name.rpartition(".")[2] for name in legacy_names(error))}


@pytest.mark.parametrize("row", rows("section_[1-9]_*.yaml"))
def test_row(row: dict[str, Any]) -> None:
    """An expression has the result, or fails with the exception, that its row says."""
    try:
        expression = compile(row["expression"], flavour=row.get("flavour", "current"))
        result = expression.evaluate(row.get("data"), row.get("variables"))
    except Exception as error:
        assert "error" in row, f"{row['expression']} failed"
        assert row["error"] in names_of(error)
        return
    assert "error" not in row, f"{row['expression']} should fail with {row['error']}, is {result!r}"
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
    assert len(rows("*.yaml")) >= 1000
