"""The packages that Vetro ships bring test classes, which pass and leave no statement of samples untried."""

import json
from pathlib import Path
from typing import Any

import pytest

LIBRARY = Path(__file__).parents[2] / "library"
# A Heat template has no test classes: tests/library/test_samples.py deploys it.
SAMPLES = sorted(
    path.parent
    for path in LIBRARY.glob("*/manifest.yaml")
    if "Heat.HOT" not in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_passes_its_own_tests(invoke: Any, sample: Path) -> None:
    """`vetro test` of the package as it ships."""
    code, text = invoke("test", sample, "--json", "--coverage", "--jobs", "1")
    document = json.loads(text)
    failures = [item["trace"] for item in document["tests"] if item["outcome"] != "passed"]
    assert failures == []
    # What is released or destroyed in the end says nothing, either.
    assert {item["name"]: item["warnings"] for item in document["tests"] if item["warnings"]} == {}
    assert code == 0
    assert len(document["tests"]) >= 3
    if sample.name != "io.murano":  # tests/library tries the rest of it
        assert document["coverage"]["percent"] == 100.0, document["coverage"]
