"""``vetro form-case``: a form filled in by a document, JSON in and JSON out."""

from __future__ import annotations

import json
from typing import TextIO

import click

from vetro.cli.terminal.documents import NotADocument, read_json, text_of
from vetro.cli.terminal.output import fail, remarks_to_stderr
from vetro.cli.terminal.paths import TEXT

HINT = "A case is a JSON object with 'ui', 'fqn' and 'data': see docs/forms.md."


@click.command("form-case")
@click.argument("case_file", type=TEXT, default="-")
def form_case(case_file: TextIO) -> None:
    """Fill in a form as a case on standard input says; print the object, or what is refused, as JSON.

    The exit code is 0 also when values are refused or the form is wrong, which the document says; 1
    when the case cannot be read.
    """
    from vetro.packages.forms import run_case

    remarks_to_stderr()
    try:
        result = run_case(read_json(text_of(case_file)))
    except (NotADocument, ValueError) as error:
        fail(f"{case_file.name}: {error}", HINT)
    click.echo(json.dumps(result, ensure_ascii=False))
