"""The case tables of the workflow language: one YAML file for each section of the specification.

A row has `rules` (the content of one file) or `files`, perhaps `model`, `config`, `replies` and `limits`,
and what it expects: `model` parts by path in `then`, `effects` as a list of parts, `error` (how it must
occur in the error), `rounds`, `stopped`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tables import read_table

from vetro.documents import read_yaml
from vetro.workflows import differences, run_case

CASES = Path(__file__).parent / "cases"


def rows() -> list[Any]:
    found: list[Any] = []
    for path in sorted(CASES.glob("*.yaml")):
        for number, row in enumerate(read_table(path), 1):
            found.append(pytest.param(row, id=f"{path.stem}-{number}"))
    return found


def document_of(row: dict[str, Any]) -> dict[str, Any]:
    files = dict(row.get("files", {}))
    if "rules" in row:
        files["workflows/Case.xml"] = f"<workflow>{row['rules']}</workflow>"
    document = {"model": row.get("model", {"id": "e1"}), "files": files}
    return document | {key: row[key] for key in ("config", "replies", "limits") if key in row}


@pytest.mark.parametrize("row", rows())
def test_case(row: dict[str, Any]) -> None:
    """A row of the tables does what it says."""
    expected = {
        key: row[key] for key in ("error", "effects", "reports", "rounds", "stopped") if key in row
    }
    result = run_case(document_of(row), read_yaml)
    assert differences(expected | {"model": row.get("then", {})}, result) == []
