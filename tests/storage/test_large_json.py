"""Large JSON is coded beside the event loop, and read in parts."""

import json
import threading

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, text, update

from vetro.storage import Database, Json, Keyring, SealedJson, jsontext, sealed, types

METADATA = MetaData()
VALUES = Table(
    "large_values",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("plain", Json),
    Column("secret", SealedJson),
)
SMALL = {"b": [1, None], "a": "ü"}
LARGE = {"objects": [{"name": "x" * 50, "number": number} for number in range(2_000)]}


@pytest.fixture
async def opened(tmp_path):
    """A database with keys and a table of values."""
    keyring = Keyring(tmp_path / "keys")
    keyring.create()
    database = await Database.open(f"sqlite:///{tmp_path}/x.db", keyring=keyring)
    async with database.transaction() as tx:
        await tx.execute(
            text("CREATE TABLE large_values (id INTEGER PRIMARY KEY, plain TEXT, secret TEXT)")
        )
    yield database
    await database.close()


@pytest.fixture
def coded_by(monkeypatch):
    """The threads that coded, each time: `(what was done, whether by the event loop)`."""
    loop = threading.get_ident()
    seen = []
    for name in ("encode", "decode"):
        real = getattr(jsontext, name)

        def code(value, real=real, name=name):
            seen.append((name, threading.get_ident() == loop))
            return real(value)

        for module in (types, sealed):
            monkeypatch.setattr(module, name, code)
    return seen


@pytest.mark.parametrize(("value", "by_the_loop"), [(SMALL, True), (LARGE, False)])
async def test_large_values_are_coded_in_threads(opened, coded_by, value, by_the_loop):
    """The loop codes small values; other threads write and read large ones."""
    async with opened.transaction() as tx:
        await tx.execute(insert(VALUES).values(id=1, plain=value, secret=value))
    async with opened.read() as tx:
        row = (await tx.execute(select(VALUES))).one()
    assert (row.plain, row.secret) == (value, value)
    assert list(row.plain) == list(value)
    assert coded_by == [("encode", by_the_loop)] * 2 + [("decode", by_the_loop)] * 2


async def test_results_with_json_can_be_read_in_every_way(opened):
    """Rows, mappings, scalars and the results of RETURNING have their usual values."""
    async with opened.transaction() as tx:
        for number in (1, 2):
            await tx.execute(insert(VALUES).values(id=number, plain=LARGE, secret=SMALL))
        changed = await tx.execute(update(VALUES).where(VALUES.c.id == 1).values(plain=SMALL))
        assert changed.rowcount == 1
        returned = await tx.execute(
            update(VALUES).where(VALUES.c.id == 2).values(secret=LARGE).returning(VALUES.c.secret)
        )
        assert returned.scalar_one() == LARGE
    ordered = select(VALUES.c.id, VALUES.c.plain).order_by(VALUES.c.id)
    async with opened.read() as tx:
        assert [tuple(row) for row in await tx.execute(ordered)] == [(1, SMALL), (2, LARGE)]
        assert (await tx.execute(ordered)).mappings().first()["plain"] == SMALL
        assert (await tx.execute(select(VALUES.c.plain).where(VALUES.c.id == 2))).scalar() == LARGE
        assert (await tx.execute(ordered.where(VALUES.c.id == 3))).first() is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=30),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
)


@given(JSON, st.integers(2, 40))
def test_a_text_read_in_parts_is_the_same_value(value, large):
    """However a text is split, its value equals that of one decoder call."""
    before = jsontext.LARGE
    jsontext.LARGE = large
    try:
        assert jsontext.decode(json.dumps(value)) == value
        assert jsontext.decode(f" \n{json.dumps(value, indent=1)} ") == value
        assert jsontext.decode(jsontext.encode(value)) == value
    finally:
        jsontext.LARGE = before


def test_no_call_of_the_decoder_takes_long(monkeypatch):
    """One call decodes only a small part, because other threads wait until it returns."""
    sizes = []
    real = msgspec.json.decode

    def decode(part):
        sizes.append(memoryview(part).nbytes)
        return real(part)

    monkeypatch.setattr(jsontext.msgspec.json, "decode", decode)
    assert jsontext.decode(json.dumps({"a": {"b": [LARGE, LARGE]}})) == {"a": {"b": [LARGE, LARGE]}}
    assert max(sizes) < jsontext.LARGE


@pytest.mark.parametrize("bad", ["", "[1, 2", '{"a": ' + "1" * 70_000, "[" * 10 + "x" * 70_000])
def test_what_is_no_json_is_refused(bad):
    """Short and long invalid texts raise the decoder's error."""
    with pytest.raises(msgspec.DecodeError):
        jsontext.decode(bad)
