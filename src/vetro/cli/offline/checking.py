"""``vetro check``: everything that is wrong with packages, at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vetro.cli.offline.options import library_option
from vetro.cli.terminal.output import counted, emit_json, fail, json_flag, remark, wants_json
from vetro.cli.terminal.paths import PACKAGE, package_there

if TYPE_CHECKING:
    from vetro.muranopl import PackageResolver, PackageSource
    from vetro.packages import Finding

NOT_A_PACKAGE = 2
INTERNAL_ERROR = 3


def _codes(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    """Whether findings of a code are shown; `E2` stands for every code that begins so."""
    chosen = not select or any(code.startswith(item) for item in select)
    return chosen and not any(code.startswith(item) for item in ignore)


def refuse_unknown_codes(codes: Sequence[str]) -> None:
    """End the command at a code, or beginning of one, that there is not."""
    from vetro.packages import CODES

    for code in codes:
        # Those with a prefix belong to plug-ins, which the package at hand names.
        if ":" not in code and not any(known.startswith(code) for known in CODES):
            fail(f"There is no code '{code}'", "'vetro check --codes' lists them.", 2)


def discover(paths: Sequence[Path]) -> Iterator[Path]:
    """Packages below directories: folders with a manifest (not below another), and archives."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        if (path / "manifest.yaml").is_file():
            yield path
            continue
        below = sorted(item for item in path.iterdir() if not item.name.startswith("."))
        yield from discover([item for item in below if item.is_dir() or item.suffix == ".zip"])


def _escaped(text: str, *, is_property: bool = False) -> str:
    """Text as a workflow command of GitHub takes it."""
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_property else text


def github_annotation(row: dict[str, Any]) -> str:
    """A finding as a line that GitHub shows at its place."""
    file = _escaped(str(row["path"]), is_property=True)
    place = f"file={file}"
    if row["line"]:
        place += f",line={row['line']},col={row['column'] or 1}"
    title = f"title={row['code']}"
    return f"::{row['level']} {place},{title}::{_escaped(row['code'] + ' ' + row['message'])}"


def text_line(row: Mapping[str, object]) -> str:
    """A finding as `file:line:column: code message`."""
    place = str(row["path"])
    if row["line"]:
        place += f":{row['line']}:{row['column'] or 1}"
    colour = "red" if row["level"] == "error" else "yellow"
    return f"{place}: {click.style(row['code'], fg=colour)} {row['message']}"


def row_of(path: Path, finding: Finding) -> dict[str, object]:
    """A finding as JSON; `path` is where the file can be opened."""
    inside = finding.file
    real = str(path / inside) if inside and path.is_dir() else f"{path}{'!' if inside else ''}"
    if inside and not path.is_dir():
        real += inside
    return {
        "package": str(path),
        "file": inside,
        "path": real,
        "line": finding.line,
        "column": finding.column,
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
    }


def _show_codes(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if not value:
        return
    from vetro.packages import CODES

    for code, meaning in CODES.items():
        click.echo(f"{code}  {meaning}")
    context.exit()


@click.command("check")
@click.argument("packages", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--select", default="", metavar="CODES", help="Only these codes (E2,W010).")
@click.option("--ignore", default="", metavar="CODES", help="Not these codes.")
@click.option("--discover", "search", is_flag=True, help="Check every package below directories.")
@click.option("--strict", is_flag=True, help="Warnings fail the command, too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github", "json"]),
    default="text",
    show_default=True,
    help="How findings are printed; github makes annotations of a pull request.",
)
@library_option("the checked ones require")
@click.option(
    "--codes",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_codes,
    help="List the codes and what they mean.",
)
@json_flag
def check(
    packages: tuple[Path, ...],
    select: str,
    ignore: str,
    search: bool,
    strict: bool,
    form: str,
    libraries: tuple[Path, ...],
) -> None:
    """List everything that is wrong with PACKAGES (directories or zips).

    Exit code 0: no errors; 1: errors (with --strict: or warnings); 2: not a package.
    """
    from vetro.packages import NotAPackage

    refuse_unknown_codes((*_codes(select), *_codes(ignore)))
    rows: list[dict[str, object]] = []
    chosen = list(discover(packages)) if search else list(packages)
    if not chosen:
        fail(
            "There is no package below the directories",
            PACKAGE,
            NOT_A_PACKAGE,
        )
    for path in chosen:
        package_there(path, NOT_A_PACKAGE)
        try:
            found = find(path, libraries)
        except NotAPackage as error:
            fail(f"{path}: {error.message}", PACKAGE, NOT_A_PACKAGE)
        except Exception as error:
            remark(f"Error: {path}: the check itself failed: {error!r}")
            raise SystemExit(INTERNAL_ERROR) from error
        shown = [item for item in found if wanted(item.code, _codes(select), _codes(ignore))]
        rows.extend(row_of(path, item) for item in shown)
    if form == "json" or wants_json():
        emit_json(rows)
    else:
        line = github_annotation if form == "github" else text_line
        for row in rows:
            click.echo(line(row))
        if form == "text":
            click.echo(summary(rows))
    if any(row["level"] == "error" or strict for row in rows):
        raise SystemExit(1)


