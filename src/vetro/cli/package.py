"""``vetro package``: build, upload, list, show, download and delete application packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from vetro.cli.connection import Connection, segment
from vetro.cli.output import emit_object, emit_rows, fail, json_option, say

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


@package.command("build")
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", "-o", default="dist/packages", type=click.Path(path_type=Path))
@json_option
def build(directories: tuple[Path, ...], output: Path) -> None:
    """Check package DIRECTORIES and write each as a zip archive."""
    from vetro.packages import PackageError, build_archive, open_package

    output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for directory in directories:
        try:
            full_name = open_package(directory).full_name
            target = output / f"{full_name}.zip"
            build_archive(directory, target)
        except PackageError as error:
            fail(f"{directory}: {error}", "'vetro check' lists everything that is wrong.")
        rows.append({"package": full_name, "file": str(target), "bytes": target.stat().st_size})
    emit_rows(rows, [("PACKAGE", "package"), ("FILE", "file"), ("BYTES", "bytes")])


def upload_package(
    connection: Connection, path: Path, *, public: bool, categories: tuple[str, ...]
) -> dict[str, Any]:
    """Upload one zip, or a directory packed on the way, and return the package object."""
    if path.is_dir():
        import tempfile

        from vetro.packages import PackageError, build_archive

        with tempfile.TemporaryDirectory() as directory:
            archive = Path(directory) / f"{path.name}.zip"
            try:
                build_archive(path, archive)
            except PackageError as error:
                fail(f"{path}: {error}", "'vetro check' lists everything that is wrong.")
            content = archive.read_bytes()
    else:
        try:
            content = path.read_bytes()
        except OSError as error:
            fail(f"{path}: {error.strerror}", "Name a package zip or a package directory.")
    metadata = json.dumps({"is_public": public, "categories": list(categories)})
    return connection.request(
        "POST",
        "/v1/catalog/packages",
        files={"file": (f"{path.stem}.zip", content, "application/octet-stream")},
        data={"__metadata__": metadata},
    ).json()


def refuse_bad_manifests(paths: tuple[Path, ...]) -> None:
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


@package.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--public", is_flag=True, help="Every project may use it.")
@click.option("--category", "-c", multiple=True, help="A category it stands in (repeatable).")
@click.option(
    "--exists-action",
    type=click.Choice(["abort", "skip", "update"]),
    default="abort",
    show_default=True,
    help="What to do with a package that is in the catalog already.",
)
@json_option
def import_(
    paths: tuple[Path, ...], public: bool, category: tuple[str, ...], exists_action: str
) -> None:
    """Upload package zips or directories (PATHS)."""
    refuse_bad_manifests(paths)
    rows: list[dict[str, Any]] = []
    with Connection() as connection:
        for path in paths:
            existing = None
            if exists_action != "abort":
                from vetro.packages import PackageError, open_package

                try:
                    full_name = open_package(path).full_name
                except PackageError as error:
                    fail(f"{path}: {error}", "'vetro check' lists everything that is wrong.")
                found = connection.get(
                    "/v1/catalog/packages", params={"fqn": full_name, "owned": "true"}
                )["packages"]
                existing = found[0] if found else None
            if existing is not None and exists_action == "skip":
                rows.append(existing)
                continue
            if existing is not None:
                connection.request("DELETE", f"/v1/catalog/packages/{existing['id']}")
            rows.append(upload_package(connection, path, public=public, categories=category))
    emit_rows(rows, COLUMNS)


@package.command("list")
@click.option("--search", help="Words to look for in names, descriptions, tags, classes.")
@click.option("--category", help="Only this category.")
@json_option
def list_(search: str | None, category: str | None) -> None:
    """List the packages this project may use."""
    params: dict[str, Any] = {"catalog": "true", "limit": 100}
    if search:
        params["search"] = search
    if category:
        params["category"] = category
    rows: list[dict[str, Any]] = []
    with Connection() as connection:
        while True:
            page = connection.get("/v1/catalog/packages", params=params)
            rows.extend(page["packages"])
            if not page.get("next_marker") or not page["packages"]:
                break
            params["marker"] = page["next_marker"]
    emit_rows(rows, COLUMNS)


def find_package(connection: Connection, name_or_id: str) -> dict[str, Any]:
    """The package with this id, full name, or the short or display name that is unique."""
    rows: list[dict[str, Any]] = []
    params: dict[str, Any] = {"catalog": "true", "limit": 100}
    while True:
        page = connection.get("/v1/catalog/packages", params=params)
        rows.extend(page["packages"])
        if not page.get("next_marker") or not page["packages"]:
            break
        params["marker"] = page["next_marker"]
    for key in ("id", "fully_qualified_name"):
        for row in rows:
            if row[key] == name_or_id:
                return row
    wanted = name_or_id.lower()
    near = [
        row
        for row in rows
        if wanted in (row["name"].lower(), row["fully_qualified_name"].rsplit(".", 1)[-1].lower())
    ]
    if len(near) == 1:
        return near[0]
    names = ", ".join(sorted(row["fully_qualified_name"] for row in (near or rows))) or "none"
    word = "several packages are called" if near else "there is no package"
    fail(f"{word} '{name_or_id}'".capitalize(), f"Packages: {names}.")


@package.command("show")
@click.argument("name_or_id")
@json_option
def show(name_or_id: str) -> None:
    """Show one package, by id or name."""
    with Connection() as connection:
        row = find_package(connection, name_or_id)
        emit_object(connection.get(f"/v1/catalog/packages/{row['id']}"))


@package.command("download")
@click.argument("name_or_id")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def download(name_or_id: str, file: Path) -> None:
    """Write a package's archive, as it was uploaded, to FILE."""
    with Connection() as connection:
        row = find_package(connection, name_or_id)
        response = connection.request("GET", f"/v1/catalog/packages/{row['id']}/download")
    file.write_bytes(response.content)
    emit_object({"package": row["fully_qualified_name"], "file": str(file)})


@package.command("delete")
@click.argument("names_or_ids", nargs=-1, required=True)
@json_option
def delete(names_or_ids: tuple[str, ...]) -> None:
    """Delete packages; environments that use them keep running."""
    with Connection() as connection:
        for name in names_or_ids:
            row = find_package(connection, name)
            connection.request("DELETE", f"/v1/catalog/packages/{segment(row['id'])}")
            say(f"Deleted package {row['fully_qualified_name']}")
