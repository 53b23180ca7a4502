"""Packages as the API shows them, and the pages of a search (catalog-api.md §6.2, §9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, func, or_, select

from vetro.catalog.indexing import candidates, weight
from vetro.catalog.search import ORDER_COLUMNS, PackageQuery
from vetro.catalog.tables import categories, classes, index, package_categories, packages, tags
from vetro.catalog.times import api_time
from vetro.http import Extras, NotFound, Principal
from vetro.packages import Signers
from vetro.storage import Database, Prepared, StoredRow, Transaction, following

#: What a package has beyond the API's sample, whose fields are exact (§14).
EXTRAS = Extras(("signature",))


def package_object(
    row: StoredRow, names: Mapping[str, list[str]], signers: Signers
) -> dict[str, Any]:
    """The package object (§6.2); ``names``: its classes, tags and categories."""
    return {
        "id": row.id,
        "name": row.name,
        "fully_qualified_name": row.fully_qualified_name,
        "version": row.version,
        "type": row.type,
        "author": row.author or "",
        "description": row.description or "",
        "supplier": row.supplier,
        **names,
        "owner_id": row.owner_id,
        "is_public": row.is_public,
        "enabled": row.enabled,
        "signature": signers.describe(row.signature),
        "created": api_time(row.created),
        "updated": api_time(row.updated),
    }


_IDS: BindParameter[list[str]] = bindparam("ids", expanding=True)
_PARTS: dict[str, Prepared] = {
    "class_definitions": Prepared(
        select(classes.c.package_id, classes.c.name)
        .where(classes.c.package_id.in_(_IDS))
        .order_by(classes.c.name)
    ),
    "tags": Prepared(
        select(tags.c.package_id, tags.c.name)
        .where(tags.c.package_id.in_(_IDS))
        .order_by(tags.c.position)
    ),
    "categories": Prepared(
        select(package_categories.c.package_id, categories.c.name)
        .join(categories, categories.c.id == package_categories.c.category_id)
        .where(package_categories.c.package_id.in_(_IDS))
        .order_by(categories.c.name)
    ),
}


async def package_views(
    tx: Transaction, rows: Sequence[StoredRow], signers: Signers
) -> list[dict[str, Any]]:
    """The package objects of rows, with their classes, tags and categories."""
    ids = [row.id for row in rows]
    names: dict[str, dict[str, list[str]]] = {
        id_: {"class_definitions": [], "tags": [], "categories": []} for id_ in ids
    }
    for key, query in _PARTS.items():
        for row in await tx.execute(query, {"ids": ids}):
            names[row.package_id][key].append(row.name)
    return [package_object(row, names[row.id], signers) for row in rows]


_Key = tuple[ColumnElement[str] | ColumnElement[int], bool]
"""What a list is ordered by, and whether it descends."""


async def search_packages(
    database: Database, principal: Principal, query: PackageQuery, signers: Signers
) -> tuple[list[dict[str, object]], str | None]:
    """A page of packages and the marker of the next; see `Catalog.search`."""
    columns = [packages.c[ORDER_COLUMNS[name]] for name in query.order_by]
    ordered = (*columns, packages.c.id)
    keys: list[_Key] = [(one, query.descending) for one in ordered]
    words = [word.lower() for word in query.search]
    if words:
        keys.insert(0, (weight(words), False))
    source = select(packages, index.c.names).join(index, index.c.package_id == packages.c.id)
    chosen = source.where(_visible(principal, query))
    async with database.read() as tx:
        if words:
            likely = candidates(words, is_sqlite=tx.is_sqlite)
            chosen = chosen.where(keys[0][0].is_not(None))
            if likely is not None:
                chosen = chosen.where(likely)
        if query.marker is not None:
            chosen = chosen.where(await _after(tx, principal, query.marker, keys))
        chosen = chosen.order_by(*(key.desc() if descending else key for key, descending in keys))
        rows = list(await tx.execute(chosen.limit(query.limit + 1)))
    page = rows[: query.limit]
    more = len(rows) > query.limit
    return [package_object(row, row.names, signers) for row in page], (
        page[-1].id if page and more else None
    )


def _visible(principal: Principal, query: PackageQuery) -> ColumnElement[bool]:
    mine = packages.c.owner_id == principal.project_id
    conditions: list[ColumnElement[bool]] = [packages.c.deleted.is_(None)]
    if query.catalog or not principal.is_admin:
        conditions.append(or_(mine, packages.c.is_public))
    if query.owned:
        conditions.append(mine)
    if not query.include_disabled:
        conditions.append(packages.c.enabled)
    for value, column in (
        (query.fqn, packages.c.fully_qualified_name),
        (query.name, packages.c.name),
        (query.version, packages.c.version),
    ):
        if value is not None:
            conditions.append(column == value)
    if query.type is not None:
        conditions.append(func.lower(packages.c.type) == query.type.lower())
    if query.ids is not None:
        conditions.append(packages.c.id.in_(query.ids))
    if query.class_name is not None:
        conditions.append(
            packages.c.id.in_(
                select(classes.c.package_id).where(classes.c.name == query.class_name)
            )
        )
    if query.tags is not None:
        conditions.append(
            packages.c.id.in_(select(tags.c.package_id).where(tags.c.name.in_(query.tags)))
        )
    if query.categories is not None:
        conditions.append(
            packages.c.id.in_(
                select(package_categories.c.package_id)
                .join(categories, categories.c.id == package_categories.c.category_id)
                .where(categories.c.name.in_(query.categories))
            )
        )
    return and_(*conditions)


async def _after(
    tx: Transaction,
    principal: Principal,
    marker: str,
    keys: list[_Key],
) -> ColumnElement[bool]:
    """The condition for what comes after a package in an order. Errors: 404."""
    labels = [key.label(f"key_{place}") for place, (key, _) in enumerate(keys)]
    query = select(packages.c.owner_id, packages.c.is_public, *labels).join(
        index, index.c.package_id == packages.c.id
    )
    there = and_(packages.c.id == marker, packages.c.deleted.is_(None))
    row = (await tx.execute(query.where(there))).first()
    mine = row is not None and (
        row.is_public or row.owner_id == principal.project_id or principal.is_admin
    )
    if row is None or not mine or row.key_0 is None:
        raise NotFound(f"Marker {marker} is not the id of a package in this list")
    return following(
        [(key, row[place + 2], descending) for place, (key, descending) in enumerate(keys)]
    )
