"""The package that a name or a class means for a project (packages-and-forms.md A7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import or_, select

from vetro.catalog.tables import classes, packages
from vetro.http import Principal
from vetro.packages import Version, version_spec
from vetro.storage import Database

#: Package names and versions.
Pins = Mapping[str, Collection[str]]
NO_PINS: Pins = {}


async def best_archive(
    database: Database, condition: Any, spec: str, project_id: str | None, pinned: Pins
) -> str | None:
    """The archive of the best package among those of a condition that a project may use.

    Its own come before public ones, then the highest version counts. ``pinned`` ones are found even
    if they were deleted or disabled.
    """
    near = or_(packages.c.is_public, packages.c.owner_id == (project_id or ""))
    query = select(packages).where(condition, near)
    async with database.read() as tx:
        rows = list(await tx.execute(query))
    wanted = version_spec(spec or None)
    fitting = [
        row
        for row in rows
        if Version.parse(row.version) in wanted
        and (row.enabled or row.version in pinned.get(row.fully_qualified_name, ()))
    ]
    if not fitting:
        return None
    best = max(
        fitting,
        key=lambda row: (
            row.enabled,
            row.owner_id == project_id,
            Version.parse(row.version),
        ),
    )
    return str(best.archive)


async def declaring_packages(
    database: Database, principal: Principal, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The packages that declare one of these classes; see `Catalog.declaring`."""
    if not names:
        return []
    mine = packages.c.owner_id == principal.project_id
    query = (
        select(packages, classes.c.name.label("class_name"))
        .join(classes, classes.c.package_id == packages.c.id)
        .where(
            classes.c.name.in_(list(names)),
            or_(mine, packages.c.is_public),
            packages.c.enabled,
            packages.c.deleted.is_(None),
        )
        .order_by(packages.c.name, packages.c.id)
    )
    found: dict[str, dict[str, Any]] = {}
    async with database.read() as tx:
        for row in await tx.execute(query):
            one = found.setdefault(
                row.id,
                {
                    "id": row.id,
                    "fully_qualified_name": row.fully_qualified_name,
                    "name": row.name,
                    "version": row.version,
                    "classes": [],
                },
            )
            one["classes"].append(row.class_name)
    return list(found.values())
