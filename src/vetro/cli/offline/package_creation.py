"""``vetro package create``: a package of a Heat template, or of a directory of classes.

dashboard-and-cli.md B3. What the manifest says is read from them; an option says it otherwise.
``vetro package new``: the sample with one machine under a chosen name.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vetro.cli.terminal.output import PrintingCommand, done, emit_object, fail
from vetro.cli.terminal.paths import DIRECTORY, FILE, text_in

if TYPE_CHECKING:
    from vetro.muranopl import MappingNode


APPLICATION = "io.murano.Application"
GENERATED = "io.murano.apps.generated"
NO_DESCRIPTION = "This application has no description"
#: The logo of packages that are made without one.
LOGO = "HelloScript/logo.png"
_FILE = FILE
_DIRECTORY = DIRECTORY


@dataclass(frozen=True)
class Facts:
    """What a manifest says of what was found; the texts are empty where nothing was."""

    name: str
    full_name: str
    type: str
    format: str
    description: str
    tags: tuple[str, ...] = ()
    classes: tuple[tuple[str, str], ...] = ()


@click.command(
    "create",
    cls=PrintingCommand,
    form=["--output-format"],
    short_help="Make a package of a Heat template or of classes.",
)
@click.option("--template", "-t", type=_FILE, help="A Heat template (HOT).")
@click.option("--classes-dir", "-c", type=_DIRECTORY, help="A directory with MuranoPL classes.")
@click.option("--resources-dir", "-r", type=_DIRECTORY, help="A directory with its resources.")
@click.option("--name", "-n", help="The name that people see.")
@click.option("--full-name", "-f", help="The name it has in the catalog: org.acme.Web.")
@click.option("--author", "-a", help="Who made it [you].")
@click.option("--tag", "tags", multiple=True, help="A tag (repeatable).")
@click.option("--description", "-d", help="The text that people see.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="The archive to write.")
@click.option("--ui", "-u", type=_FILE, help="Its form; an application of classes needs one.")
@click.option("--type", "type_", type=click.Choice(["Application", "Library"]), help="What it is.")
@click.option("--logo", "-l", type=_FILE, help="A picture (PNG, JPEG, GIF) [a plain one].")
@click.option("--format", "format_", help="Its format [the lowest that has what it uses].")
def create(
    template: Path | None,
    classes_dir: Path | None,
    resources_dir: Path | None,
    output: Path | None,
    ui: Path | None,
    logo: Path | None,
    **said: Any,
) -> None:
    """Make the archive of a package of a Heat template (--template) or of classes (--classes-dir).

    Names, type and description are those of the template, or of the class that extends
    io.murano.Application, unless an option gives them. The archive is written to the directory of now, under
    the template's name or the package's full name.
    """
    from vetro.cli.offline.world import library_directory
    from vetro.documents import write_yaml
    from vetro.packages import PackageError, build_archive

    if (template is None) == (classes_dir is None):
        fail("A package is made of a template or of classes", "Give -t or -c, one of them.", 2)
    facts = facts_of_template(template) if template else facts_of_classes(classes_dir or Path())
    manifest = manifest_of(facts, said)
    if template is None and manifest["Type"] == "Application" and ui is None:
        fail("An application needs a form", "Give its file with --ui, or --type Library.", 2)
    target = output or Path(f"{template.stem if template else manifest['FullName']}.zip")
    with tempfile.TemporaryDirectory() as directory:
        staged = Path(directory) / "package"
        if classes_dir:
            shutil.copytree(classes_dir, staged / "Classes")
        if resources_dir:
            shutil.copytree(resources_dir, staged / "Resources")
        picture = logo or library_directory() / LOGO
        manifest["Logo"] = f"logo{picture.suffix.lower()}"
        files = {manifest["Logo"]: picture}
        if template:
            files["template.yaml"] = template
        if ui:
            manifest["UI"] = "ui.yaml"
            files["UI/ui.yaml"] = ui
        for name, source in files.items():
            (staged / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, staged / name)
        (staged / "manifest.yaml").write_text(write_yaml(manifest, ordered=True), encoding="utf-8")
        try:
            build_archive(staged, target)
        except PackageError as error:
            fail(f"No package was made: {error}")
    emit_object({"package": manifest["FullName"], "file": str(target.resolve())})


def manifest_of(facts: Facts, said: dict[str, Any]) -> dict[str, Any]:
    """The manifest of what was found and of what the options say. Ends the command when a name or the
    type is not known."""
    full_name = said["full_name"] or facts.full_name
    if not full_name:
        fail(f"No class extends {APPLICATION}", "Name the package with --full-name.", 2)
    type_ = said["type_"] or facts.type
    if not type_:
        fail(f"No class extends {APPLICATION}", "Say with --type what the package is.", 2)
    values = {
        "Format": said["format_"] or facts.format,
        "Type": type_,
        "FullName": full_name,
        "Name": said["name"] or facts.name or full_name.rpartition(".")[2],
        "Description": said["description"] or facts.description,
        "Author": said["author"] or os.environ.get("OS_USERNAME") or getpass.getuser(),
        "Tags": list(said["tags"] or facts.tags),
    }
    return values | ({"Classes": dict(facts.classes)} if facts.classes else {})


def facts_of_template(file: Path) -> Facts:
    """The manifest's texts from a Heat template. Ends the command when it is not a YAML map."""
    from vetro.cli.terminal.documents import NotADocument, read_yaml

    try:
        found = read_yaml(text_in(file, "a Heat template"))
    except NotADocument as error:
        fail(f"{file}: not YAML: {error}", "Name a Heat template.")
    if not isinstance(found, dict):
        fail(
            f"{file}: not a Heat template",
            "A template is a YAML map with 'heat_template_version' and 'resources'.",
        )
    words = [word for word in re.split(r"[^A-Za-z0-9]+", file.stem) if word]
    title = "".join(word[0].upper() + word[1:] for word in words) or "Template"
    title = title if title[0].isalpha() else f"_{title}"
    text: object = found.get("description")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return Facts(
        file.stem,
        f"{GENERATED}.{title}",
        "Application",
        "Heat.HOT/1.0",
        str(text) if text else f"The Heat template {file.name}",  # pyright: ignore[reportUnknownArgumentType]
        ("Heat-generated",),
    )


