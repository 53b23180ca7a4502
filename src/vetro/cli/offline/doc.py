"""``vetro doc``: the reference of a package as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vetro.cli.offline.options import library_option
from vetro.cli.terminal.output import PrintingCommand, done, emit_json, fail, wants_json

if TYPE_CHECKING:
    from vetro.muranopl import (
        ArgumentDescription,
        ClassDescription,
        MethodDescription,
        PropertyDescription,
        Texts,
    )
    from vetro.packages import Manifest


CORE = "io.murano"


def cell(text: str) -> str:
    """Text in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str | None) -> str:
    """Text as code in a table's cell; nothing for None."""
    if text is None:
        return ""
    fence = "``" if "`" in text else "`"
    padding = " " if "`" in text else ""
    return f"{fence}{padding}{cell(text)}{padding}{fence}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table, without its empty columns."""
    used = [index for index in range(len(head)) if index == 0 or any(row[index] for row in rows)]
    lines = [
        "| " + " | ".join(head[index] for index in used) + " |",
        "|" + "---|" * len(used),
    ]
    lines += ["| " + " | ".join(row[index] for index in used) + " |" for row in rows]
    return [*lines, ""]


def summary(texts: Texts) -> str:
    """The first sentence of a description."""
    text = " ".join((texts.text or texts.title).split())
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def _said(texts: Texts) -> list[str]:
    lines: list[str] = []
    if texts.title and texts.title != texts.text:
        lines += [f"**{texts.title}**", ""]
    if texts.text:
        lines += [texts.text, ""]
    if texts.help_text:
        lines += [f"> {line}" for line in texts.help_text.splitlines()] + [""]
    return lines


def class_page(found: ClassDescription, level: int = 1, known: Sequence[str] = ()) -> str:
    """A class as Markdown. `known`: classes that have a page beside this one."""
    mark = "#" * level
    lines = [f"{mark} {found.name}", ""]
    if found.usage != "Class":
        lines += [f"A {found.usage.lower()}-class.", ""]
    lines += _said(found.texts)
    if found.ancestors:
        chain = " → ".join(_linked(name, known) for name in found.ancestors)
        lines += [f"Extends {chain}.", ""]
    shown = [item for item in found.properties if not item.hidden]
    if shown:
        lines += [f"{mark}# Properties", "", *_properties(shown)]
    if found.inherited_properties:
        lines += [f"Inherited: {_members(found.inherited_properties, known)}.", ""]
    actions = [item for item in found.methods if item.is_action]
    methods = [item for item in found.methods if not item.is_action]
    for title, group in (("Actions", actions), ("Methods", methods)):
        if group:
            lines += [f"{mark}# {title}", ""]
        for method in group:
            lines += _method(method, level)
    if found.inherited_methods:
        lines += [f"Inherited: {_members(found.inherited_methods, known)}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _linked(name: str, known: Sequence[str]) -> str:
    return f"[{name}]({name}.md)" if name in known else f"`{name}`"


def _members(names: Sequence[str], known: Sequence[str]) -> str:
    parts: list[str] = []
    for name in names:
        holder, _, member = name.rpartition(".")
        parts.append(f"`{member}` ({_linked(holder, known)})")
    return ", ".join(parts)


def _properties(items: Sequence[PropertyDescription]) -> list[str]:
    rows = [
        (code(item.name), code(item.contract), item.usage, code(item.default), _note(item.texts))
        for item in items
    ]
    return table(("Property", "Contract", "Usage", "Default", "Description"), rows)


def _note(texts: Texts) -> str:
    return cell(" ".join(part for part in (texts.title, texts.text, texts.help_text) if part))


def _method(method: MethodDescription, level: int) -> list[str]:
    kind = "" if method.usage == "Runtime" else f" ({method.usage})"
    lines = [f"{'#' * level}## `{method.signature}`{kind}", "", *_said(method.texts)]
    if method.arguments and not method.is_native:
        rows = [_argument(item) for item in method.arguments]
        lines += table(("Argument", "Contract", "Usage", "Default", "Description"), rows)
    return lines


def _argument(item: ArgumentDescription) -> tuple[str, ...]:
    usage = "" if item.usage == "Standard" else item.usage
    return code(item.name), code(item.contract), usage, code(item.default), _note(item.texts)


def package_page(manifest: Manifest, classes: Sequence[ClassDescription], *, linked: bool) -> str:
    """The first page of a package: what it is, what it needs, its classes."""
    lines = [f"# {manifest.name}", ""]
    if manifest.description:
        lines += [manifest.description, ""]
    facts = [
        ("Package", code(manifest.full_name)),
        ("Version", manifest.version),
        ("Type", manifest.type),
        ("Format", f"MuranoPL {manifest.format}"),
        ("Author", cell(manifest.author or "")),
        ("Tags", cell(", ".join(manifest.tags))),
        (
            "Requires",
            ", ".join(
                f"{code(name)} {spec or ''}".strip() for name, spec in manifest.requirements.items()
            ),
        ),
    ]
    lines += ["| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts if value]
    lines += ["", "## Classes", ""]
    rows = [
        (f"[{item.name}]({item.name}.md)" if linked else code(item.name), cell(summary(item.texts)))
        for item in classes
    ]
    return "\n".join([*lines, *table(("Class", "Description"), rows)]).rstrip() + "\n"


def described(
    package: Path, libraries: Sequence[Path] = (), *, tests: bool = False
) -> tuple[Manifest, list[ClassDescription]]:
    """A package's manifest and classes; with ``tests`` its test classes, too. Ends the command when
    it cannot be loaded."""
    from vetro.cli.offline.world import open_world_or_fail
    from vetro.muranopl import MuranoError, describe_class, is_test_class
    from vetro.packages import open_package

    world = open_world_or_fail([package], libraries=libraries, testing=True)
    (made,) = world.packages
    try:
        names = (
            sorted(world.runtime.classes.class_names(made))
            if made.name == CORE
            else made.class_files
        )
        types = [made.find_type(name) for name in names]
        found = [describe_class(item) for item in types if tests or not is_test_class(item)]
    except MuranoError as error:
        fail(error.format(), error.hint or "'vetro check' lists everything that is wrong.")
    return open_package(package).manifest, found


@click.command("doc", cls=PrintingCommand)
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a page for the package and one for each class into this directory.",
)
@click.option("--tests", is_flag=True, help="Test classes, too.")
@library_option("this one requires")
def doc(package: Path, output: Path | None, tests: bool, libraries: tuple[Path, ...]) -> None:
    """Write the reference of PACKAGE (a directory or zip) from its classes, as Markdown.

    A package that ships with Vetro may be named: 'vetro doc io.murano'. Classes written in Python
    are in it, described by their docstrings.
    """
    from vetro.cli.offline.world import library_directory

    shipped = library_directory() / package.name
    if not package.exists() and package.name == str(package) and shipped.is_dir():
        package = shipped
    manifest, found = described(package, libraries, tests=tests)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    if wants_json() and output is None:
        emit_json([item.as_json() for item in found])
        return
    known = [item.name for item in found]
    if output is None:
        texts = [package_page(manifest, found, linked=False)]
        texts += [class_page(item, 2) for item in found]
        click.echo("\n".join(texts), nl=False)
        return
    pages = {"README": package_page(manifest, found, linked=True)}
    pages |= {item.name: class_page(item, known=known) for item in found}
    written = [output / f"{name}.md" for name in pages]
    for target, text in zip(written, pages.values(), strict=True):
        target.write_text(text, encoding="utf-8")
    done("\n".join(map(str, written)), files=[str(target) for target in written])
