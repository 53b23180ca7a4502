"""``vetro package new``: the sample with one machine under a chosen name."""

from __future__ import annotations

import re
from pathlib import Path

import click

from vetro.cli.terminal.output import PrintingCommand, done, fail

SAMPLE = "HelloScript"
NAMESPACE = "org.vetro.samples"
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\.[A-Z][A-Za-z0-9]*\Z", re.ASCII)
LICENCE = "Write here under which terms others may use this package.\n"


@click.command(
    "new", short_help="Make the directory of a package that deploys.", cls=PrintingCommand
)
@click.argument("full_name")
@click.argument("directory", required=False, type=click.Path(path_type=Path))
def new(full_name: str, directory: Path | None) -> None:
    """Make the directory of a package that deploys, to begin with: FULL_NAME is org.acme.Web or so.

    An application with a machine, a script that runs there, a form, an action and tests; DIRECTORY
    is the last part of the name unless it is given.
    """
    from vetro.cli.offline.world import library_directory

    if not _NAME.match(full_name):
        fail(
            f"'{full_name}' is not a name for an application",
            "Write words joined by dots, the last one in CamelCase: org.acme.Web.",
            2,
        )
    namespace, _, short = full_name.rpartition(".")
    target = directory or Path(short)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        fail(f"{target} is there already", "Name an empty or a new directory.")
    written: list[str] = []
    sample = library_directory() / SAMPLE
    for source in sorted(path for path in sample.rglob("*") if path.is_file()):
        file = target / str(source.relative_to(sample)).replace(SAMPLE, short)
        file.parent.mkdir(parents=True, exist_ok=True)
        if source.name == "LICENSE":
            file.write_text(LICENCE, encoding="utf-8")
        elif source.suffix == ".yaml":
            text = source.read_text(encoding="utf-8")
            file.write_text(renamed(text, namespace, short, target), encoding="utf-8")
        else:
            file.write_bytes(source.read_bytes())
        written.append(str(file))
    hint = f"Try 'vetro test {target}', change it, then 'vetro package import {target}'."
    done("\n".join([*written, hint]), package=full_name, files=written)


def renamed(text: str, namespace: str, short: str, target: Path) -> str:
    """A file of the sample as one of the new package."""
    title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", short)
    text = text.replace(f"library/{SAMPLE}", str(target)).replace(NAMESPACE, namespace)
    text = text.replace("Name: Hello Script", f"Name: {title}").replace(SAMPLE, short)
    text = re.sub(r"^Author: .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^Tags: .*$", "Tags: []", text, flags=re.MULTILINE)
