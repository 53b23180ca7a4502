"""The classes that packages declare, and what they extend: who can make an object for a field (B4).

What a package's classes extend is stored when it is added; packages from before that are read when a
form asks for the first time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, or_, select, update

from vetro.blobs import BlobStore
from vetro.catalog.archives import fetch_archive
from vetro.catalog.tables import add_rows, classes, packages, parents
from vetro.http import Principal
from vetro.packages import Package, open_package
from vetro.storage import Database, Transaction

#: Longer chains of classes are not followed.
GENERATIONS = 20
#: Longer names are not stored: no class of the catalog has one.
LONGEST = 128
#: Rows of one package: a class that extends hundreds of others is not offered for all of them.
MOST_PARENTS = 5000
#: What every class inherits; it is not stored.
ROOT = "io.murano.Object"
#: Packages that a form offers for one class, those that declare it first.
MOST_OFFERED = 50


def parents_in(package: Package) -> list[tuple[str, str]]:
    """Each class of a package with each class that it extends. Reads every class file."""
    found = [
        (name, parent)
        for name in package.classes
        for parent in dict.fromkeys(package.parents_of(name))
        if parent != ROOT and len(parent) <= LONGEST
    ]
    return found[:MOST_PARENTS]


async def index_parents(tx: Transaction, id_: str, pairs: Iterable[tuple[str, str]]) -> None:
    """Store what the classes of a package extend."""
    rows = [{"package_id": id_, "name": name, "parent": parent} for name, parent in pairs]
    await add_rows(tx, parents, rows)


def _with_class(names: Sequence[str]) -> Select[tuple[object]]:
    return select(classes.c.package_id).where(classes.c.name.in_(names))


def _usable(principal: Principal) -> ColumnElement[bool]:
    mine = packages.c.owner_id == principal.project_id
    return and_(or_(mine, packages.c.is_public), packages.c.enabled, packages.c.deleted.is_(None))


async def _index_older(database: Database, blobs: BlobStore, principal: Principal) -> None:
    """Index the packages that were added before there was an index."""
    declares = select(classes.c.package_id)
    unread = packages.c.parents_known.is_(False)
    query = select(packages.c.id, packages.c.archive).where(
        _usable(principal), packages.c.id.in_(declares), unread
    )
    async with database.read() as tx:
        older = [(row.id, row.archive) for row in await tx.execute(query)]
    for id_, archive in older:
        pairs = await asyncio.to_thread(_read, await fetch_archive(blobs, archive))
        async with database.transaction() as tx:
            await tx.exclude(f"catalog/parents/{id_}")
            mark = update(packages).where(packages.c.id == id_, unread).values(parents_known=True)
            if (await tx.execute(mark)).rowcount:
                # A service of an earlier version may have stored some.
                await tx.execute(delete(parents).where(parents.c.package_id == id_))
                await index_parents(tx, id_, pairs)


def _read(path: Path) -> list[tuple[str, str]]:
    return parents_in(open_package(path))


async def _heirs(tx: Transaction, principal: Principal, wanted: str) -> list[str]:
    """The classes of usable packages that inherit a class."""
    found: dict[str, None] = {}
    generation = [wanted]
    for _ in range(GENERATIONS):
        query = (
            select(parents.c.name)
            .join(packages, packages.c.id == parents.c.package_id)
            .where(parents.c.parent.in_(generation), _usable(principal))
            .distinct()
            .order_by(parents.c.name)
        )
        named = [row.name for row in await tx.execute(query)]
        generation = [name for name in named if name not in found and name != wanted]
        if not generation:
            break
        found.update(dict.fromkeys(generation))
    return list(found)


async def making_packages(
    database: Database, blobs: BlobStore, principal: Principal, names: Sequence[str]
) -> list[dict[str, object]]:
    """The packages that have a class for one of these names; see `Catalog.making`."""
    if not names:
        return []
    await _index_older(database, blobs, principal)
    found: dict[str, dict[str, Any]] = {}
    async with database.read() as tx:
        for name in names:
            declares = packages.c.id.in_(_with_class([name]))
            if name == ROOT:
                heirs = select(classes.c.package_id)
            else:
                heirs = _with_class(await _heirs(tx, principal, name))
            inherits = and_(packages.c.id.in_(heirs), packages.c.type == "Application")
            query = (
                select(packages)
                .where(_usable(principal), or_(declares, inherits))
                .order_by(inherits, packages.c.name, packages.c.id)
                .limit(MOST_OFFERED)
            )
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
                one["classes"].append(name)
    return sorted(found.values(), key=lambda one: (str(one["name"]), str(one["id"])))
