"""The package that a name or a class means for a project (packages-and-forms.md A7)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select

from vetro.blobs import BlobStore
from vetro.catalog.archives import fetch_archive
from vetro.catalog.inheritance import GENERATIONS
from vetro.catalog.tables import classes, packages
from vetro.packages import Version, open_package, version_spec
from vetro.storage import Database, Transaction

#: Package names and versions.
Pins = Mapping[str, Collection[str]]
NO_PINS: Pins = {}


async def best_archive(
    database: Database, condition: object, spec: str, project_id: str | None, pinned: Pins
) -> str | None:
    """The archive of the best package among those of a condition that a project may use.

    Its own come before public ones, then the highest version counts. ``pinned`` ones are found even
    if they were deleted or disabled.
    """
    async with database.read() as tx:
        return await best_archive_in(tx, condition, spec, project_id, pinned)


async def best_archive_in(
    tx: Transaction, condition: Any, spec: str, project_id: str | None, pinned: Pins = NO_PINS
) -> str | None:
    """`best_archive` in a transaction."""
    near = or_(packages.c.is_public, packages.c.owner_id == (project_id or ""))
    query = select(packages).where(condition, near)
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


@lru_cache(maxsize=1000)
def _parents(path: Path, name: str) -> tuple[str, ...]:
    # The name of an archive's file is its digest: what it has never changes.
    return tuple(open_package(path).parents_of(name))


async def ancestors_of(
    tx: Transaction, blobs: BlobStore, name: str, project_id: str
) -> tuple[str, ...]:
    """The classes that a class inherits, as far as packages that a project may use define them."""
    found: dict[str, None] = {}
    generation = [name]
    for _ in range(GENERATIONS):
        parents: list[str] = []
        for one in generation:
            declares = packages.c.id.in_(select(classes.c.package_id).where(classes.c.name == one))
            archive = await best_archive_in(tx, declares, "*", project_id)
            if archive is not None:
                path = await fetch_archive(blobs, archive, tx)
                parents += await asyncio.to_thread(_parents, path, one)
        generation = [one for one in dict.fromkeys(parents) if one not in found and one != name]
        if not generation:
            break
        found.update(dict.fromkeys(generation))
    return tuple(found)
