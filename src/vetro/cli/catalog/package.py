"""``vetro package``: application packages, from a directory to the catalog and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vetro.cli.catalog.bundle import NO_IMAGES, OUTPUT, REPO_URL, directory_for
from vetro.cli.catalog.importing import (
    CATEGORIES,
    PUBLIC,
    PackageImport,
    exists_option,
    import_archive,
)
from vetro.cli.catalog.repository import Repository
from vetro.cli.client.connection import Connection, error_text, hint_for, segment
from vetro.cli.client.name_completion import CATEGORY, PACKAGE
from vetro.cli.offline.checking import findings_of_upload
from vetro.cli.offline.new_package import new
from vetro.cli.terminal.choices import choose
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import (
    done,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    json_option,
    wants_json,
)

if TYPE_CHECKING:
    from vetro.muranopl import PackageSource

WHICH = "--class-version says which versions will do; 'vetro package list' shows them."
USED = "--force deletes a package that environments use; they go on with it."
VERSION = click.option("--version", help="Which version of it, for example 1.0.0.")
COLUMNS = [
    ("ID", "id"),
    ("NAME", "name"),
    ("FQN", "fully_qualified_name"),
    ("VERSION", "version"),
    ("TYPE", "type"),
    ("PUBLIC", "is_public"),
]


@click.group()
def package() -> None:
    """Application packages of the catalog."""


package.add_command(new)


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
@json_option
def build(directories: tuple[Path, ...], output: Path) -> None:
    """Check package DIRECTORIES and write each as a zip archive."""
    from vetro.packages import PackageError, build_archive, open_package

    output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for directory in directories:
        try:
            if directory.is_dir() and not (directory / "manifest.yaml").is_file():
                fail(f"{directory}: there is no manifest.yaml", "Name package directories.")
            full_name = open_package(directory).full_name
            target = output / f"{full_name}.zip"
            build_archive(directory, target)
        except PackageError as error:
            fail(f"{directory}: {error}", "'vetro check' lists everything that is wrong.")
        rows.append({"package": full_name, "file": str(target), "bytes": target.stat().st_size})
    emit_rows(rows, [("PACKAGE", "package"), ("FILE", "file"), ("BYTES", "bytes")])


def refuse_bad_manifests(paths: Sequence[Path]) -> None:
    """End the command when a manifest has errors; what is no package at all the server refuses."""
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
@json_option
def import_(
    sources: tuple[str, ...],
    repo_url: str | None,
    no_images: bool,
    version: str | None,
    public: bool,
    category: tuple[str, ...],
    exists_action: str,
) -> None:
    """Upload packages (SOURCES: zips, directories, addresses, or names in a repository).

    With a repository (--repo-url) what a package requires and the catalog lacks comes along, and so
    do the images that it needs. Without one, only files are uploaded.

    An error in the manifest ends the command. What 'vetro check' finds beside that is said on
    standard error (with --json: in "findings").
    """
    from vetro.packages import is_address

    paths = [Path(source) for source in sources]
    if repo_url or any(is_address(source) for source in sources):
        _import_with_requirements(
            sources, repo_url, version, public, category, exists_action, images=not no_images
        )
        return
    refuse_bad_manifests(paths)
    rows: list[dict[str, Any]] = []
    with Connection() as connection:
        packages = CatalogPackages(connection)
        for path in paths:
            row = import_archive(connection, path, exists_action, public, category)
            rows.append({**row, "findings": findings_of_upload(path, packages)})
    emit_rows(rows, COLUMNS)


def _import_with_requirements(
    sources: Sequence[str],
    repo_url: str | None,
    version: str | None,
    public: bool,
    category: Sequence[str],
    exists_action: str,
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
    with PackageImport.opened(repo_url, exists_action, public, category, images) as work:
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
@json_option
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


def newest_with_class(connection: Connection, class_name: str, package_name: str | None) -> str:
    """The version spec of the newest package of the catalog that has a class; else that of a class
    without a version, as those of the class library are."""
    from vetro.packages import Version

    params = {"catalog": "true", "class_name": class_name}
    if package_name:
        params["fqn"] = package_name
    rows = connection.get("/v1/catalog/packages", params=params)["packages"]
    versions = [Version.parse(str(row["version"])) for row in rows]
    return f"={max(versions)}" if versions else "=0"


class CatalogPackages:
    """A `PackageResolver` over the packages that the catalog lets this project use."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def find_package(self, name: str, spec: str, project_id: str | None) -> PackageSource | None:
        """The newest version that satisfies the spec, downloaded."""
        return self._newest({"fqn": name}, spec)

    def find_class(
        self, class_name: str, spec: str, project_id: str | None
    ) -> PackageSource | None:
        """The same by one of its classes."""
        return self._newest({"class_name": class_name}, spec)

    def _newest(self, params: dict[str, str], spec: str) -> PackageSource | None:
        from vetro.packages import Version, VersionSpec, open_package

        wanted = VersionSpec(spec)
        answer = self.connection.get("/v1/catalog/packages", params={"catalog": "true", **params})
        fitting = [
            row for row in answer["packages"] if Version.parse(str(row["version"])) in wanted
        ]
        if not fitting:
            return None
        row = max(fitting, key=lambda item: Version.parse(str(item["version"])))
        path = f"/v1/catalog/packages/{segment(str(row['id']))}/download"
        return open_package(self.connection.request("GET", path).content)


