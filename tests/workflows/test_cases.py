"""The case tables of the workflow language: one YAML file for each section of the specification.

A row has `rules` (the content of one file) or `files`, perhaps `model`, `config`, `replies` and `limits`,
and what it expects: `model` parts by path in `then`, `effects` as a list of parts, `error` (how it must
occur in the error), `rounds`, `stopped`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vetro.documents import read_yaml
from vetro.workflows import run_case

CASES = Path(__file__).parent / "cases"


def rows() -> list[Any]:
    found: list[Any] = []
    for path in sorted(CASES.glob("*.yaml")):
        for number, row in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")), 1):
            found.append(pytest.param(row, id=f"{path.stem}-{number}"))
    return found


def at(model: Any, path: str) -> Any:
    """What stands at a dotted path; a missing key is reported as such."""
    for step in path.split(".") if path else []:
        try:
            model = model[int(step)] if isinstance(model, list) else model[step]
        except (KeyError, IndexError, TypeError):
            return "<missing>"
    return model


def is_part(wanted: Any, actual: Any) -> bool:
    """Whether a map has at least the wanted entries; lists and scalars must be equal."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return all(key in actual and is_part(value, actual[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(actual, list):
        return len(wanted) == len(actual) and all(map(is_part, wanted, actual))
    return type(wanted) is type(actual) and wanted == actual


def document_of(row: dict[str, Any]) -> dict[str, Any]:
    files = dict(row.get("files", {}))
    if "rules" in row:
        files["workflows/Case.xml"] = f"<workflow>{row['rules']}</workflow>"
    document = {"model": row.get("model", {"id": "e1"}), "files": files}
    return document | {key: row[key] for key in ("config", "replies", "limits") if key in row}


@pytest.mark.parametrize("row", rows())
def test_case(row: dict[str, Any]) -> None:
    """A row of the tables does what it says."""
    result = run_case(document_of(row), read_yaml)
    if "error" in row:
        assert row["error"] in (result["error"] or "")
    else:
        assert result["error"] is None
    for path, value in row.get("then", {}).items():
        actual = at(result["model"], path)
        assert type(actual) is type(value), (path, actual)
        assert actual == value, path
    if "effects" in row:
        effects = [effect for effect in result["effects"] if effect["kind"] != "report"]
        assert is_part(row["effects"], effects), effects
    if "reports" in row:
        reports = [effect for effect in result["effects"] if effect["kind"] == "report"]
        assert is_part(row["reports"], reports), reports
    for key in ("rounds", "stopped"):
        if key in row:
            assert result[key] == row[key]
