"""Texts that wait beside the index of words: they are found, changed and removed as those inside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.catalog.conftest import Shelf, person

from vetro.catalog import MIGRATIONS, Catalog, PackageQuery, adding, rebuild_index
from vetro.catalog.indexing import EACH, SHORT_TEXT, text_number
from vetro.storage import Database, copy_database, migrate


def searched(word: str, **more: Any) -> PackageQuery:
    """A search for a word."""
    return PackageQuery(catalog=True, limit=100, search=[word], **more)


async def found(shelf: Shelf, word: str, **more: Any) -> list[str]:
    """The full names that a search for a word finds, in its order."""
    views, _ = await shelf.catalog.search(person("p"), searched(word, **more))
    return [view["fully_qualified_name"] for view in views]


@pytest.fixture(autouse=True)
def counted_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same ids in every run: which texts wait depends on them."""
    numbers = count()
    monkeypatch.setattr(adding, "random_hex", lambda: f"{next(numbers):032x}")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncGenerator[Shelf, None]:
    """An empty catalog on SQLite."""
    database = await Database.open(f"sqlite:///{tmp_path}/one.db")
    try:
        await migrate(database, [MIGRATIONS])
        yield Shelf(Catalog(database, tmp_path / "packages"), tmp_path)
    finally:
        await database.close()


async def kept(database: Database) -> tuple[set[str], set[str]]:
    """The packages whose texts wait, and those whose texts are in the index of words."""
    async with database.read() as tx:
        waiting = await tx.execute(text("SELECT package_id FROM catalog_index WHERE is_waiting"))
        inside = await tx.execute(text("SELECT package_id FROM catalog_index_text"))
        return {row.package_id for row in waiting}, {row.package_id for row in inside}


async def some(shelf: Shelf, count: int) -> dict[str, str]:
    """Packages, so many that some wait and some do not: their names by their ids."""
    names = [f"org.acme.Number{number}" for number in range(count)]
    rows = [await shelf.add(file=shelf.archive(name)) for name in names]
    return {row["id"]: name for row, name in zip(rows, names, strict=True)}


async def test_a_text_is_found_whether_it_waits_or_not(shelf: Shelf) -> None:
    """Each is found at once, by a part of a word, and once; what has other words is not."""
    added = await some(shelf, 3 * EACH)
    for name in added.values():
        assert await found(shelf, name[5:].lower() + "\n") == []
        assert (await found(shelf, name[4:]))[:1] == [name]
    assert sorted(await found(shelf, "cme.numb")) == sorted(added.values())
    assert await found(shelf, "zzzz") == []


async def test_each_text_waits_or_is_in_the_index(sqlite: Shelf) -> None:
    """Never both nor neither, after additions, changes and deletions; few wait."""
    added = await some(sqlite, 6 * EACH)
    waiting, inside = await kept(sqlite.catalog.database)
    assert waiting
    assert inside
    assert waiting | inside == set(added)
    assert not waiting & inside
    for id_ in added:
        if text_number(id_) % EACH == 0:
            assert id_ in inside
    for place, (id_, name) in enumerate(added.items()):
        if place % 3 == 0:
            await sqlite.catalog.delete(person("p"), id_, sqlite.uses)
            assert name not in await found(sqlite, name[4:])
        elif place % 3 == 1:
            change = [{"op": "replace", "path": "/description", "value": f"new words {place:03}"}]
            await sqlite.catalog.patch(person("p"), id_, change, sqlite.uses)
            assert await found(sqlite, f"new words {place:03}") == [name]
    waiting, inside = await kept(sqlite.catalog.database)
    left = {id_ for place, id_ in enumerate(added) if place % 3}
    assert waiting | inside == left
    assert not waiting & inside


async def test_pages_go_on_across_texts_that_wait(shelf: Shelf) -> None:
    """A page continues after its marker, although a text was added to the index meanwhile."""
    added = await some(shelf, EACH)
    seen: list[str] = []
    marker = None
    while True:
        query = PackageQuery(catalog=True, limit=3, search=["number"], marker=marker)
        views, marker = await shelf.catalog.search(person("p"), query)
        seen += [view["fully_qualified_name"] for view in views]
        if marker is None:
            break
        for other in range(EACH):  # one of so many takes what waits into the index
            await shelf.add(file=shelf.archive(f"org.acme.Other{len(seen)}x{other}"))
    assert sorted(seen) == sorted(added.values())


async def test_a_long_text_does_not_wait(sqlite: Shelf) -> None:
    """Many of them would be added together."""
    file = sqlite.archive("org.acme.Long", description="long words " * SHORT_TEXT)
    row = await sqlite.add(file=file)
    assert await kept(sqlite.catalog.database) == (set(), {row["id"]})


async def test_another_process_finds_and_removes_a_text_that_waits(
    sqlite: Shelf, tmp_path: Path
) -> None:
    """What waits is known to the database, not to the process that added it."""
    added = await some(sqlite, 2 * EACH)
    other = await Database.open(f"sqlite:///{tmp_path}/one.db")
    try:
        beside = Shelf(Catalog(other, tmp_path / "packages"), tmp_path)
        assert sorted(await found(beside, "number")) == sorted(added.values())
        for id_ in added:
            await beside.catalog.delete(person("p"), id_, beside.uses)
        assert await kept(other) == (set(), set())
        assert await found(sqlite, "number") == []
    finally:
        await other.close()


async def test_a_copy_of_a_database_finds_what_waits(sqlite: Shelf, tmp_path: Path) -> None:
    """Its index is filled anew; each text is in it once, or waits there too."""
    added = await some(sqlite, 3 * EACH)
    copy = await Database.open(f"sqlite:///{tmp_path}/two.db")
    try:
        await copy_database(sqlite.catalog.database, copy, [MIGRATIONS], rebuild=[rebuild_index])
        assert await kept(copy) == await kept(sqlite.catalog.database)
        beside = Shelf(Catalog(copy, tmp_path / "packages"), tmp_path, uploads=1000)
        assert sorted(await found(beside, "number")) == sorted(added.values())
        for number in range(2 * EACH):
            await beside.add(file=beside.archive(f"org.acme.Later{number}"))
        assert len(await found(beside, "later")) == 2 * EACH
    finally:
        await copy.close()