def facts_of_classes(directory: Path) -> Facts:
    """The manifest's texts from a directory of classes. Ends the command when the classes make no
    package."""
    from vetro.muranopl import MappingNode, MuranoError, loose_package, parents_of, read_documents

    texts = {
        file.relative_to(directory).as_posix(): text_in(
            file, "classes that are YAML", may_be_empty=True
        )
        for file in sorted(directory.rglob("*.yaml"))
    }
    try:
        found = loose_package("", files=texts).classes
        applications = [
            name
            for name, file in found.items()
            if APPLICATION in parents_of(texts[file], file, name)
        ]
        trees = [one for file, text in texts.items() for one in read_documents(text, file)]
    except MuranoError as error:
        fail(f"{directory}: {error}", "'vetro check' on a package lists all that is wrong.")
    if not found:
        fail(f"{directory}: there are no classes", "Classes are files *.yaml, each with a Name.", 2)
    if len(applications) > 1:
        fail(
            f"{directory}: several classes extend {APPLICATION}: {', '.join(applications)}",
            "A package has one application; put each into a package of its own.",
        )
    full_name = applications[0].removeprefix(".") if applications else ""
    lowest = max((needed_format(one) for one in trees if isinstance(one, MappingNode)), default=0)
    return Facts(
        full_name.rpartition(".")[2],
        full_name,
        "Application" if applications else "",
        f"MuranoPL/1.{lowest}",
        NO_DESCRIPTION,
        classes=tuple((name.removeprefix("."), file) for name, file in found.items()),
    )


def needed_format(document: MappingNode) -> int:
    """The minor version of the lowest format that has what a class uses."""
    from vetro.muranopl import MappingNode, ScalarNode

    needed = 0
    methods = document.get("Methods")
    for _, _, method in methods.entries() if isinstance(methods, MappingNode) else ():
        if not isinstance(method, MappingNode):
            continue
        usage = method.get("Usage")
        if isinstance(usage, ScalarNode) and usage.value in ("Static", "Extension"):
            needed = max(needed, 3)
        if method.get("Scope") is not None:
            needed = 4
    return needed


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
