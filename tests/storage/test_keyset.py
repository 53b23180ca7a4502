"""Rows that follow a row in an order (keyset paging)."""

import itertools

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, asc, desc, insert, select

from vetro.storage import Database, following

BOOKS = Table(
    "keyset_books",
    MetaData(),
    Column("shelf", Integer),
    Column("title", String),
    Column("id", Integer),
)


@pytest.mark.parametrize("ways", list(itertools.product([False, True], repeat=3)))
async def test_every_row_of_an_order_is_followed_by_the_rest(
    database: Database, ways: tuple[bool, ...]
) -> None:
    """Whichever keys descend, the rows after each row are those that the order shows after it."""
    rows = [
        {"shelf": shelf, "title": title, "id": number}
        for number, (shelf, title) in enumerate(itertools.product([1, 2, 2], ["a", "b", "b"]))
    ]
    async with database.transaction() as tx:
        await tx.connection.run_sync(BOOKS.metadata.create_all)
        await tx.execute(insert(BOOKS), rows)
    order = [
        (desc if descends else asc)(column)
        for column, descends in zip(BOOKS.columns, ways, strict=True)
    ]
    async with database.read() as tx:
        shown = list(await tx.execute(select(BOOKS).order_by(*order)))
        for place, row in enumerate(shown):
            keys = list(zip(BOOKS.columns, row, ways, strict=True))
            after = select(BOOKS).where(following(keys)).order_by(*order)
            assert list(await tx.execute(after)) == shown[place + 1 :]
