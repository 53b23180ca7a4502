"""Categories of packages (catalog-api.md §6.3)."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from sqlalchemy import delete, func, insert, select

from vetro.catalog.tables import categories, package_categories
from vetro.catalog.times import api_time
from vetro.http import BadRequest, Conflict, Forbidden, NotFound
from vetro.random_ids import random_hex
from vetro.storage import Database, Transaction

COUNTED = select(
    categories,
    select(func.count())
    .where(package_categories.c.category_id == categories.c.id)
    .scalar_subquery()
    .label("package_count"),
)


class CategoryView(TypedDict):
    """A category as the API shows it."""

    id: str
    name: str
    created: str
    updated: str
    package_count: int


def _view(id_: str, name: str, created: datetime, updated: datetime, count: int) -> CategoryView:
    return {
        "id": id_,
        "name": name,
        "created": api_time(created),
        "updated": api_time(updated),
        "package_count": count,
    }


class CategoryStore:
    """The categories of all projects."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def listing(self) -> list[CategoryView]:
        """All categories with their number of packages."""
        async with self.database.read() as tx:
            found = await tx.execute(COUNTED.order_by(categories.c.name))
            return [_view(*row) for row in found]

    async def add(self, name: object) -> CategoryView:
        """Create a category. The caller has checked the policy. Errors: 400, 409."""
        if not isinstance(name, str) or not name.strip():
            raise BadRequest("A category needs a name")
        if len(name) > 80:
            # The wording that existing clients and their tests expect.
            raise BadRequest("Category name should be 80 characters maximum")
        id_, now = random_hex(), self.database.clock.now()
        async with self.database.transaction() as tx:
            await tx.exclude("catalog/categories")
            taken = await tx.execute(select(categories).where(categories.c.name == name))
            if taken.first() is not None:
                raise Conflict(f"Category '{name}' already exists")
            await tx.execute(insert(categories).values(id=id_, name=name, created=now, updated=now))
        return _view(id_, name, now, now, 0)

    async def get(self, id_: str) -> CategoryView:
        """A category. Errors: 404."""
        async with self.database.read() as tx:
            row = (await tx.execute(COUNTED.where(categories.c.id == id_))).first()
        if row is None:
            raise NotFound(f"Category {id_} does not exist", type_="CategoryNotFound")
        return _view(*row)

    async def delete(self, id_: str) -> None:
        """Remove an empty category. The caller has checked the policy. Errors: 403 in use, 404."""
        async with self.database.transaction() as tx:
            await tx.exclude("catalog/categories")
            row = (await tx.execute(select(categories).where(categories.c.id == id_))).first()
            if row is None:
                raise NotFound(f"Category {id_} does not exist", type_="CategoryNotFound")
            used = await tx.execute(
                select(package_categories).where(package_categories.c.category_id == id_)
            )
            if used.first() is not None:
                raise Forbidden(f"Category '{row.name}' has packages: it cannot be deleted")
            await tx.execute(delete(categories).where(categories.c.id == id_))


async def category_id(tx: Transaction, name: str) -> str:
    """The id of the category with this name, locked until the end of ``tx``. Errors: 400."""
    await tx.exclude("catalog/categories")
    row = (await tx.execute(select(categories).where(categories.c.name == name))).first()
    if row is None:
        raise BadRequest(f"Category '{name}' doesn't exist")
    return str(row.id)
