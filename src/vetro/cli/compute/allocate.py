"""``vetro allocate``: the allocator as a pure function of a case in a file."""

from __future__ import annotations

import json
from typing import TextIO, cast

import click

from vetro.cli.terminal.documents import json_in
from vetro.cli.terminal.output import remarks_to_stderr
from vetro.cli.terminal.paths import TEXT
from vetro.json_values import JsonObject

NAMED = 3
RANKED = 10

CASE = "A case is a JSON object with 'servers', 'vm'."


@click.command("allocate")
@click.option(
    "--case",
    "case_file",
    type=TEXT,
    required=True,
    help="A case, or a list.",
)
@click.option("--explain", is_flag=True, help="Show what each step dropped, and why, as a table.")
def allocate(case_file: TextIO, explain: bool) -> None:
    """Place a VM on one of a case's servers; one line of JSON a case."""
    from vetro.compute.allocation import allocate_case

    remarks_to_stderr()
    document: object = json_in(case_file, CASE)
    cases = cast("list[object]", document if isinstance(document, list) else [document])
    for case in cases:
        result = allocate_case(case)
        if explain:
            show_explanation(result, case)
        else:
            click.echo(json.dumps(result))


def show_explanation(result: JsonObject, case: object = None) -> None:
    """The steps of one allocation as a table: who was dropped at each, and why; then the ranking."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    title = cast("JsonObject", case).get("description") if isinstance(case, dict) else None
    if title and isinstance(title, str):
        console.print(escape(title), style="bold")
    if "invalid" in result:
        console.print(
            f"invalid {result['invalid']}: {result['message']}", style="red", markup=False
        )
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("STEP", overflow="fold", ratio=2)
    table.add_column("LEFT", justify="right")
    table.add_column("DROPPED", justify="right")
    table.add_column("WHY", overflow="fold", ratio=3)
    before: list[str] = []
    for number, step in enumerate(cast("list[JsonObject]", result["steps"])):
        remaining = cast("list[str]", step["remaining"])
        left = set(remaining)
        dropped = [uuid for uuid in before if uuid not in left]
        reasons = cast("dict[str, str]", step.get("reasons") or {})
        idle = "skip" in reasons or (not dropped and not reasons and number > 0)
        table.add_row(
            escape(str(step["step"])),
            str(len(remaining)),
            str(len(dropped)) if dropped else "",
            escape("\n".join(why(dropped, reasons))),
            style="dim" if idle else "red" if not remaining else "",
        )
        before = remaining
    console.print(table)
    scores = cast("dict[str, float]", result["scores"])
    if result["chosen"] is None:
        console.print(str(result["error"]), style="red", markup=False)
        return
    ranking = Table(box=None, header_style="bold", pad_edge=False)
    ranking.add_column("SCORE", justify="right")
    ranking.add_column("SERVER")
    # Of equals the latest in the list wins.
    ranked = sorted(enumerate(scores), key=lambda one: (-scores[one[1]], -one[0]))
    for _, uuid in ranked[:RANKED]:
        style = "green" if uuid == result["chosen"] else ""
        ranking.add_row(f"{scores[uuid]:.2f}", escape(uuid), style=style)
    console.print(ranking)
    if len(ranked) > RANKED:
        console.print(f"and {len(ranked) - RANKED} more", style="dim")
    console.print(f"chosen: {result['chosen']}", style="green", markup=False)


def why(dropped: list[str], reasons: dict[str, str]) -> list[str]:
    """Lines for one step: what holds for all, then each reason with the servers it is about."""
    lines = [reasons[name] for name in ("skip", "*") if name in reasons]
    by_text: dict[str, list[str]] = {}
    for uuid in dropped:
        by_text.setdefault(reasons.get(uuid, ""), []).append(uuid)
    for text, uuids in by_text.items():
        named = ", ".join(uuids[:NAMED])
        if len(uuids) > NAMED:
            named += f" and {len(uuids) - NAMED} more"
        lines.append(f"{text}: {named}" if text else named)
    others = {uuid: text for uuid, text in reasons.items() if uuid not in ("*", "skip", *dropped)}
    lines += [f"{text}: {uuid}" for uuid, text in list(others.items())[:NAMED]]
    if len(others) > NAMED:
        lines.append(f"and {len(others) - NAMED} more")
    return lines
