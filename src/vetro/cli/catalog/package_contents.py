"""What a package of the catalog offers: its form's fields and its classes' actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vetro.cli.client.connection import Connection, segment
from vetro.cli.terminal.output import remark

if TYPE_CHECKING:
    from vetro.muranopl import PackageResolver
    from vetro.packages import Package


def contents_of(
    connection: Connection, row: Mapping[str, object], catalog: PackageResolver
) -> dict[str, Any]:
    """`fields` (of the form) and `actions` (with their arguments) of a package of the catalog.

    Parts that cannot be read are reported on standard error and left out.
    """
    from vetro.packages import PackageError, open_package

    path = f"/v1/catalog/packages/{segment(str(row['id']))}/download"
    content = connection.request("GET", path).content
    try:
        package = open_package(content)
    except PackageError as error:
        remark(f"The archive cannot be looked into: {error}")
        return {}
    return {"fields": form_fields(package), "actions": actions_of(package, catalog)}


def form_fields(package: Package) -> list[dict[str, object]]:
    """The fields that `vetro env add --set` takes."""
    from vetro.packages import FormError, load_form

    if package.ui is None:
        return []
    try:
        form = load_form(package.ui, package_name=package.full_name, title="")
    except FormError as error:
        remark(f"The form cannot be read: {error}")
        return []
    return form.summary()


def actions_of(package: Package, catalog: PackageResolver) -> list[dict[str, object]]:
    """The actions of every class of the package, with what they take."""
    from vetro.cli.offline.checking import FirstOf
    from vetro.cli.offline.world import SearchPath, library_directory
    from vetro.engine.system import system_runtime
    from vetro.muranopl import MuranoError, describe_class, enable_testing, is_test_class
    from vetro.packages import open_package

    runtime = system_runtime()
    runtime.resolver = FirstOf([catalog, SearchPath([library_directory()])])
    enable_testing(runtime)
    if package.full_name != "io.murano":
        runtime.add_package(open_package(library_directory() / "io.murano"))
    found: list[dict[str, object]] = []
    try:
        made = runtime.add_package(package)
        for name in made.class_files:
            type_ = made.find_type(name)
            if is_test_class(type_):
                continue
            for method in describe_class(type_).methods:
                if method.is_action:
                    found.append(
                        {
                            "class": name,
                            "action": method.name,
                            "call": method.signature,
                            "arguments": [
                                {"name": item.name, "contract": item.contract}
                                for item in method.arguments
                            ],
                        }
                    )
    except MuranoError as error:
        remark(f"The actions cannot be read: {error.message}")
    return found
