"""The packages of a project that is deleted."""

from __future__ import annotations

from sqlalchemy import and_, select

from vetro.catalog.store import Catalog
from vetro.catalog.tables import packages
from vetro.catalog.uses import PackageUses
from vetro.http import NotFound, Principal
from vetro.storage import Transaction


async def packages_of_project(tx: Transaction, project_id: str) -> dict[str, str]:
    """A project's packages: names and versions by id; public ones are marked."""
    mine = and_(packages.c.owner_id == project_id, packages.c.deleted.is_(None))
    query = select(packages).where(mine)
    rows = await tx.execute(query.order_by(packages.c.fully_qualified_name, packages.c.version))
    return {
        row.id: f"{row.fully_qualified_name} {row.version}" + (" (public)" if row.is_public else "")
        for row in rows
    }


async def delete_of_project(catalog: Catalog, principal: Principal, uses: PackageUses) -> None:
    """Delete the packages of the principal's project; archives in use by environments stay."""
    async with catalog.database.read() as tx:
        ids = list(await packages_of_project(tx, principal.project_id))
    for id_ in ids:
        try:
            await catalog.delete(principal, id_, uses, force=True)
        except NotFound:
            continue  # another request deleted it first
