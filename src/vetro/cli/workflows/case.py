"""``vetro workflow-case``: one task of XML workflows with recorded answers, JSON in and JSON out."""

from __future__ import annotations

import json
from typing import TextIO

import click

from vetro.cli.terminal.documents import NotADocument, read_json, read_yaml, text_of
from vetro.cli.terminal.output import fail, remarks_to_stderr
from vetro.cli.terminal.paths import TEXT

HINT = "A case is a JSON object with 'model', 'files' and 'replies': see docs/workflows.md."


@click.command("workflow-case")
@click.argument("case_file", type=TEXT, default="-")
def workflow_case(case_file: TextIO) -> None:
    """Run a case of XML workflows from standard input and print what it did, as one JSON document.

    The exit code is 0 also when the task ends in an error, which the document says.
    """
    from vetro.workflows import CaseError, run_case

    remarks_to_stderr()
    try:
        result = run_case(read_json(text_of(case_file)), read_yaml)
    except (NotADocument, CaseError) as error:
        fail(f"{case_file.name}: {error}", HINT)
    click.echo(json.dumps(result, ensure_ascii=False))
