"""``vetro package``: application packages, from a directory to the catalog and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from vetro.cli.catalog.bundle import NO_IMAGES, OUTPUT, REPO_URL, directory_for
from vetro.cli.catalog.importing import (
    CATEGORIES,
    PUBLIC,
    PackageImport,
    exists_option,
    import_archive,
)
from vetro.cli.catalog.package_lookup import (
    CatalogPackages,
    all_packages,
    choose_package,
    find_package,
    newest_with_class,
)
from vetro.cli.catalog.repository import Repository
from vetro.cli.client.connection import Connection, error_text, hint_for, segment
from vetro.cli.client.name_completion import CATEGORY, PACKAGE
from vetro.cli.offline.checking import findings_of_upload
from vetro.cli.offline.package_creation import create, new
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import (
    CommandError,
    PrintingGroup,
    chose_columns,
    done,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    remark,
    wants_json,
)
from vetro.cli.terminal.paths import EITHER, FILE, package_hint, package_there

WHICH = "--class-version says which versions will do; 'vetro package list' shows them."
IS_THERE = "catalog already"
"""What the service says of a package that it has."""
USED = "--force deletes a package that environments use; they go on with it."
VERSION = click.option("--version", help="Which version of it, for example 1.0.0.")
COLUMNS = [
    ("ID", "id"),
    ("NAME", "name"),
    ("FQN", "fully_qualified_name"),
    ("VERSION", "version"),
    ("AUTHOR", "author"),
    ("TYPE", "type"),
    ("ACTIVE", "enabled"),
    ("PUBLIC", "is_public"),
]


@click.group(cls=PrintingGroup)
def package() -> None:
    """Application packages of the catalog."""


package.add_command(new)
package.add_command(create)


@package.command("build")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    default="dist/packages",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory that they are written to.",
)
def build(directories: tuple[Path, ...], output: Path) -> None:
    """Check package DIRECTORIES and write each as a zip archive."""
    from vetro.packages import PackageError, build_archive, open_package

    for directory in directories:
        package_there(directory)
    rows: list[dict[str, object]] = []
    for directory in directories:
        try:
            full_name = open_package(directory).full_name
            output.mkdir(parents=True, exist_ok=True)
            target = output / f"{full_name}.zip"
            build_archive(directory, target)
        except PackageError as error:
            fail(f"{directory}: {error}", package_hint(error))
        rows.append({"package": full_name, "file": str(target), "bytes": target.stat().st_size})
    emit_rows(rows, [("PACKAGE", "package"), ("FILE", "file"), ("BYTES", "bytes")])


@package.command("sign", short_help="Sign package archives.")
@click.argument("archives", nargs=-1, required=True, type=EITHER)
@click.option(
    "--key",
    required=True,
    type=FILE,
    help="The private key, Ed25519 in PEM ('openssl genpkey -algorithm ed25519' makes one).",
)
def sign(archives: tuple[Path, ...], key: Path) -> None:
    """Write the signature of each of ARCHIVES beside it, as NAME.zip.sig.

    'vetro package import' and 'vetro bundle index' take it along; the catalog shows whose it is.
    """
    from vetro.packages import SIGNATURE_SUFFIX, PackageError, open_package, sign_archive

    rows: list[dict[str, object]] = []
    for path in archives:
        try:
            if path.is_dir():
                fail(f"{path}: a directory has no signature", "'vetro package build' makes a zip.")
            full_name = open_package(path).full_name
            signature = sign_archive(path, key.read_bytes())
        except PackageError as error:
            fail(f"{path}: {error}", "Name a zip of a package, and an Ed25519 key in PEM.")
        target = path.with_name(path.name + SIGNATURE_SUFFIX)
        target.write_text(signature.text(), encoding="utf-8")
        rows.append({"package": full_name, "file": str(target), "key": signature.fingerprint})
    emit_rows(rows, [("PACKAGE", "package"), ("FILE", "file"), ("KEY", "key")])


def refuse_bad_manifests(paths: Sequence[Path]) -> None:
    """End the command when a manifest has errors; the server refuses files that are not packages."""
    from vetro.packages import PackageError, check_manifest_only

    for path in paths:
        try:
            found = check_manifest_only(path)
        except PackageError:
            continue
        if found:
            lines = [f"{item.file}:{item.line or 1}: {item.code} {item.message}" for item in found]
            fail(f"{path}: " + "\n  ".join(lines), "'vetro check' lists everything that is wrong.")


@package.command("import", short_help="Upload packages, with what they require.")
@click.argument("sources", nargs=-1, required=True)
@REPO_URL
@NO_IMAGES
@click.option("--version", help="Which versions will do, of a package by name [the newest].")
@PUBLIC
@CATEGORIES
@exists_option("abort", asks=True)
@exists_option(None, name="--dep-exists-action", what="a required one")
def import_(
    sources: tuple[str, ...],
    repo_url: str | None,
    no_images: bool,
    version: str | None,
    public: bool,
    category: tuple[str, ...],
    exists_action: str,
    dep_exists_action: str,
) -> None:
    """Upload packages (SOURCES: zips, directories, addresses, or names in a repository).

    With a repository (--repo-url) what a package requires and the catalog lacks comes along, and so
    do the images that it needs. Without one, only files are uploaded.

    An error in a manifest ends the command before anything is uploaded. Of several packages each that
    is refused is named, the others are imported, and the exit code is 1; one that is there already
    ends it, unless --exists-action says something else. What 'vetro check' finds beside that is said on
    standard error (with --json: in "findings").

    \b
    Examples:
      vetro package import --public org.acme.Web.zip
      vetro package import --exists-action update ./Web
    """
    from vetro.packages import is_address

    paths = [Path(source) for source in sources]
    if repo_url or any(is_address(source) for source in sources):
        actions = exists_action, dep_exists_action
        _import_with_requirements(
            sources, repo_url, version, public, category, actions, images=not no_images
        )
        return
    refuse_bad_manifests(paths)
    rows: list[dict[str, object]] = []
    refused: list[CommandError] = []
    with Connection() as connection:
        packages = CatalogPackages(connection)
        for path in paths:
            try:
                row = import_archive(connection, path, exists_action, public, category)
            except CommandError as error:
                if len(paths) == 1:
                    raise
                refused.append(error)
                remark(f"{path}: {error.message}")
                if exists_action == "abort" and IS_THERE in error.message:
                    break
                continue
            rows.append({**row, "findings": findings_of_upload(path, packages)})
    emit_rows(rows, COLUMNS)
    if refused:
        left = len(paths) - len(rows)
        fail(f"{left} of {len(paths)} packages were not imported", refused[-1].hint)


def _import_with_requirements(
    sources: Sequence[str],
    repo_url: str | None,
    version: str | None,
    public: bool,
    category: Sequence[str],
    actions: tuple[str, str],
    *,
    images: bool,
) -> None:
    from vetro.packages import (
        ARCHIVE_BYTES,
        Package,
        PackageError,
        SourceError,
        is_address,
        open_package,
    )

    paths = [Path(source) for source in sources]
    refuse_bad_manifests([path for path in paths if path.exists()])
    with PackageImport.opened(repo_url, *actions, public, category, images) as work:
        roots: list[Package] = []
        for source, path in zip(sources, paths, strict=True):
            try:
                if is_address(source):
                    roots.append(open_package(work.repository.fetch(source, ARCHIVE_BYTES)))
                elif path.exists():
                    work.repository.files.beside.append(path.resolve().parent)
                    roots.append(open_package(path))
                else:
                    found = work.find(source, version)
                    roots += [found] if found is not None else []
            except (SourceError, PackageError) as error:
                work.note(source, None, "failed", str(error))
        work.run(roots)
        work.finish("imported")


@package.command("save", short_help="Save packages of a repository in a directory.")
@click.argument("names", nargs=-1, required=True)
@REPO_URL
@NO_IMAGES
@OUTPUT
@click.option("--version", help="Which versions will do [the newest].")
def save(
    names: tuple[str, ...], repo_url: str | None, no_images: bool, output: Path, version: str | None
) -> None:
    """Save packages of a repository (NAMES), what they require, and their images in a directory.

    'vetro package import DIRECTORY/NAME.zip' imports them where the repository cannot be reached.
    """
    from vetro.cli.catalog.saving import PackageSaving

    with Repository(repo_url) as repository:
        work = PackageSaving(repository, directory=directory_for(output), images=not no_images)
        found = [work.find(name, version) for name in names]
        work.run([one for one in found if one is not None])
        work.finish("saved")


@package.command("form", short_help="Show the form of a package.")
@click.argument("name", metavar="PACKAGE", type=PACKAGE)
@VERSION
@click.option(
    "--ui", is_flag=True, help="Print the definition, also one that is made from the class."
)
def form(name: str, version: str | None, ui: bool) -> None:
    """Show the fields of the form of PACKAGE, which 'vetro env add --set' takes.

    A package without a form has one that is made from its class.
    """
    from vetro.cli.catalog.forms import Wizard, show_form

    with Connection() as connection:
        row = find_package(connection, name, version)
        if ui:
            text = connection.request("GET", f"/v1/catalog/packages/{segment(row['id'])}/ui").text
            if not text.strip():
                with Wizard(connection, row, None, None) as wizard:
                    text = wizard.definition()
            click.echo(text, nl=False)
            return
        with Wizard(connection, row, None, None) as wizard:
            show_form(wizard.view)


@package.command("update", short_help="Change what the catalog says of a package.")
@click.argument("name_or_id", type=PACKAGE)
@VERSION
@click.option("--name", help="The name that people see.")
@click.option("--description", help="The text that people see.")
@click.option("--public/--private", default=None, help="Whether every project may use it.")
@click.option("--enable/--disable", "enabled", default=None, help="Whether it can be deployed.")
@click.option("--tag", "tags", multiple=True, help="Its tags, instead of those it has.")
@click.option("--category", "-c", "categories", multiple=True, help="Its categories, likewise.")
@click.option(
    "--force",
    is_flag=True,
    help="Also --private and --disable while environments of other projects use it.",
)
def update(
    name_or_id: str,
    version: str | None,
    name: str | None,
    description: str | None,
    public: bool | None,
    enabled: bool | None,
    tags: tuple[str, ...],
    categories: tuple[str, ...],
    force: bool,
) -> None:
    """Change what the catalog says of a package; the archive stays as it is.

    An empty --tag or --category takes all of them away.
    """
    given = {"name": name, "description": description, "is_public": public, "enabled": enabled}
    changes: dict[str, object] = {key: value for key, value in given.items() if value is not None}
    for key, values in (("tags", tags), ("categories", categories)):
        if values:
            changes[key] = [value for value in values if value]
    if not changes:
        fail("Nothing to change", "Say what: --public, --disable, --tag TEXT, …", 2)
    patch = [{"op": "replace", "path": f"/{key}", "value": value} for key, value in changes.items()]
    with Connection() as connection:
        row = choose_package(connection, name_or_id, version)
        answer = connection.request(
            "PATCH",
            f"/v1/catalog/packages/{segment(row['id'])}",
            content=json.dumps(patch).encode(),
            params={"force": "true"} if force else None,
            headers={"Content-Type": "application/murano-packages-json-patch"},
        )
    emit_object(answer.json())


@package.command("schema", short_help="Print the JSON schemas of a class's inputs.")
@click.argument("class_name")
@click.argument("methods", nargs=-1)
@click.option("--class-version", help="Which versions will do (>=1, =0) [the newest there is].")
@click.option("--package", "package_name", help="The package that has the class.")
def schema(
    class_name: str,
    methods: tuple[str, ...],
    class_version: str | None,
    package_name: str | None,
) -> None:
    """Print the JSON schemas of what CLASS_NAME takes, and of its METHODS that build models.

    The key "" is the class itself. Without METHODS everything is shown.
    """
    path = f"/v1/schemas/{segment(class_name)}"
    if methods:
        path += f"/{segment(','.join(methods))}"
    with Connection() as connection:
        wanted = class_version or newest_with_class(connection, class_name, package_name)
        params = {"classVersion": wanted}
        if package_name:
            params["packageName"] = package_name
        emit_json(connection.request("GET", path, params=params, hint=WHICH).json())


@package.command("list", short_help="List packages, all or those that are asked for.")
@click.option("--search", help="Words to look for in names, descriptions, tags, classes.")
@click.option("--name", help="Only those that people see under this name.")
@click.option("--fqn", metavar="NAME", help="Only those of this full name.")
@click.option("--class-name", help="Only those with this class.")
@click.option("--type", "type_", metavar="TYPE", help="Only Application, or only Library.")
@click.option("--category", type=CATEGORY, multiple=True, help="Only these categories.")
@click.option("--tag", multiple=True, help="Only those with one of these tags.")
@click.option("--owned", is_flag=True, help="Only those of this project.")
@click.option("--include-disabled", is_flag=True, help="Also those that cannot be deployed.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="At most so many [0: all].")
@click.option("--marker", metavar="ID", help="Only those behind this one, in the list's order.")
def list_(limit: int, type_: str | None, **given: Any) -> None:
    """List the packages this project may use, all or those for which every option given holds."""
    params = {name: value for name, value in {"type": type_, **given}.items() if value}
    with Connection() as connection:
        rows = all_packages(connection, limit, **params)
    emit_rows(rows, COLUMNS)


@package.command("show", short_help="Show one package, its form fields and its actions.")
@click.argument("name_or_id", type=PACKAGE)
@VERSION
def show(name_or_id: str, version: str | None) -> None:
    """Show one package by id or name: the newest, unless a version is named.

    The fields are those of its form ('vetro env add --set'), the actions those of its classes.
    """
    from vetro.cli.catalog.package_contents import contents_of

    with Connection() as connection:
        row = find_package(connection, name_or_id, version, include_disabled=True)
        shown = connection.get(f"/v1/catalog/packages/{row['id']}")
        found = contents_of(connection, row, CatalogPackages(connection))
    if wants_json():
        emit_json({**shown, **found})
        return
    emit_object(shown)
    if chose_columns():
        return
    if found.get("fields"):
        click.echo()
        columns = [("FIELD", "name"), ("TYPE", "type"), ("REQUIRED", "required")]
        emit_rows(found["fields"], [*columns, ("INITIAL", "initial"), ("LABEL", "label")])
    if found.get("actions"):
        click.echo()
        emit_rows(found["actions"], [("CLASS", "class"), ("ACTION", "call")])


@package.command("download", short_help="Write a package's archive to a file.")
@click.argument("name_or_id", type=PACKAGE)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@VERSION
def download(name_or_id: str, file: Path | None, version: str | None) -> None:
    """Write a package's archive, as it was uploaded, to FILE; without one into a pipe."""
    if file is None and sys.stdout.isatty():
        fail(
            "An archive is binary and is not written to a terminal",
            "Name a FILE, or redirect the output with '>'.",
            2,
        )
    with Connection() as connection:
        row = find_package(connection, name_or_id, version, include_disabled=True)
        response = connection.request("GET", f"/v1/catalog/packages/{row['id']}/download")
    if file is None:
        sys.stdout.buffer.write(response.content)
        return
    file.write_bytes(response.content)
    emit_object({"package": row["fully_qualified_name"], "file": str(file)})


@package.command("delete", short_help="Delete packages that no environment uses.")
@click.argument("names_or_ids", nargs=-1, required=True, type=PACKAGE)
@VERSION
@click.option(
    "--force",
    is_flag=True,
    help="Also one that environments use: it leaves the catalog, they go on with it.",
)
@yes_option
def delete(names_or_ids: tuple[str, ...], version: str | None, force: bool) -> None:
    """Delete packages that no environment uses.

    A name with several versions is asked about; --version or an id says which.
    """
    gone: list[str] = []
    with Connection() as connection:
        rows = [choose_package(connection, name, version) for name in names_or_ids]
        names = some_of([f"{row['fully_qualified_name']} {row['version']}" for row in rows])
        agree(f"{names}: it would leave the catalog, and its archive would be lost", "Delete")
        for row in rows:
            path = f"/v1/catalog/packages/{segment(row['id'])}"
            answer = connection.answer("DELETE", path, params={"force": force})
            if answer.status >= 400:
                fail(error_text(answer), USED if answer.status == 409 else hint_for(answer))
            gone.append(f"{row['fully_qualified_name']} {row['version']}")
    done(f"Deleted package {', '.join(gone)}", deleted=gone)
