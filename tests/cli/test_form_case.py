"""``vetro form-case``: a form filled in by a document."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from vetro.cli import cli

UI = """
Version: 2.1
Application: {size: $.p.size}
Forms: [{p: {fields: [{name: size, type: integer, maxValue: 3}]}}]
"""


def run(document: Any) -> Any:
    text = document if isinstance(document, str) else json.dumps(document)
    return CliRunner().invoke(cli, ["form-case"], input=text)


@pytest.mark.parametrize(
    ("ui", "size", "answer"),
    [
        (UI, "2", {"model": {"size": 2}}),
        (UI, "4", {"invalid": "p", "errors": {"size": ["Enter a number of at most 3"]}}),
        ("Version: 2", "4", {"error": "Application section is required", "line": 1, "column": 1}),
    ],
)
def test_a_case_is_answered_with_json(ui: str, size: str, answer: Any) -> None:
    """Objects, refused values and wrong forms are answers: exit code 0."""
    done = run({"ui": ui, "fqn": "org.acme.App", "data": {"p": {"size": size}}})
    assert (done.exit_code, json.loads(done.stdout)) == (0, answer)


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"fqn": "a"}'])
def test_what_is_no_case_is_an_error(text: str) -> None:
    """Exit code 1 and a line that says what a case is."""
    done = run(text)
    assert done.exit_code == 1
    assert not done.stdout
    assert "docs/forms.md" in done.stderr