def summary(rows: Sequence[Mapping[str, object]]) -> str:
    """How many findings there are, in words."""
    errors = sum(row["level"] == "error" for row in rows)
    warnings = len(rows) - errors
    if not errors and not warnings:
        return "No errors found!"
    parts = [counted(errors, "error")] if errors else []
    return ", ".join([*parts, counted(warnings, "warning")])


def find(
    path: Path, libraries: Sequence[Path], catalog: PackageResolver | None = None
) -> list[Finding]:
    """The findings of one package, on top of the class library and what it requires.

    ``catalog``: where required packages are that are in no directory.
    """
    if not _uses_library(path):
        found = _find(path, libraries, catalog, library=False)
        # The hint for an unknown class may name one of the class library.
        if not any(item.code == "E301" for item in found):
            return found
    return _find(path, libraries, catalog, library=True)


def _uses_library(path: Path) -> bool:
    """Whether a package may need the class library; loading it takes most of the time."""
    from vetro.cli.offline.world import mentions_core
    from vetro.packages import PackageError, open_package

    try:
        package = open_package(path)
        return bool(package.requirements) or mentions_core(package)
    except PackageError:
        return True


def _find(
    path: Path,
    libraries: Sequence[Path],
    catalog: PackageResolver | None,
    *,
    library: bool,
) -> list[Finding]:
    from vetro.cli.offline.world import SearchPath, library_directory, load_plugins
    from vetro.muranopl import Runtime, enable_testing
    from vetro.packages import check as check_package
    from vetro.packages import open_package

    runtime = Runtime()
    if library:
        from vetro.engine.system import system_runtime

        runtime = system_runtime()
    directories = SearchPath([*libraries, path.resolve().parent, library_directory()])
    runtime.resolver = FirstOf([directories, *([catalog] if catalog else [])])
    enable_testing(runtime)
    load_plugins(runtime)
    # The class library is checked on its own, everything else on top of it.
    if library and path.resolve().name not in ("io.murano", "io.murano.zip"):
        runtime.add_package(open_package(library_directory() / "io.murano"))
    return check_package(path, runtime)


class FirstOf:
    """A `PackageResolver` that asks several in turn."""

    def __init__(self, resolvers: Sequence[PackageResolver]) -> None:
        self.resolvers = resolvers

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """What the first gives that has it."""
        found = (item.find_package(name, spec, project_id) for item in self.resolvers)
        return next((item for item in found if item is not None), None)

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """The same by the name of a class."""
        found = (item.find_class(class_name, spec, project_id) for item in self.resolvers)
        return next((item for item in found if item is not None), None)


SHOWN = 20
"""Findings that an upload lists."""


def findings_of_upload(path: Path, catalog: PackageResolver) -> list[dict[str, object]]:
    """What the check finds in a package that was uploaded; said on standard error, if not as JSON."""
    rows = [row_of(path, item) for item in find(path, (), catalog)]
    if rows and not wants_json():
        for row in rows[:SHOWN]:
            remark(text_line(row))
        if len(rows) > SHOWN:
            more = len(rows) - SHOWN
            remark(f"and {counted(more, 'finding')} more: 'vetro check {path}'")
        remark(f"{path}: {summary(rows)}")
    return rows
