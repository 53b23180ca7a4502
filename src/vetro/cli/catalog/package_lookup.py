"""Packages of the catalog by id, name, class and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from vetro.cli.client.answers import PackageRow
from vetro.cli.client.connection import Connection, segment
from vetro.cli.terminal.confirmation import choose
from vetro.cli.terminal.output import fail

if TYPE_CHECKING:
    from vetro.muranopl import PackageSource

PAGE = 100


def all_packages(
    connection: Connection, most: int = 0, **more: str | bool | tuple[str, ...]
) -> list[PackageRow]:
    """Every package that the project sees, page by page, or at the ``most`` so many; ``more``: query
    parameters that filter."""
    rows: list[PackageRow] = []
    params: dict[str, str | int | bool | tuple[str, ...]] = {"catalog": "true", **more}
    while True:
        params["limit"] = min(most - len(rows), PAGE) if most else PAGE
        page = connection.get("/v1/catalog/packages", params=params)
        rows.extend(page["packages"])
        full = most and len(rows) >= most
        if full or not page.get("next_marker") or not page["packages"]:
            return rows
        params["marker"] = page["next_marker"]


def versions_of(
    rows: Sequence[PackageRow], name_or_id: str, version: str | None
) -> list[PackageRow]:
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
) -> PackageRow:
    """The package with this id, or the newest version (or this one) of that name."""
    rows = all_packages(connection, include_disabled=include_disabled)
    found = versions_of(rows, name_or_id, version)
    return found[0] if found else no_package(rows, name_or_id)


def choose_package(connection: Connection, name_or_id: str, version: str | None) -> PackageRow:
    """The package to change or delete: asks which when several versions have the name."""
    own = all_packages(connection, include_disabled="true", owned="true")
    rows = own
    found = versions_of(own, name_or_id, version)
    if not found:
        # An administrator may change packages of other projects; the service refuses everybody else.
        rows = all_packages(connection, include_disabled="true")
        found = versions_of(rows, name_or_id, version)
    if not found:
        no_package(rows, name_or_id)

    def label(row: PackageRow) -> str:
        return f"{row['version']} (id {row['id']}{', public' if row['is_public'] else ''})"

    return choose(found, found[0]["fully_qualified_name"], label, "Say --version, or name its id.")


def no_package(rows: Sequence[PackageRow], name_or_id: str) -> NoReturn:
    """End the command: nothing is called so."""
    names = ", ".join(sorted({row["fully_qualified_name"] for row in rows})) or "none"
    fail(f"There is no package '{name_or_id}'", f"Packages: {names}.")


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
