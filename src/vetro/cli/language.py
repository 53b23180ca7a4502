"""``vetro run``, ``vetro eval`` and ``vetro check``: the languages without any service."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from vetro.cli.output import emit_json, emit_rows, fail, json_option, wants_json


def parse_arguments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``name=JSON`` pairs; text that is not JSON is taken as text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            fail(f"--arg {pair}: expected NAME=JSON", "For example --arg n=5.", 2)
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _is_static(runtime: Any, class_name: str, method: str) -> bool:
    found = runtime.type(class_name).find_method(method)
    return bool(found is not None and found.is_static)


@click.command("run")
@click.argument("packages", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--class", "class_name", required=True, metavar="FQN", help="The class.")
@click.option("--method", required=True, metavar="NAME", help="The method to call.")
@click.option("--arg", "arguments", multiple=True, metavar="NAME=JSON", help="An argument.")
@click.option("--model", "model_file", type=click.File(), help="An object model to load first.")
@json_option
def run(
    packages: tuple[Path, ...],
    class_name: str,
    method: str,
    arguments: tuple[str, ...],
    model_file: Any,
) -> None:
    """Run one method of a class of PACKAGES (directories or zips), in this process."""
    from vetro.muranopl import MuranoError, Runtime
    from vetro.packages import PackageError, open_package

    started = time.perf_counter()
    runtime = Runtime()
    try:
        for path in packages:
            runtime.add_package(open_package(path))
        runtime.compile_all()
    except PackageError as error:
        fail(str(error), "'vetro check' lists everything that is wrong.")
    except MuranoError as error:
        fail(str(error))
    loaded = time.perf_counter()
    values = parse_arguments(arguments)
    try:
        with runtime.session() as session:
            if model_file is not None:
                target = session.load(json.load(model_file))
            elif _is_static(runtime, class_name, method):
                target = runtime.type(class_name)
            else:
                target = session.load({"Objects": {"?": {"type": class_name, "id": "root"}}})
            if target is None:
                fail("The model has no root object", "Its 'Objects' must be an object.")
            result = session.serialize(session.call(target, method, **values))
    except MuranoError as error:
        fail(f"{error}\n{error.stack_trace}".rstrip())
    finished = time.perf_counter()
    if wants_json():
        emit_json(
            {
                "result": result,
                "load_seconds": round(loaded - started, 6),
                "seconds": round(finished - loaded, 6),
            }
        )
    else:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))


@click.command("eval")
@click.argument("expression")
@click.option("--data", help="JSON that $ stands for; '-' reads standard input.")
@json_option
def eval_(expression: str, data: str | None) -> None:
    """Evaluate a YAQL EXPRESSION and print the result as JSON."""
    from vetro.yaql import YaqlException, evaluate

    if data == "-":
        data = sys.stdin.read()
    try:
        value = json.loads(data) if data is not None else None
    except ValueError as error:
        fail(f"--data is not JSON: {error}", exit_code=2)
    try:
        emit_json(evaluate(expression, value))
    except YaqlException as error:
        fail(str(error))


@click.command("check")
@click.argument("packages", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--github", is_flag=True, help="Print GitHub annotations.")
@json_option
def check(packages: tuple[Path, ...], github: bool) -> None:
    """Validate PACKAGES (directories or zips); exit 1 when one has errors."""
    from vetro.engine.running import bare_runtime, preload
    from vetro.packages import check as check_package

    rows: list[dict[str, Any]] = []
    for path in packages:
        # The core library is checked on its own, everything else on top of it.
        core = path.resolve().name == "io.murano"
        for finding in check_package(path, bare_runtime() if core else preload()):
            rows.append(
                {
                    "file": finding.file or str(path),
                    "line": finding.line,
                    "column": finding.column,
                    "code": finding.code,
                    "level": finding.level,
                    "message": finding.message,
                }
            )
    if github:
        for row in rows:
            level = "error" if row["level"] == "error" else "warning"
            click.echo(
                f"::{level} file={row['file']},line={row['line'] or 1},"
                f"col={row['column'] or 1}::{row['code']} {row['message']}"
            )
    else:
        emit_rows(
            rows,
            [
                ("FILE", "file"),
                ("LINE", "line"),
                ("COLUMN", "column"),
                ("CODE", "code"),
                ("LEVEL", "level"),
                ("MESSAGE", "message"),
            ],
        )
    if any(row["level"] == "error" for row in rows):
        raise SystemExit(1)