@package.command("form", short_help="Show the form of a package.")
@click.argument("name", metavar="PACKAGE", type=PACKAGE)
@VERSION
@click.option("--ui", is_flag=True, help="Print the definition as it is stored.")
@json_option
def form(name: str, version: str | None, ui: bool) -> None:
    """Show the fields of the form of PACKAGE, which 'vetro env add --set' takes.

    A package without a form has one that is made from its class.
    """
    from vetro.cli.catalog.forms import Wizard, show_form

    with Connection() as connection:
        row = find_package(connection, name, version)
        if ui:
            text = connection.request("GET", f"/v1/catalog/packages/{segment(row['id'])}/ui").text
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
@json_option
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
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
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
@json_option
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


@package.command("list")
@click.option("--search", help="Words to look for in names, descriptions, tags, classes.")
@click.option("--category", type=CATEGORY, help="Only this category.")
@json_option
def list_(search: str | None, category: str | None) -> None:
    """List the packages this project may use."""
    given = {"search": search, "category": category}
    with Connection() as connection:
        rows = all_packages(connection, **{name: text for name, text in given.items() if text})
    emit_rows(rows, COLUMNS)


def all_packages(connection: Connection, **more: str) -> list[dict[str, Any]]:
    """Every package that the project sees, page by page; ``more`` query parameters filter."""
    rows: list[dict[str, Any]] = []
    params: dict[str, Any] = {"catalog": "true", "limit": 100, **more}
    while True:
        page = connection.get("/v1/catalog/packages", params=params)
        rows.extend(page["packages"])
        if not page.get("next_marker") or not page["packages"]:
            return rows
        params["marker"] = page["next_marker"]


def versions_of(
    rows: Sequence[dict[str, Any]], name_or_id: str, version: str | None
) -> list[dict[str, Any]]:
    """The package with this id, or all versions (or the one) of that name, newest first.

    A name is the full one, or the last part of it or the displayed one when only one package has it.
    """
    from vetro.packages import Version

    for row in rows:
        if row["id"] == name_or_id:
            return [row]
    wanted = name_or_id.lower()
    found = [row for row in rows if row["fully_qualified_name"] == name_or_id] or [
        row
        for row in rows
        if wanted in (row["name"].lower(), row["fully_qualified_name"].rsplit(".", 1)[-1].lower())
    ]
    full_names = sorted({row["fully_qualified_name"] for row in found})
    if len(full_names) > 1:
        fail(f"Several packages are called '{name_or_id}'", f"Packages: {', '.join(full_names)}.")
    # A project's own package stands before a public one of its version.
    found.sort(key=lambda row: (Version.parse(row["version"]), not row["is_public"]), reverse=True)
    if version is None or not found:
        return found
    try:
        exact = Version.parse(version)
    except ValueError as error:
        fail(str(error), exit_code=2)
    fitting = [row for row in found if Version.parse(row["version"]) == exact]
    if not fitting:
        known = ", ".join(str(row["version"]) for row in found)
        fail(f"There is no version {version} of {full_names[0]}", f"Versions: {known}.")
    return fitting


def find_package(
    connection: Connection,
    name_or_id: str,
    version: str | None = None,
    *,
    include_disabled: bool = False,
) -> dict[str, Any]:
    """The package with this id, or the newest version (or this one) of that name."""
    more = {"include_disabled": "true"} if include_disabled else {}
    rows = all_packages(connection, **more)
    found = versions_of(rows, name_or_id, version)
    return found[0] if found else no_package(rows, name_or_id)


def choose_package(connection: Connection, name_or_id: str, version: str | None) -> dict[str, Any]:
    """The package to change or delete: asks which when several versions have the name."""
    own = all_packages(connection, include_disabled="true", owned="true")
    rows = own
    found = versions_of(own, name_or_id, version)
    if not found:
        # An administrator may change those of others; whoever may not is told so by the service.
        rows = all_packages(connection, include_disabled="true")
        found = versions_of(rows, name_or_id, version)
    if not found:
        no_package(rows, name_or_id)

    def label(row: dict[str, Any]) -> str:
        return f"{row['version']} (id {row['id']}{', public' if row['is_public'] else ''})"

    return choose(found, found[0]["fully_qualified_name"], label, "Say --version, or name its id.")


def no_package(rows: Sequence[dict[str, Any]], name_or_id: str) -> NoReturn:
    """End the command: nothing is called so."""
    names = ", ".join(sorted({row["fully_qualified_name"] for row in rows})) or "none"
    fail(f"There is no package '{name_or_id}'", f"Packages: {names}.")


@package.command("show", short_help="Show one package, its form fields and its actions.")
@click.argument("name_or_id", type=PACKAGE)
@VERSION
@json_option
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
    if found.get("fields"):
        click.echo()
        columns = [("FIELD", "name"), ("TYPE", "type"), ("REQUIRED", "required")]
        emit_rows(found["fields"], [*columns, ("INITIAL", "initial"), ("LABEL", "label")])
    if found.get("actions"):
        click.echo()
        emit_rows(found["actions"], [("CLASS", "class"), ("ACTION", "call")])


@package.command("download")
@click.argument("name_or_id", type=PACKAGE)
@click.argument("file", type=click.Path(path_type=Path))
@VERSION
@json_option
def download(name_or_id: str, file: Path, version: str | None) -> None:
    """Write a package's archive, as it was uploaded, to FILE."""
    with Connection() as connection:
        row = find_package(connection, name_or_id, version, include_disabled=True)
        response = connection.request("GET", f"/v1/catalog/packages/{row['id']}/download")
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
@json_option
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
            answer = connection.answer("DELETE", path, params={"force": str(force).lower()})
            if answer.status >= 400:
                fail(error_text(answer), USED if answer.status == 409 else hint_for(answer))
            gone.append(f"{row['fully_qualified_name']} {row['version']}")
    done(f"Deleted package {', '.join(gone)}", deleted=gone)
