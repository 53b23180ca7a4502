"""``vetro workflow``: test definitions on recorded answers, and explain what they would do."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import cast

import click

from vetro.cli.terminal.documents import read_yaml
from vetro.cli.terminal.output import PrintingGroup, emit_json, fail, remarks_to_stderr, wants_json
from vetro.cli.terminal.paths import DIRECTORY, EITHER, FILE
from vetro.cli.workflows.definitions import document, files_of, manifest_of, shipped_folder
from vetro.json_values import Json


@click.group("workflow", cls=PrintingGroup)
def workflow() -> None:
    """XML workflows: test definitions, and explain what they do."""


@workflow.command("test")
@click.argument("folders", nargs=-1, required=True, type=EITHER)
def test(folders: tuple[Path, ...]) -> None:
    """Run cases and compare them with what they expect.

    Cases are the *.yaml and *.json files in the folders. A case
    may name a folder of definitions (`definitions`, relative to the case) for its files.
    Exit code 1 when a case does not hold.
    """
    remarks_to_stderr()
    files = [
        file
        for folder in folders
        for file in (
            [folder]
            if folder.is_file()
            else sorted([*folder.rglob("*.yaml"), *folder.rglob("*.json")])
        )
    ]
    if not files:
        fail(f"no case in {', '.join(map(str, folders))}", "A case is a *.yaml or *.json file.")
    results: list[dict[str, Json]] = []
    for file in files:
        loaded = document(file)
        for case in cast("list[Json]", loaded) if isinstance(loaded, list) else [loaded]:
            results.append(_tested(file, case))
    failed = [result for result in results if result["differences"]]
    if wants_json():
        emit_json(results)
    else:
        for result in results:
            click.echo(f"{'FAILED' if result['differences'] else 'ok'}  {result['case']}")
            for line in result["differences"]:
                click.echo(f"    {line}")
        click.echo(f"{len(results) - len(failed)} of {len(results)} cases hold")
    if failed:
        raise click.exceptions.Exit(1)


def _tested(file: Path, case: Json) -> dict[str, Json]:
    from vetro.workflows import CaseError, check_expected, differences, run_case

    known = dict(cast("dict[str, Json]", case)) if isinstance(case, dict) else {}
    expected = known.pop("expect", None)
    name = f"{file}: {known.get('description') or known.get('id') or 'case'}"
    folder = known.pop("definitions", None)
    try:
        if folder is not None:
            definitions = file.parent / str(folder)
            if not (definitions / "workflows").is_dir():
                raise CaseError(f"definitions: there is no folder {definitions / 'workflows'}")
            own: Json = known.get("files") or {}
            if not isinstance(own, dict):
                raise CaseError("files is not an object")
            known["files"] = _as_case(files_of(definitions)) | cast("dict[str, Json]", own)
        check_expected(expected)
        found = differences(expected or {}, run_case(known if known else case, read_yaml))
    except CaseError as error:
        found = [str(error)]
    return {"case": name, "differences": found}


def _as_case(contents: dict[str, bytes]) -> dict[str, Json]:
    return {
        path: {"base64": base64.b64encode(content).decode()} for path, content in contents.items()
    }


@workflow.command("explain")
@click.argument("model", type=FILE)
@click.option("--service", help="Only the files of this service type (with its manifest).")
@click.option(
    "--definitions",
    type=DIRECTORY,
    help="A folder of definitions [those that ship].",
)
@click.option(
    "--topology",
    type=click.Choice(["routed", "flat", "nova"]),
    default="routed",
    help="The topology of networks that the installation has [routed].",
)
def explain(
    model: Path,
    service: str | None,
    definitions: Path | None,
    topology: str,
) -> None:
    """Say what workflows would do with a model, and why.

    Per round: which rules fire, on what, what they change; the fragments of the stack
    and the plans that they queue (with --json also what is sent, whole). Nothing
    is touched: networks, stack and agents answer as in a case without replies. Texts under
    secret names are masked.
    """
    from vetro.workflows import CaseError, Trace, run_case, sanitised

    remarks_to_stderr()
    folder = definitions or shipped_folder()
    contents = files_of(folder)
    if service is not None:
        listed = set(cast("list[str]", manifest_of(folder, service).get("workflows") or []))
        contents = {
            path: content
            for path, content in contents.items()
            if not path.startswith("workflows/") or path.removeprefix("workflows/") in listed
        }
    trace = Trace()
    case = {
        "model": document(model),
        "files": _as_case(contents),
        "config": {"network_topology": topology},
    }
    try:
        result = run_case(case, read_yaml, trace=trace)
    except CaseError as error:
        fail(f"{model}: {error}")
    if wants_json():
        emit_json(
            {
                "events": [
                    {
                        "round": event.round,
                        "kind": event.kind,
                        "at": event.at,
                        "subject": event.subject,
                        "details": event.details,
                    }
                    for event in trace.events
                ],
                "left_out": trace.left_out,
                "effects": sanitised(result["effects"]),
                "rounds": result["rounds"],
                "stopped": result["stopped"],
                "error": result["error"],
            }
        )
        return
    current = 0
    for event in trace.events:
        if event.round != current:
            current = event.round
            click.echo(f"round {current}")
        details = json.dumps(event.details, ensure_ascii=False) if event.details else ""
        click.echo(f"  {event.kind:8} {event.subject}  {event.at}  {details}".rstrip())
    ending = result["error"] or ("stopped" if result["stopped"] else "at rest")
    click.echo(f"{ending} after {result['rounds']} rounds")
