"""Who can make an object for a field: packages with a class, and applications that inherit it."""

from typing import Any

from sqlalchemy import delete, update

from vetro.catalog.tables import packages, parents

Shelf = Any  # the fixture of conftest.py


async def test_packages_that_declare_classes(shelf: Shelf, user: Any) -> None:
    """Those of the project and public ones, each with the classes that were asked for; not disabled ones."""
    mine = await shelf.add("p", file=shelf.archive("p.Two", classes=["p.One", "p.Two", "p.Three"]))
    theirs = await shelf.add("q", admin=True, file=shelf.archive("q.Four"), is_public=True)
    await shelf.add("q", file=shelf.archive("q.Five"))
    await shelf.add("p", file=shelf.archive("p.Six"), enabled=False)
    wanted = ["p.One", "p.Two", "q.Four", "q.Five", "p.Six"]
    found = await shelf.catalog.making(user("p"), wanted)
    assert {one["id"]: set(one["classes"]) for one in found} == {
        mine["id"]: {"p.One", "p.Two"},
        theirs["id"]: {"q.Four"},
    }
    assert await shelf.catalog.making(user("p"), []) == []


async def test_applications_are_offered_for_what_their_classes_inherit(
    shelf: Shelf, user: Any
) -> None:
    """Also in several steps, and those of packages that were stored before what they extend was; all of
    them for io.murano.Object, which every class inherits."""
    await shelf.add("p", file=shelf.archive("p.Base", extends={"p.Base": "p.Root"}))
    heir = shelf.archive("p.Heir", extends={"p.Heir": "p.Base"}, type_="Application")
    heir_id = (await shelf.add("p", file=heir))["id"]
    plain = await shelf.add("p", file=shelf.archive("p.Plain", type_="Application"))
    database = shelf.catalog.database
    for _ in range(2):
        for name, expected in (
            ("p.Root", {heir_id}),
            ("p.Plain", {plain["id"]}),
            ("io.murano.Object", {heir_id, plain["id"]}),
        ):
            found = await shelf.catalog.making(user("p"), [name])
            assert {one["id"] for one in found} == expected, name
        # As versions before left them.
        async with database.transaction() as tx:
            await tx.execute(update(packages).values(parents_known=False))
            await tx.execute(delete(parents).where(parents.c.name != "p.Heir"))
