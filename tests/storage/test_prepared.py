"""Prepared statements: the same rows, errors and limits as SQLAlchemy's own way."""

import threading
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Column,
    Executable,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError, ResourceClosedError, StatementError

from vetro.storage import (
    Database,
    Json,
    Keyring,
    Prepared,
    SealedBytes,
    SealedJson,
    SealedText,
    StorageError,
    UtcDateTime,
    types,
)
from vetro.storage import sealed as of_sealed

metadata = MetaData()
things = Table(
    "prepared_things",
    metadata,
    Column("id", String(20), primary_key=True),
    Column("number", Integer),
    Column("flag", Boolean),
    Column("data", LargeBinary),
    Column("moment", UtcDateTime),
    Column("shape", Json),
    Column("secret", SealedJson),
    Column("word", SealedText),
    Column("blob", SealedBytes),
    Column("copies", Integer, default=7),
)
FULL = {
    "id": "full",
    "number": 3,
    "flag": True,
    "data": b"\x00\xff",
    "moment": datetime(2031, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    "shape": {"b": [1, None], "a": "ü"},
    "secret": {"password": "p"},
    "word": "w",
    "blob": b"\x01",
    "copies": 1,
}
EMPTY = {"id": "empty", "flag": False, "copies": 2}
ALL = select(things).order_by(things.c.id)
ONE = select(things).where(things.c.id == bindparam("wanted"))
SOME = (
    select(things.c.id)
    .where(
        things.c.id.in_(bindparam("ids", expanding=True)),
        things.c.id.not_in(["t8", "t9"]),
        things.c.number > bindparam("least"),
    )
    .order_by(things.c.id)
)


@pytest.fixture
async def sealed(database: Database, tmp_path: Any) -> AsyncIterator[Database]:
    """A database with keys and the table of things."""
    keyring = Keyring(tmp_path / "keys")
    keyring.create()
    opened = await Database.open(database.url, clock=database.clock, keyring=keyring)
    async with opened.transaction() as tx:
        await tx.connection.run_sync(metadata.create_all)
    yield opened
    async with opened.transaction() as tx:
        await tx.connection.run_sync(metadata.drop_all)
    await opened.close()


async def both(
    database: Database, statement: Executable, parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    """The rows of a reading statement, which are the same prepared and not prepared."""
    async with database.read() as tx:
        plain = [tuple(row) for row in await tx.execute(statement, parameters)]
        prepared = Prepared(statement)
        for _ in range(2):
            assert [tuple(row) for row in await tx.execute(prepared, parameters)] == plain
    return plain


async def test_values_of_every_type_are_written_and_read_alike(sealed: Database) -> None:
    """What a prepared statement writes SQLAlchemy reads, and the other way round; NULL too."""
    new = Prepared(insert(things))
    async with sealed.transaction() as tx:
        await tx.execute(new, FULL)
        await tx.execute(insert(things).values(**EMPTY))
        await tx.execute(new, {**FULL, "id": "other", "number": None, "secret": None})
    rows = await both(sealed, ALL, {})
    assert [row[0] for row in rows] == ["empty", "full", "other"]
    assert dict(zip(FULL, rows[1], strict=True)) == FULL
    async with sealed.read() as tx:
        stored = (await tx.execute(text("SELECT secret, word FROM prepared_things"))).all()
    assert all(one is None or one.startswith("sealed:") for row in stored for one in row)


async def test_rows_are_read_by_name_and_results_as_always(sealed: Database) -> None:
    """Rows have attributes; ``first``, ``one``, ``scalar_one`` and ``rowcount`` say what they say."""
    named = Prepared(ONE)
    counted = Prepared(select(func.count().label("n")).select_from(things))
    changed = Prepared(
        update(things).where(things.c.id == bindparam("wanted")).values(number=bindparam("now"))
    )
    gone = Prepared(
        delete(things)
        .where(things.c.id == bindparam("wanted"))
        .returning(things.c.number)
        .execution_options(short=True)
    )
    async with sealed.transaction() as tx:
        row = (await tx.execute(Prepared(insert(things).returning(things.c.id)), FULL)).one()
        assert row.id == "full"
        assert (await tx.execute(changed, {"wanted": "full", "now": 5})).rowcount == 1
        assert (await tx.execute(changed, {"wanted": "none", "now": 5})).rowcount == 0
        found = (await tx.execute(named, {"wanted": "full"})).one()
        assert (found.number, found.shape, found[0]) == (5, FULL["shape"], "full")
        assert (await tx.execute(named, {"wanted": "none"})).first() is None
        assert (await tx.execute(counted)).scalar_one() == 1
        assert (await tx.execute(gone, {"wanted": "full"})).scalar_one_or_none() == 5
        assert (await tx.execute(gone, {"wanted": "full"})).scalar_one_or_none() is None


@pytest.mark.parametrize("name", ["from", "_own", "a b", "count"])
async def test_any_name_of_a_column_is_one_of_its_row(sealed: Database, name: str) -> None:
    """Also those that cannot be written as an attribute."""
    query = Prepared(select(things.c.id.label(name), things.c.number))
    async with sealed.transaction() as tx:
        await tx.execute(Prepared(insert(things)), FULL)
        for row in (
            (await tx.execute(query)).one(),
            *(await tx.execute(query)).all(),
            *(await tx.execute(query)),
        ):
            assert row._mapping[name] == "full"
            assert (row[0], row.number) == ("full", FULL["number"])


async def test_the_first_row_ends_a_result_as_it_ends_those_of_sqlalchemy(
    sealed: Database,
) -> None:
    async with sealed.transaction() as tx:
        for name in ("a", "b", "c"):
            await tx.execute(insert(things).values(id=name, number=1))
    async with sealed.read() as tx:
        for statement in (Prepared(ALL), ALL):
            result = await tx.execute(statement)
            assert next(result).id == "a"
            second = result.first()
            assert second is not None
            assert (second.id, second._mapping["number"], second[0]) == ("b", 1, "b")
            for again in (result.first, result.all, result.scalar_one_or_none):
                with pytest.raises(ResourceClosedError):
                    again()


async def test_lists_of_any_length_are_parameters(sealed: Database) -> None:
    """A statement with a list finds the same for none, one and several values, in any order of calls."""
    async with sealed.transaction() as tx:
        for number in range(10):
            await tx.execute(insert(things).values(id=f"t{number}", number=number))
    for ids in (["t1", "t3"], [], ["t4"], ["t0", "t1", "t2"], ["t2", "t9"]):
        found = await both(sealed, SOME, {"ids": ids, "least": 0})
        assert [row[0] for row in found] == [one for one in ids if one not in ("t0", "t9")]


async def test_defaults_of_columns_and_of_parameters_hold(sealed: Database) -> None:
    """A column's default is filled in; a parameter that has a value need not be given."""
    async with sealed.transaction() as tx:
        await tx.execute(Prepared(insert(things)), {"id": "x"})
        await tx.execute(Prepared(insert(things)), {"id": "y", "copies": 1})
    assert [row[-1] for row in await both(sealed, ALL, {})] == [7, 1]
    of_seven = select(things.c.id).where(things.c.copies == bindparam("n", 7), things.c.id != "q")
    assert await both(sealed, of_seven, {}) == [("x",)]
    assert await both(sealed, of_seven, {"n": 1}) == [("y",)]


async def test_errors_are_those_of_sqlalchemy(sealed: Database) -> None:
    """A key that is taken is an ``IntegrityError``, a parameter that is missing a ``StatementError``."""
    new = Prepared(insert(things))
    async with sealed.transaction() as tx:
        await tx.execute(new, EMPTY)
    with pytest.raises(IntegrityError):
        async with sealed.transaction() as tx:
            await tx.execute(new, EMPTY)
    with pytest.raises(StatementError):
        async with sealed.read() as tx:
            await tx.execute(Prepared(ONE), {})
    assert len(await both(sealed, ALL, {})) == 1


async def test_a_reading_unit_writes_nothing_and_locks_nothing(sealed: Database) -> None:
    """In a reading unit a prepared change, and a prepared lock, are refused as any other."""
    for statement in (insert(things), ONE.with_for_update()):
        given = EMPTY if statement.is_dml else {"wanted": "x"}
        with pytest.raises(StorageError):
            async with sealed.read() as tx:
                await tx.execute(Prepared(statement), given)


@pytest.mark.parametrize(("size", "by_the_loop"), [(3, True), (2_000, False)])
async def test_large_values_are_coded_in_threads(
    sealed: Database, monkeypatch: pytest.MonkeyPatch, size: int, by_the_loop: bool
) -> None:
    """The loop codes small values of prepared statements; other threads write and read large ones."""
    value = [{"name": "x" * 50, "number": number} for number in range(size)]
    loop, seen = threading.get_ident(), list[bool]()

    def watched(real: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def code(given: Any) -> Any:
            seen.append(threading.get_ident() == loop)
            return real(given)

        return code

    for module in (types, of_sealed):
        for name in ("encode", "decode"):
            monkeypatch.setattr(module, name, watched(getattr(module, name)))
    async with sealed.transaction() as tx:
        await tx.execute(Prepared(insert(things)), {**EMPTY, "shape": value, "secret": value})
    async with sealed.read() as tx:
        row = (await tx.execute(Prepared(ONE), {"wanted": "empty"})).one()
    assert (row.shape, row.secret) == (value, value)
    assert seen == [by_the_loop] * 4


@pytest.mark.parametrize("count", [1, 3, 5, 250])
async def test_several_sets_of_parameters_are_several_rows(sealed: Database, count: int) -> None:
    """All are written or none, in values of every type, and the error for one is the usual one."""
    new = Prepared(insert(things))
    rows = [{**FULL, "id": f"t{number:03}"} for number in range(count)]
    async with sealed.transaction() as tx:
        await tx.execute(new, rows)
    stored = await both(sealed, ALL, {})
    assert [dict(zip(FULL, row, strict=True)) for row in stored] == rows
    with pytest.raises(IntegrityError, match="prepared_things"):
        async with sealed.transaction() as tx:
            await tx.execute(new, [{**FULL, "id": "new"}, *rows])
    assert len(await both(sealed, ALL, {})) == count


async def test_large_values_of_several_sets_are_written_beside_the_loop(sealed: Database) -> None:
    """Those are left to SQLAlchemy, all of them."""
    rows = [{**FULL, "id": "a"}, {**FULL, "id": "b", "shape": ["x" * 70_000]}]
    async with sealed.transaction() as tx:
        await tx.execute(Prepared(insert(things)), rows)
    stored = await both(sealed, ALL, {})
    assert [dict(zip(FULL, row, strict=True)) for row in stored] == rows


async def test_databases_of_one_process_seal_with_their_own_keys(tmp_path: Path) -> None:
    """A statement that one database prepared uses the keys of the other there, or none."""
    add, read = Prepared(insert(things)), Prepared(select(things.c.secret, things.c.word))
    row = {"id": "x", "flag": True, "copies": 1, "secret": {"p": 1}, "word": "w"}
    for name in ("one", "two", "clear"):
        keyring = Keyring(tmp_path / f"{name}.keys") if name != "clear" else None
        if keyring is not None:
            keyring.create()
        url = f"sqlite:///{tmp_path}/{name}.db"
        database = await Database.open(url, keyring=keyring)
        async with database.transaction() as tx:
            await tx.connection.run_sync(metadata.create_all)
            await tx.execute(add, row)
            assert (await tx.execute(read)).one() == ({"p": 1}, "w")
            (stored,) = (await tx.execute(text("select word from prepared_things"))).one()
        assert stored == "w" if keyring is None else keyring.open(stored) == b"w"
        await database.close()
