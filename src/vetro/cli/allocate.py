"""``vetro allocate``: the allocator as a pure function of a case in a file."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from vetro.cli.output import fail


@click.command("allocate")
@click.option("--case", "case_file", type=click.File(), required=True, help="A case, or a list.")
@click.option("--explain", is_flag=True, help="Show what each step dropped, and why, as a table.")
def allocate(case_file: Any, explain: bool) -> None:
    """Place a VM on one of a case's servers; one line of JSON a case."""
    from vetro.compute.allocation import allocate_case

    try:
        document: Any = json.load(case_file)
    except ValueError as error:
        fail(
            f"{case_file.name}: not JSON: {error}", "A case is a JSON object with 'servers', 'vm'."
        )
    cases = cast("list[dict[str, Any]]", document if isinstance(document, list) else [document])
    for case in cases:
        result = allocate_case(case)
        if explain:
            show_explanation(result)
        else:
            click.echo(json.dumps(result))


def show_explanation(result: dict[str, Any]) -> None:
    """The steps of one allocation as a table."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if "invalid" in result:
        console.print(f"invalid {result['invalid']}: {result['message']}", style="red")
        return
    table = Table(box=None, header_style="bold")
    for title in ("STEP", "SERVERS LEFT", "DROPPED, AND WHY"):
        table.add_column(title, overflow="fold")
    for step in result.get("steps", []):
        reasons = cast("dict[str, str]", step.get("reasons") or {})
        text = "\n".join(f"{server}: {reason}" for server, reason in reasons.items())
        remaining = step.get("remaining", [])
        table.add_row(
            str(step["step"]),
            str(len(cast("list[str]", remaining)) if isinstance(remaining, list) else remaining),
            text,
        )
    console.print(table)
    console.print(
        f"chosen: {result['chosen']}" if result.get("chosen") else f"no server: {result['error']}",
        style="green" if result.get("chosen") else "red",
    )
